//! Rerouted Services that no proxy needs any more: when pods at home are looked for, which may miss them. No I/O.
//!
//! It must not know what becomes of such a Service.

use std::collections::HashMap;
use std::time::Duration;

use pilotage_runtime::moment::after;
use tokio::time::Instant;

use super::needs::Key;

/// So long after its last proxy went: at first its pods may be on their way, here or there; and whoever has none for
/// long has none to miss.
const LOOKS: [Duration; 4] = [
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(20),
];

/// What is to be done about a Service now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Pods at home are looked for.
    Now,
    /// Nothing before that.
    At(Instant),
    /// Nothing, until it has had a proxy again.
    Never,
}

/// The Services that are left behind.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    alone: HashMap<Key, Alone>,
}

#[derive(Debug)]
struct Alone {
    since: Instant,
    looks: usize,
}

impl LeftBehind {
    /// A Service that is rerouted, and that no proxy needs.
    pub(super) fn look(&mut self, key: &Key, now: Instant) -> Look {
        let begins = || Alone {
            since: now,
            looks: 0,
        };
        let alone = self.alone.entry(key.clone()).or_insert_with(begins);
        let Some(pause) = LOOKS.get(alone.looks) else {
            return Look::Never;
        };
        let at = after(alone.since, *pause);
        if now < at {
            return Look::At(at);
        }
        alone.looks = alone.looks.saturating_add(1);
        Look::Now
    }

    /// Its author knows.
    pub(super) fn told(&mut self, key: &Key) {
        if let Some(alone) = self.alone.get_mut(key) {
            alone.looks = LOOKS.len();
        }
    }

    /// It isn't left behind, or isn't there.
    pub(super) fn forget(&mut self, key: &Key) {
        self.alone.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use pilotage_model::followed::Kind;

    use super::*;

    #[test]
    fn pods_are_looked_for_some_times_and_their_author_is_told_once() {
        let key = Key {
            kind: Kind::Service,
            namespace: "shop".into(),
            name: "web".into(),
        };
        let start = Instant::now();
        let mut left = LeftBehind::default();
        for pause in LOOKS {
            assert_eq!(left.look(&key, start), Look::At(start + pause));
            assert_eq!(left.look(&key, start + pause), Look::Now);
        }
        let late = start + Duration::from_hours(1);
        assert_eq!(left.look(&key, late), Look::Never);

        // A proxy came and went.
        left.forget(&key);
        assert_eq!(left.look(&key, late), Look::At(late + LOOKS[0]));
        left.told(&key);
        assert_eq!(left.look(&key, late + LOOKS[0]), Look::Never);
        left.forget(&key);
        assert!(left.alone.is_empty());
    }
}
