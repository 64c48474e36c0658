//! A way to talk to a target, replaced as a whole.

use std::fmt;

use kube::Client;
use tokio::sync::watch;

use crate::door::streams::Streams;

/// A client and its place in the sequence of clients of one target.
#[derive(Clone)]
pub struct Session {
    /// Rises with each new client: after a changed secret, and after each loss, so that nothing waits on a connection
    /// that died silently.
    pub generation: u64,
    /// The client.
    pub client: Client,
    /// The other way, for streams.
    pub(crate) streams: Option<Streams>,
    /// Changes when another cluster may be behind the client.
    pub(crate) realm: u64,
}

impl Session {
    /// A session that never changes.
    pub(crate) fn fixed(client: Client) -> watch::Receiver<Option<Self>> {
        // The receiver outlives the sender, which then simply never sends.
        watch::Sender::new(Some(Self {
            generation: 0,
            client,
            streams: None,
            realm: 0,
        }))
        .subscribe()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
