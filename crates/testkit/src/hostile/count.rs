//! How often a server was asked for what, for tests to wait on. It knows nothing of answers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;

use crate::fault::{Call, Verb};
use crate::wait::WaitError;

/// Requests by what they do and to what: a resource, such as `podchaperons`, or else a path, such as `/readyz`.
pub type Counts = BTreeMap<(Verb, String), u64>;

/// Counts requests.
#[derive(Debug, Default)]
pub(super) struct Counter(watch::Sender<Counts>);

impl Counter {
    pub(super) fn add(&self, call: &Call) {
        let what = if call.resource.is_empty() {
            &call.path
        } else {
            &call.resource
        };
        self.0
            .send_modify(|counts| *counts.entry((call.verb, what.clone())).or_default() += 1);
    }

    pub(super) fn get(&self, verb: Verb, what: &str) -> u64 {
        count(&self.0.borrow(), verb, what)
    }

    pub(super) fn all(&self) -> watch::Receiver<Counts> {
        self.0.subscribe()
    }

    pub(super) async fn wait(
        &self,
        verb: Verb,
        what: &str,
        least: u64,
        limit: Duration,
    ) -> Result<u64, WaitError> {
        let mut counts = self.all();
        let enough = counts.wait_for(|counts| count(counts, verb, what) >= least);
        if let Ok(Ok(counts)) = tokio::time::timeout(limit, enough).await {
            return Ok(count(&counts, verb, what));
        }
        Err(WaitError {
            what: format!("request {least} to {verb:?} {what}"),
            after: limit,
            last: format!("{:?}", *self.0.borrow()),
            watch_error: None,
        })
    }
}

fn count(counts: &Counts, verb: Verb, what: &str) -> u64 {
    counts
        .get(&(verb, what.to_owned()))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_what_they_are_about() {
        let counter = Counter::default();
        let ask = |path: &str| counter.add(&Call::of(&Method::GET, &path.parse().unwrap()));
        ask("/readyz");
        ask("/api/v1/pods");
        ask("/api/v1/namespaces/n/pods?limit=1");
        assert_eq!(counter.get(Verb::Other, "/readyz"), 1);
        assert_eq!(counter.get(Verb::Watch, "pods"), 0);
        let limit = Duration::from_secs(1);
        let waiting = counter.wait(Verb::List, "pods", 3, limit);
        let (waited, ()) = tokio::join!(waiting, async { ask("/api/v1/pods") });
        assert_eq!(waited.unwrap(), 3);
        let error = counter
            .wait(Verb::List, "pods", 4, limit)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("(List, \"pods\"): 3"), "{error}");
    }
}
