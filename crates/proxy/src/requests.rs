//! Bookkeeping of requests: which are under way, which failed and when they may be sent again.
//!
//! It only decides *when* a request is repeated; what makes it safe is its precondition.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, bounds};

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

/// What came back of a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// How it ended.
    pub outcome: Outcome,
    /// The chaperon as it is now, if it came back.
    pub chaperon: Option<Arc<PodChaperon>>,
    /// The proxy pod as it is now, if it came back.
    pub proxy: Option<Arc<Pod>>,
}

impl Reply {
    /// Takes the chaperon out if it is old: a newer version is told already, or its end, which an old one must not
    /// undo.
    pub fn drop_old(&mut self, is_old: impl FnOnce(&PodChaperon) -> bool) {
        if self.chaperon.as_deref().is_some_and(is_old) {
            self.chaperon = None;
        }
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            chaperon: None,
            proxy: None,
        }
    }
}

/// How long the watch may take to show what a request has changed, before it is sent again.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// As many failures are kept before old ones are forgotten.
const MOST_FAILURES: usize = 32;

/// A request that failed, or that may have changed nothing, and when it may be sent again.
#[derive(Clone, Debug)]
struct Failure {
    times: u32,
    retry_at: Monotonic,
    /// It was answered that all is as wanted.
    done: bool,
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
    /// With the version that each was judged on, if a newer one tells what became of it.
    under_way: BTreeMap<K, Option<String>>,
    failures: BTreeMap<K, Failure>,
}

impl<K> Default for Requests<K> {
    fn default() -> Self {
        Self {
            under_way: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

/// How long to wait before sending a request again that was sent in vain so many times before.
fn pause(settings: &Settings, before: u32) -> Duration {
    let (first, longest) = settings.retry;
    bounds::doubled(first, before, longest)
}

impl<K: Ord> Requests<K> {
    /// A request goes out, judged on this version of the object that it changes.
    pub(crate) fn begin(&mut self, key: K, judged_on: Option<&str>) {
        self.under_way.insert(key, judged_on.map(str::to_owned));
    }

    /// Takes in how a request ended.
    pub(crate) fn finish(
        &mut self,
        key: K,
        outcome: &Outcome,
        settings: &Settings,
        now: Monotonic,
    ) {
        let judged_on = self.under_way.remove(&key).flatten();
        match outcome {
            // What it changed shows in a newer version: until that is seen it isn't sent again.
            Outcome::Done if judged_on.is_some() => {
                let failure = Failure {
                    times: 0,
                    retry_at: now.saturating_add(SEEN_WITHIN),
                    done: true,
                    judged_on,
                };
                self.failures.insert(key, failure);
            }
            // Whoever says "done" and does nothing would be asked again at once, for ever.
            Outcome::Done => {
                let again = self
                    .failures
                    .get(&key)
                    .filter(|known| known.done && now < known.retry_at.saturating_add(SEEN_WITHIN));
                let times = again.map_or(0, |known| known.times.saturating_add(1));
                let before = times.checked_sub(1);
                let wait = before.map_or(Duration::ZERO, |before| pause(settings, before));
                let failure = Failure {
                    times,
                    retry_at: now.saturating_add(wait),
                    done: true,
                    judged_on: None,
                };
                self.failures.insert(key, failure);
            }
            Outcome::Gone => {
                self.failures.remove(&key);
            }
            Outcome::Conflict | Outcome::Refused(_) | Outcome::StillThere | Outcome::Unknown(_) => {
                let before = self.failures.get(&key).filter(|known| !known.done);
                let before = before.map_or(0, |known| known.times);
                let judged_on = judged_on.filter(|_| *outcome == Outcome::Conflict);
                // The same on the same version would end in the same way: the watch brings a newer one.
                let least = judged_on.as_ref().map_or(Duration::ZERO, |_| SEEN_WITHIN);
                let wait = pause(settings, before).max(least);
                self.failures.insert(
                    key,
                    Failure {
                        times: before.saturating_add(1),
                        retry_at: now.saturating_add(wait),
                        done: false,
                        judged_on,
                    },
                );
            }
        }
    }

    pub(crate) fn readiness(&self, key: &K, judged_on: Option<&str>, now: Monotonic) -> Readiness {
        if self.under_way.contains_key(key) {
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

    /// Forgets failures of long ago, so that a pod that waits for ever doesn't gather them.
    pub(crate) fn trim(&mut self, now: Monotonic) {
        if self.failures.len() > MOST_FAILURES {
            self.failures.retain(|_, failure| now < failure.retry_at);
        }
    }

    pub(crate) fn is_under_way(&self, key: &K) -> bool {
        self.under_way.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Monotonic = Duration::from_secs(100);

    #[test]
    fn a_failed_request_waits_twice_as_long_each_time() {
        let settings = Settings::default();
        let mut requests = Requests::default();
        for milliseconds in [250, 500, 1000] {
            requests.begin("k", None);
            assert_eq!(requests.readiness(&"k", None, NOW), Readiness::UnderWay);
            let lost = Outcome::Unknown("timed out".into());
            requests.finish("k", &lost, &settings, NOW);
            let retry = NOW + Duration::from_millis(milliseconds);
            assert_eq!(requests.readiness(&"k", None, NOW), Readiness::At(retry));
            assert_eq!(requests.readiness(&"k", None, retry), Readiness::Now);
        }
        requests.finish("k", &Outcome::Done, &settings, NOW);
        assert_eq!(requests.readiness(&"k", None, NOW), Readiness::Now);
    }

    #[test]
    fn who_says_done_and_does_nothing_is_asked_again_after_a_pause() {
        let settings = Settings::default();
        let mut requests = Requests::default();
        let mut now = NOW;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            requests.begin("k", None);
            requests.finish("k", &Outcome::Done, &settings, now);
            pauses.push(match requests.readiness(&"k", None, now) {
                Readiness::At(at) => at.saturating_sub(now).as_millis(),
                _ => 0,
            });
            now += Duration::from_millis(*pauses.last().unwrap() as u64);
        }
        assert_eq!(
            pauses,
            [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000]
        );
        // What was wanted once more a while later is no loop.
        now += SEEN_WITHIN;
        requests.finish("k", &Outcome::Done, &settings, now);
        assert_eq!(requests.readiness(&"k", None, now), Readiness::Now);
    }

    #[test]
    fn a_conflict_and_a_success_wait_for_a_newer_version() {
        for outcome in [Outcome::Conflict, Outcome::Done] {
            let mut requests = Requests::default();
            requests.begin("k", Some("7"));
            requests.finish("k", &outcome, &Settings::default(), NOW);
            let at = requests.readiness(&"k", Some("7"), NOW);
            assert_eq!(at, Readiness::At(NOW + SEEN_WITHIN), "{outcome:?}");
            assert_eq!(requests.readiness(&"k", Some("8"), NOW), Readiness::Now);
        }
    }
}
