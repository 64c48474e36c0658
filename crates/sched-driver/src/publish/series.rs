//! Which event is worth a write: the first of its kind, the second (it opens a series), and then one
//! a while, however often it repeats. No clock, no client.
//!
//! The rules and intervals are those of Kubernetes' event recorder (client-go `tools/events`).

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// A series that hasn't repeated for this long is over.
const FINISH_AFTER: SignedDuration = SignedDuration::from_mins(6);
/// A running series is written this often.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// Kinds of events remembered at once; beyond it the oldest is forgotten, so that it costs a write
/// when it repeats.
const REMEMBERED: usize = 4096;

/// What to write for one occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// A new event.
    Create,
    /// The series of the event of this name.
    Series {
        /// `metadata.name` of the event written before.
        name: String,
        /// Occurrences in all.
        count: i32,
        /// The newest occurrence.
        last: Timestamp,
    },
    /// Nothing now.
    Nothing,
}

/// When it happened last, and a number of its own.
type Age = (Timestamp, u64);

#[derive(Debug)]
struct Kind {
    name: String,
    number: u64,
    count: i32,
    last: Timestamp,
    written: Timestamp,
    /// Occurrences that the API server doesn't know of.
    unwritten: bool,
}

/// Remembers events by what makes them the same.
#[derive(Debug)]
pub(crate) struct Series<K> {
    kinds: HashMap<Arc<K>, Kind>,
    /// The oldest first: with as many kinds as are remembered, each new one costs an old one.
    by_age: BTreeMap<Age, Arc<K>>,
    /// Of the kind that was seen last for the first time.
    number: u64,
}

impl<K> Default for Series<K> {
    fn default() -> Self {
        Self {
            kinds: HashMap::new(),
            by_age: BTreeMap::new(),
            number: 0,
        }
    }
}

impl<K: Eq + Hash + Clone> Series<K> {
    /// It happened at `now`; `name` is for the event object if this is the first.
    pub(crate) fn occurred(&mut self, key: K, name: String, now: Timestamp) -> Write {
        if let Some(kind) = self.kinds.get_mut(&key)
            && now.duration_since(kind.last) < FINISH_AFTER
        {
            if let Some(key) = self.by_age.remove(&kind.age()) {
                kind.last = now;
                self.by_age.insert(kind.age(), key);
            }
            kind.count = kind.count.saturating_add(1);
            if kind.count == 2 {
                kind.written = now;
                return kind.series();
            }
            kind.unwritten = true;
            return Write::Nothing;
        }
        self.forget(&key);
        if self.kinds.len() >= REMEMBERED
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.kinds.remove(&oldest);
        }
        self.number = self.number.wrapping_add(1);
        let kind = Kind {
            name,
            number: self.number,
            count: 1,
            last: now,
            written: now,
            unwritten: false,
        };
        let key = Arc::new(key);
        self.by_age.insert(kind.age(), key.clone());
        self.kinds.insert(key, kind);
        Write::Create
    }

    /// The event object of this kind is gone or couldn't be made: the next occurrence is a first one.
    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(kind) = self.kinds.remove(key) {
            self.by_age.remove(&kind.age());
        }
    }

    /// What is due at `now`: the last state of series that are over, and a refresh of long ones. To
    /// be called every few minutes.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<(K, Write)> {
        let mut writes = Vec::new();
        let by_age = &mut self.by_age;
        self.kinds.retain(|key, kind| {
            let over = now.duration_since(kind.last) >= FINISH_AFTER;
            let stale = now.duration_since(kind.written) >= REFRESH_AFTER;
            if kind.unwritten && (over || stale) {
                kind.unwritten = false;
                kind.written = now;
                writes.push((K::clone(key), kind.series()));
            }
            if over {
                by_age.remove(&kind.age());
            }
            !over
        });
        writes
    }
}

impl Kind {
    fn age(&self) -> Age {
        (self.last, self.number)
    }

    fn series(&self) -> Write {
        Write::Series {
            name: self.name.clone(),
            count: self.count,
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn series(count: i32, last: i64) -> Write {
        Write::Series {
            name: "a.1".to_owned(),
            count,
            last: at(last),
        }
    }

    #[test]
    fn repeats_cost_one_write_then_none() {
        let mut kinds = Series::default();
        let mut occurred = |second| kinds.occurred("a", format!("a.{}", second + 1), at(second));
        assert_eq!(occurred(0), Write::Create);
        assert_eq!(occurred(1), series(2, 1));
        for second in 2..300 {
            assert_eq!(occurred(second), Write::Nothing);
        }
        // Other kinds are apart.
        assert_eq!(kinds.occurred("b", "b.1".to_owned(), at(3)), Write::Create);
    }

    #[test]
    fn a_series_ends_with_its_last_state() {
        let mut kinds = Series::default();
        for second in [0, 10, 20, 30] {
            kinds.occurred("a", "a.1".to_owned(), at(second));
        }
        assert_eq!(kinds.due(at(31)), []);
        assert_eq!(kinds.due(at(30 + 360)), [("a", series(4, 30))]);
        assert_eq!(kinds.due(at(2000)), []);
        // Afterwards it is a new event.
        assert_eq!(
            kinds.occurred("a", "a.2".to_owned(), at(2001)),
            Write::Create
        );
    }

    #[test]
    fn a_long_series_is_refreshed() {
        let mut kinds = Series::default();
        for second in (0..=1900).step_by(100) {
            kinds.occurred("a", "a.1".to_owned(), at(second));
        }
        assert_eq!(kinds.due(at(1900)), [("a", series(20, 1900))]);
        assert_eq!(kinds.due(at(1901)), []);
    }

    #[test]
    fn a_single_event_is_forgotten_without_a_write_and_a_lost_one_is_made_anew() {
        let mut kinds = Series::default();
        kinds.occurred("a", "a.1".to_owned(), at(0));
        assert_eq!(kinds.due(at(400)), []);
        kinds.occurred("b", "b.1".to_owned(), at(0));
        kinds.forget(&"b");
        assert_eq!(kinds.occurred("b", "b.2".to_owned(), at(1)), Write::Create);
    }

    #[test]
    fn memory_is_bounded_and_what_was_quiet_for_longest_is_forgotten() {
        let mut kinds = Series::default();
        for number in 0..REMEMBERED {
            kinds.occurred(number, "n".to_owned(), at(number as i64 / 100));
        }
        // The first one repeats, and another is gone.
        assert_ne!(kinds.occurred(0, "n".to_owned(), at(50)), Write::Create);
        kinds.forget(&1);
        for number in 0..9 {
            kinds.occurred(REMEMBERED + number, "n".to_owned(), at(50));
        }
        assert_eq!(kinds.kinds.len(), REMEMBERED);
        let known = |number: usize| kinds.kinds.contains_key(&number);
        assert!(known(0) && known(REMEMBERED + 8) && known(10));
        assert!((1..10).all(|number| !known(number)));
        assert_eq!(kinds.by_age.len(), REMEMBERED);
        kinds.due(at(1000));
        assert!(kinds.kinds.is_empty() && kinds.by_age.is_empty());
    }
}
