//! An edge that is measured, each of its polls: nothing else of its thread goes on meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use pilotage_absurd::steps::Times;
use tokio::time::sleep;

use crate::edge::{PATIENCE, SCENE};

/// Nobody tells when something else came to be so.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What runs, under the name of its steps.
pub(crate) struct Edge<T> {
    pub(crate) name: &'static str,
    pub(crate) future: BoxFuture<'static, T>,
}

impl<T> Edge<T> {
    /// Polls it until something is so, whoever brings that about.
    pub(crate) async fn until(&mut self, times: &mut Times, name: &str, so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !self.polled(times, name, LOOK_AGAIN, &so).await {
            assert!(begun.elapsed() < PATIENCE, "{}: {name}", self.name);
        }
    }

    /// Polls it until it has had that much time.
    pub(crate) async fn scene(&mut self, times: &mut Times, name: &str) {
        self.polled(times, name, SCENE, || false).await;
    }

    async fn polled(
        &mut self,
        times: &mut Times,
        name: &str,
        most: Duration,
        so: impl Fn() -> bool,
    ) -> bool {
        let mut over = pin!(sleep(most));
        let name = format!("{}: {name}", self.name);
        poll_fn(|context| {
            let polled = times.step(&name, || self.future.as_mut().poll(context));
            assert!(polled.is_pending(), "it ended");
            if so() {
                return Poll::Ready(true);
            }
            over.as_mut().poll(context).map(|()| false)
        })
        .await
    }
}
