//! Bookkeeping of requests: which are under way, which failed and when they may be sent again.
//!
//! It only decides *when* a request is repeated; what makes it safe is its precondition.

use std::collections::{BTreeMap, BTreeSet};

use crate::{settings::Settings, view::Monotonic};

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As wanted; what came back has been folded into the store.
    Done,
    /// The object moved on (409, or a failed `test`): wait for a newer version.
    Conflict,
    /// The target says no for good or for now (403, 404 of the namespace, 422…): an answer with this reason.
    Refused(String),
    /// Confirmed gone.
    Gone,
    /// It is still there, whatever our store says.
    StillThere,
    /// No answer, or one that says nothing: it may or may not have happened.
    Unknown(String),
}

/// A request that failed, and when it may be sent again.
#[derive(Clone, Debug)]
struct Failure {
    times: u32,
    retry_at: Monotonic,
    /// Version of the object that it was judged on: a newer one makes it worth trying at once.
    judged_on: Option<String>,
}

/// When an action may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Now,
    At(Monotonic),
    UnderWay,
}

/// Requests by what they are about; no two with one key are under way at a time.
#[derive(Clone, Debug)]
pub(crate) struct Requests<K> {
    under_way: BTreeSet<K>,
    failures: BTreeMap<K, Failure>,
}

impl<K> Default for Requests<K> {
    fn default() -> Self {
        Self {
            under_way: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord> Requests<K> {
    pub(crate) fn begin(&mut self, key: K) {
        self.under_way.insert(key);
    }

    /// Takes in how a request ended; `judged_on` is the version whose successor a conflict waits for.
    pub(crate) fn finish(
        &mut self,
        key: K,
        judged_on: Option<&str>,
        outcome: &Outcome,
        settings: &Settings,
        now: Monotonic,
    ) {
        self.under_way.remove(&key);
        match outcome {
            Outcome::Done | Outcome::Gone => {
                self.failures.remove(&key);
            }
            Outcome::Conflict | Outcome::Refused(_) | Outcome::StillThere | Outcome::Unknown(_) => {
                let times = self
                    .failures
                    .get(&key)
                    .map_or(0, |f| f.times)
                    .saturating_add(1);
                let (first, longest) = settings.retry;
                let wait = first.saturating_mul(1 << (times - 1).min(16)).min(longest);
                let judged_on = match outcome {
                    Outcome::Conflict => judged_on.map(str::to_owned),
                    _ => None,
                };
                self.failures.insert(
                    key,
                    Failure {
                        times,
                        retry_at: now + wait,
                        judged_on,
                    },
                );
            }
        }
    }

    pub(crate) fn readiness(&self, key: &K, judged_on: Option<&str>, now: Monotonic) -> Readiness {
        if self.under_way.contains(key) {
            return Readiness::UnderWay;
        }
        match self.failures.get(key) {
            Some(failure) if now < failure.retry_at => {
                let moved_on =
                    failure.judged_on.is_some() && failure.judged_on.as_deref() != judged_on;
                if moved_on {
                    Readiness::Now
                } else {
                    Readiness::At(failure.retry_at)
                }
            }
            _ => Readiness::Now,
        }
    }

    pub(crate) fn is_under_way(&self, key: &K) -> bool {
        self.under_way.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Monotonic = Duration::from_secs(100);

    #[test]
    fn a_failed_request_waits_twice_as_long_each_time() {
        let settings = Settings::default();
        let mut requests = Requests::default();
        for milliseconds in [250, 500, 1000] {
            requests.begin("k");
            assert_eq!(requests.readiness(&"k", None, NOW), Readiness::UnderWay);
            requests.finish(
                "k",
                None,
                &Outcome::Unknown("timed out".into()),
                &settings,
                NOW,
            );
            let retry = NOW + Duration::from_millis(milliseconds);
            assert_eq!(requests.readiness(&"k", None, NOW), Readiness::At(retry));
            assert_eq!(requests.readiness(&"k", None, retry), Readiness::Now);
        }
        requests.finish("k", None, &Outcome::Done, &settings, NOW);
        assert_eq!(requests.readiness(&"k", None, NOW), Readiness::Now);
    }

    #[test]
    fn a_conflict_waits_for_a_newer_version() {
        let mut requests = Requests::default();
        requests.begin("k");
        requests.finish(
            "k",
            Some("7"),
            &Outcome::Conflict,
            &Settings::default(),
            NOW,
        );
        assert!(matches!(
            requests.readiness(&"k", Some("7"), NOW),
            Readiness::At(_)
        ));
        assert_eq!(requests.readiness(&"k", Some("8"), NOW), Readiness::Now);
    }
}
