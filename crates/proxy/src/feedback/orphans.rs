//! How fast chaperons without a pod are seen to, for each target. A target can forge any number of them, and each costs
//! a live read here and a deletion there. Pure: knows times and names alone.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::view::Monotonic;

/// From one orphan of a target to the next: fifty a second.
const EVERY: Duration = Duration::from_millis(20);
/// So much of that may come at once: a hundred orphans, after a time of few.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Turns of orphans, by the generic cell rate algorithm (ITU-T I.371).
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By virtual node: when as many as came so far would have come, had they come evenly.
    evenly: HashMap<String, Monotonic>,
    /// By parent UID and virtual node: whose turn is later.
    waiting: BTreeMap<String, BTreeMap<String, Monotonic>>,
}

impl Orphans {
    /// When the orphans that one parent has at a target have their turn; not later than `now`: it is taken.
    pub(super) fn turn(&mut self, parent: &str, node: &str, now: Monotonic) -> Monotonic {
        let known = self.waiting.get(parent).and_then(|nodes| nodes.get(node));
        let at = match known {
            Some(at) => *at,
            None => self.next(node, now),
        };
        if at > now {
            let nodes = self.waiting.entry(parent.to_owned()).or_default();
            nodes.insert(node.to_owned(), at);
        } else {
            self.forget_at(parent, node);
        }
        at
    }

    fn next(&mut self, node: &str, now: Monotonic) -> Monotonic {
        let evenly = self.evenly.entry(node.to_owned()).or_default();
        let at = (*evenly).max(now);
        *evenly = at.saturating_add(EVERY);
        at.saturating_sub(AT_ONCE).max(now)
    }

    fn forget_at(&mut self, parent: &str, node: &str) {
        if let Some(nodes) = self.waiting.get_mut(parent) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.waiting.remove(parent);
            }
        }
    }

    /// A parent has no orphans any more.
    pub(super) fn forget(&mut self, parent: &str) {
        self.waiting.remove(parent);
    }

    /// A target isn't there any more.
    pub(super) fn drop_target(&mut self, node: &str) {
        self.evenly.remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Duration::from_millis(ms)
    }

    #[test]
    fn some_at_once_and_then_one_after_the_other_for_each_target() {
        let mut orphans = Orphans::default();
        for parent in 0..101 {
            assert_eq!(orphans.turn(&parent.to_string(), "evil", at(5)), at(5));
        }
        for (parent, turn) in [("a", 25), ("b", 45), ("a", 25)] {
            assert_eq!(orphans.turn(parent, "evil", at(5)), at(turn));
        }
        assert_eq!(orphans.turn("a", "good", at(5)), at(5));
        // Its turn has come, and was taken: the next one is another.
        assert_eq!(orphans.turn("a", "evil", at(30)), at(25));
        assert_eq!(orphans.turn("a", "evil", at(30)), at(65));
        // After a quiet time there is room for as many again.
        let later = at(60_000);
        for parent in 0..101 {
            assert_eq!(orphans.turn(&format!("x{parent}"), "evil", later), later);
        }
        assert!(orphans.turn("late", "evil", later) > later);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut orphans = Orphans::default();
        for parent in 0..300 {
            orphans.turn(&parent.to_string(), "evil", at(0));
        }
        assert_eq!(orphans.waiting.len(), 199);
        for parent in 0..300 {
            orphans.forget(&parent.to_string());
        }
        orphans.drop_target("evil");
        assert!(orphans.waiting.is_empty() && orphans.evenly.is_empty());
    }
}
