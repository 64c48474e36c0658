//! When to decide again: one moment a key, the earliest first.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Duration,
};

/// At most one wake-up a key.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    by_key: HashMap<K, Duration>,
    by_time: BTreeSet<(Duration, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Timers<K> {
    /// Sets, moves or removes the wake-up of `key`.
    pub(crate) fn set(&mut self, key: &K, at: Option<Duration>) {
        let old = match at {
            Some(at) => self.by_key.insert(key.clone(), at),
            None => self.by_key.remove(key),
        };
        if let Some(old) = old {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key.clone()));
        }
    }

    /// Whether `key` has a wake-up.
    pub(crate) fn is_set(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// The earliest wake-up.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes a key whose time has come.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<K> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_wake_up_and_the_earliest_comes_first() {
        let at = Duration::from_secs;
        let mut timers = Timers::default();
        timers.set(&"a", Some(at(3)));
        timers.set(&"b", Some(at(2)));
        timers.set(&"a", Some(at(1)));
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(at(5)), Some("a"));
        assert_eq!(timers.pop(at(1)), None);
        timers.set(&"b", None);
        assert_eq!((timers.next(), timers.pop(at(5))), (None, None));
    }
}
