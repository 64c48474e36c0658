//! Owns which of many keys were used lately, and which one gives way to a new one. Knows nothing of what they stand
//! for.
//!
//! Forgetting the one that was used longest ago would forget each just before its next turn, if there are a few more in
//! rotation than there is room for. So who was used twice stays before those who came once, and of these the last one
//! goes: most of a rotation is kept. Who wasn't used for some rounds goes first in any case.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// After so many rounds over all keys without being used, a key goes before all others.
const ROUNDS: u64 = 4;

/// When a key was used last.
#[derive(Clone, Copy, Debug)]
struct Last {
    turn: u64,
    again: bool,
}

/// Keys by when they were used.
#[derive(Debug)]
pub(crate) struct Used<K> {
    turn: u64,
    last: HashMap<K, Last>,
    // By the turn of their last use: those that were used once since they came, and those that were used again.
    once: BTreeMap<u64, K>,
    again: BTreeMap<u64, K>,
}

impl<K> Default for Used<K> {
    fn default() -> Self {
        Self {
            turn: 0,
            last: HashMap::new(),
            once: BTreeMap::new(),
            again: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Used<K> {
    /// This key is used now.
    pub(crate) fn now(&mut self, key: K) {
        self.turn = self.turn.saturating_add(1);
        let before = self.last.get(&key).copied();
        if let Some(before) = before {
            self.list(before.again).remove(&before.turn);
        }
        let last = Last {
            turn: self.turn,
            again: before.is_some(),
        };
        self.list(last.again).insert(last.turn, key.clone());
        self.last.insert(key, last);
    }

    const fn list(&mut self, again: bool) -> &mut BTreeMap<u64, K> {
        if again {
            &mut self.again
        } else {
            &mut self.once
        }
    }

    /// Takes out the key that wasn't used for so many turns, if there is one.
    pub(crate) fn unused(&mut self, turns: u64) -> Option<K> {
        let oldest = self.oldest()?;
        let is_old = self.turn.saturating_sub(oldest.turn) > turns;
        if is_old { self.take(oldest) } else { None }
    }

    /// Takes out the key that gives way to the one in use now; `None` if there is no other.
    pub(crate) fn give_way(&mut self) -> Option<K> {
        let round = self.last.len() as u64;
        if let Some(key) = self.unused(round.saturating_mul(ROUNDS)) {
            return Some(key);
        }
        let once = self.once.range(..self.turn).next_back();
        let again = || self.again.range(..self.turn).next();
        let turn = *once.or_else(again)?.0;
        let again = !self.once.contains_key(&turn);
        self.take(Last { turn, again })
    }

    fn oldest(&self) -> Option<Last> {
        let once = self.once.keys().next().copied();
        let again = self.again.keys().next().copied();
        let last = |again| move |turn| Last { turn, again };
        let both = once
            .map(last(false))
            .into_iter()
            .chain(again.map(last(true)));
        both.min_by_key(|last| last.turn)
    }

    fn take(&mut self, last: Last) -> Option<K> {
        let key = self.list(last.again).remove(&last.turn)?;
        self.last.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::{ROUNDS, Used};

    /// Keys with room for so many.
    struct Kept {
        room: usize,
        used: Used<u32>,
        known: HashSet<u32>,
    }

    impl Kept {
        fn new(room: usize) -> Self {
            let (used, known) = (Used::default(), HashSet::new());
            Self { room, used, known }
        }

        /// Whether it was there.
        fn hit(&mut self, key: u32) -> bool {
            let hit = !self.known.insert(key);
            self.used.now(key);
            while self.known.len() > self.room {
                let gone = self.used.give_way().unwrap();
                assert_ne!(gone, key, "it is in use");
                assert!(self.known.remove(&gone));
            }
            hit
        }

        fn hits(&mut self, keys: impl IntoIterator<Item = u32>) -> usize {
            keys.into_iter().filter(|key| self.hit(*key)).count()
        }
    }

    #[test]
    fn most_of_a_rotation_is_kept_that_is_larger_than_the_room() {
        for keys in [51, 100, 180] {
            let mut kept = Kept::new(50);
            kept.hits(0..keys);
            for _ in 0..10 {
                let hits = kept.hits(0..keys);
                assert!(hits >= 49, "{hits} of {keys}");
            }
        }
    }

    #[test]
    fn others_get_their_turn_when_the_load_changes() {
        let mut kept = Kept::new(50);
        for _ in 0..5 {
            kept.hits(0..60);
        }
        for _ in 0..=ROUNDS {
            kept.hits(1_000..1_060);
        }
        assert!(kept.hits(1_000..1_060) >= 45);
    }

    #[test]
    fn who_is_used_all_the_time_stays_beside_those_that_come_once() {
        let mut kept = Kept::new(10);
        kept.hit(0);
        for key in 1..500 {
            kept.hit(key);
            assert!(kept.hit(0), "after {key}");
        }
    }

    #[test]
    fn what_nobody_used_for_long_is_told_and_the_one_in_use_never() {
        let mut used = Used::default();
        assert_eq!(used.give_way(), None);
        used.now("a");
        assert_eq!(used.give_way(), None, "it is in use");
        used.now("b");
        for _ in 0..3 {
            assert_eq!(used.unused(4), None);
            used.now("c");
        }
        used.now("c");
        assert_eq!(used.unused(4), Some("a"));
        assert_eq!(used.unused(4), None);
        assert_eq!(used.give_way(), Some("b"));
        assert_eq!(used.give_way(), None);
        let all: BTreeSet<_> = used.last.keys().copied().collect();
        assert_eq!(all, BTreeSet::from(["c"]));
        assert_eq!((used.once.len(), used.again.len()), (0, 1));
    }
}
