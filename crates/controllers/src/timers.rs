//! When to decide again: one moment a key, the earliest first. And who isn't to decide before.

use std::{
    borrow::Borrow,
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    time::Duration,
};

/// At most one wake-up a key.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    by_key: HashMap<K, Duration>,
    by_time: BTreeSet<(Duration, K)>,
    /// Those that aren't to decide before their wake-up.
    held: HashSet<K>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_time: BTreeSet::new(),
            held: HashSet::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Timers<K> {
    /// Sets, moves or removes the wake-up of `key`, which is held no longer.
    pub(crate) fn set(&mut self, key: &K, at: Option<Duration>) {
        self.held.remove(key);
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

    /// Sets the wake-up of `key`, which is held until then, whatever happens.
    pub(crate) fn hold(&mut self, key: &K, until: Duration) {
        self.set(key, Some(until));
        self.held.insert(key.clone());
    }

    /// Whether `key` isn't to decide before its wake-up.
    pub(crate) fn is_held<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.held.contains(key)
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
        self.held.remove(&key);
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
    #[test]
    fn who_is_held_is_so_until_its_wake_up_or_another_word() {
        let at = Duration::from_secs;
        let mut timers = Timers::default();
        for key in ["a", "b"] {
            timers.set(&key, Some(at(1)));
            timers.hold(&key, at(60));
        }
        assert_eq!(timers.pop(at(59)), None);
        assert!(timers.is_held("a") && !timers.is_held("c"));
        timers.set(&"b", None);
        assert!(!timers.is_held("b"));
        assert_eq!(timers.pop(at(60)), Some("a"));
        assert!(!timers.is_held("a"));
        assert_eq!(timers.next(), None);
    }
}
