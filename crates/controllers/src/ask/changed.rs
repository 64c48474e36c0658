//! Virtual nodes that others have changed, so that the pods that they concern are ranked anew: each of them once a
//! second at most, or at another pace, however often it changes. It knows no pods.

use std::{collections::BTreeSet, time::Duration};

use crate::timers::Timers;

/// After it counted, a node's changes wait for so long, and count together then.
const PACE: Duration = Duration::from_secs(1);

/// Nodes whose changes have counted of late.
#[derive(Debug)]
pub(super) struct Changed {
    pace: Duration,
    counted: Timers<String>,
    /// Those that have changed since.
    again: BTreeSet<String>,
}

impl Default for Changed {
    fn default() -> Self {
        Self::each(PACE)
    }
}

impl Changed {
    /// Each node counts once in so long.
    pub(super) fn each(pace: Duration) -> Self {
        Self {
            pace,
            counted: Timers::default(),
            again: BTreeSet::new(),
        }
    }

    /// A node has changed; whether that counts at once.
    pub(super) fn note(&mut self, node: &str, now: Duration) -> bool {
        let node = node.to_owned();
        if self.counted.is_set(&node) {
            self.again.insert(node);
            return false;
        }
        self.counted.set(&node, Some(now.saturating_add(self.pace)));
        true
    }

    /// When to look again.
    pub(super) fn next(&self) -> Option<Duration> {
        self.counted.next()
    }

    /// A node whose later changes count now.
    pub(super) fn pop(&mut self, now: Duration) -> Option<String> {
        while let Some(node) = self.counted.pop(now) {
            if self.again.remove(&node) {
                self.counted.set(&node, Some(now.saturating_add(self.pace)));
                return Some(node);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_changes_all_the_time_counts_once_a_second_and_its_last_change_counts() {
        let at = Duration::from_millis;
        let mut changed = Changed::default();
        let mut counted = 0;
        for now in (0..10_000).step_by(10) {
            counted += usize::from(changed.note("flips", at(now)));
            counted += usize::from(changed.pop(at(now)).is_some());
        }
        assert_eq!(counted, 10);
        assert!(changed.note("other", at(10_000)), "others count at once");
        assert_eq!(changed.pop(at(10_000)), Some("flips".to_owned()));
        assert_eq!(changed.pop(at(20_000)), None);
        assert_eq!(changed.next(), None, "and nothing is kept of who is calm");
        assert!(changed.note("flips", at(20_000)));
    }
}
