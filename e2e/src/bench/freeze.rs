//! A target that stops answering without a word: its API server and etcd are stopped by SIGSTOP, connections stay open.

use std::time::{Duration, Instant};

use pilotage_testkit::{Part, Signal};
use tokio::sync::watch;

use super::error::Error;
use crate::fleet::Cluster;

/// A frozen target.
pub(super) struct Frozen<'a> {
    target: &'a Cluster,
    /// Since when.
    pub(super) at: Instant,
}

/// Freezes the target when so many pods were sent.
pub(super) async fn after(
    target: &Cluster,
    pods: usize,
    mut sent: watch::Receiver<usize>,
) -> Result<Frozen<'_>, Error> {
    // The sender lives as long as pods are created, so this ends.
    let _ = sent.wait_for(|sent| *sent >= pods).await;
    for part in [Part::ApiServer, Part::Etcd] {
        target.plane.signal(part, Signal::Stop).await?;
    }
    Ok(Frozen {
        target,
        at: Instant::now(),
    })
}

impl Frozen<'_> {
    /// Lets it go on; how long it was frozen.
    pub(super) async fn end(self) -> Result<Duration, Error> {
        for part in [Part::Etcd, Part::ApiServer] {
            self.target.plane.signal(part, Signal::Continue).await?;
        }
        Ok(self.at.elapsed())
    }
}
