//! Who failed how often in a row, and when each is tried again. Must not know what is tried; the clock is the caller's.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::moment::after;

/// Those who failed last time.
#[derive(Debug)]
pub struct Retries<K> {
    backoff: Backoff,
    /// How often, and when next; `None` while they are tried.
    failed: HashMap<K, (u32, Option<Instant>)>,
}

impl<K: Clone + Eq + Hash> Retries<K> {
    /// Nobody has failed yet.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            failed: HashMap::new(),
        }
    }

    /// Failed at `now`; when it is to be tried again.
    pub fn failed(&mut self, key: K, now: Instant) -> Instant {
        let (count, at) = self.failed.entry(key).or_default();
        *count = count.saturating_add(1);
        *at.insert(after(now, self.backoff.delay(*count, 0.0)))
    }

    /// Succeeded, or is gone: what it failed before doesn't count any more.
    pub fn succeeded(&mut self, key: &K) {
        if !self.failed.is_empty() {
            self.failed.remove(key);
        }
    }

    /// Whether it failed last time.
    pub fn has_failed(&self, key: &K) -> bool {
        self.failed.contains_key(key)
    }

    /// Those whose time has come, each once: whoever takes them says how each one ended.
    pub fn due(&mut self, now: Instant) -> Vec<K> {
        let due = self.failed.iter_mut().filter_map(|(key, (_, at))| {
            at.take_if(|at| *at <= now)?;
            Some(key.clone())
        });
        due.collect()
    }

    /// When the next one's time comes.
    pub fn next(&self) -> Option<Instant> {
        self.failed.values().filter_map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew_after_a_success() {
        let second = Duration::from_secs;
        let start = Instant::now();
        let mut retries = Retries::new(Backoff::new(second(10), second(60)));
        assert_eq!((retries.next(), retries.due(start)), (None, vec![]));
        let mut now = start;
        for pause in [10, 20, 40, 60, 60] {
            let at = retries.failed("bad", now);
            assert_eq!((at, retries.next()), (now + second(pause), Some(at)));
            assert!(retries.due(at - second(1)).is_empty());
            assert_eq!(retries.due(at), ["bad"]);
            assert!(retries.due(at).is_empty(), "once");
            now = at;
        }
        assert_eq!(retries.next(), None, "it is being tried");
        assert!(retries.has_failed(&"bad"));
        retries.succeeded(&"bad");
        assert!(!retries.has_failed(&"bad"));
        assert_eq!(retries.failed("bad", now), now + second(10));
    }
}
