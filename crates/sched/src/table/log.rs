//! Owns the log of what changed in the table, so that whoever keeps answers about nodes asks again about the touched
//! ones alone. Knows nothing of what the answers are.

use std::collections::VecDeque;
use std::ops::BitOr;

use super::NodeId;

/// What a plugin's answer about a node depends on, beside what the pod needs.
///
/// An answer is kept as long as nothing of that changes, for all pods with equal [`crate::PodNeeds`]. So a plugin that
/// says anything but [`Reads::ANYTHING`] must look at nothing else: of the pod at its needs alone, of the node at what
/// it names here, and at nothing outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads(u8);

impl Reads {
    /// The Node object.
    pub const OBJECT: Self = Self(1);
    /// The pods on the node, and their sums.
    pub const PODS: Self = Self(1 << 1);
    /// Which images the nodes of the cluster have. It stands for the Node object, too.
    pub const IMAGES: Self = Self(1 << 2 | Self::OBJECT.0);
    /// Anything at all: its answers are never kept.
    pub const ANYTHING: Self = Self(u8::MAX);

    /// Whether there is something that both name.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether answers may be kept.
    pub(crate) const fn may_be_kept(self) -> bool {
        self.0 != Self::ANYTHING.0
    }

    /// Whether all that `other` names is named.
    pub(crate) const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Reads {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How many changes are remembered at least; so few in tests that they are forgotten there, too.
const MIN_KEPT: usize = if cfg!(test) { 24 } else { 4096 };

/// A place in the log: all that was said before it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

/// Which nodes changed, oldest first.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    // The position of the first entry.
    first: u64,
    entries: VecDeque<(NodeId, Reads)>,
}

impl ChangeLog {
    /// The log of a table that takes the place of another: nobody who read that one knows anything of this.
    pub(super) fn after(other: &Self) -> Self {
        Self {
            first: other.end().0.saturating_add(1),
            entries: VecDeque::new(),
        }
    }

    pub(super) fn end(&self) -> Position {
        Position(self.first.saturating_add(self.entries.len() as u64))
    }

    /// Remembers that a node changed. Of `nodes` nodes, more changes than nodes are no help.
    pub(super) fn push(&mut self, node: NodeId, what: Reads, nodes: usize) {
        self.entries.push_back((node, what));
        if self.entries.len() > nodes.max(MIN_KEPT) {
            self.entries.pop_front();
            self.first = self.first.saturating_add(1);
        }
    }

    /// What changed since then; `None` if that was too long ago.
    pub(super) fn since(
        &self,
        position: Position,
    ) -> Option<impl ExactSizeIterator<Item = (NodeId, Reads)>> {
        let known = position.0.checked_sub(self.first)?;
        let known = usize::try_from(known).ok()?;
        (known <= self.entries.len()).then(|| self.entries.range(known..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeLog, MIN_KEPT, Position, Reads};
    use crate::table::NodeId;

    #[test]
    fn what_was_forgotten_is_told_as_unknown() {
        let mut log = ChangeLog::default();
        let start = log.end();
        let node = NodeId::new(0);
        log.push(node, Reads::PODS, 1);
        let known = log.end();
        let all: Vec<_> = log.since(start).unwrap().collect();
        assert_eq!(all, [(node, Reads::PODS)]);
        assert_eq!(log.since(known).unwrap().len(), 0);
        for _ in 0..MIN_KEPT {
            log.push(node, Reads::OBJECT, 1);
        }
        assert!(log.since(start).is_none(), "one entry is gone");
        assert_eq!(log.since(known).unwrap().len(), MIN_KEPT);

        let next = ChangeLog::after(&log);
        assert!(next.since(log.end()).is_none(), "another table");
        assert_eq!(next.since(next.end()).unwrap().len(), 0);
        assert!(next.since(Position(u64::MAX)).is_none());
    }

    #[test]
    fn images_stand_for_the_object() {
        assert!(Reads::IMAGES.intersects(Reads::OBJECT));
        assert!(!Reads::IMAGES.intersects(Reads::PODS));
        assert!(!Reads::OBJECT.covers(Reads::IMAGES) && Reads::IMAGES.covers(Reads::OBJECT));
        assert!((Reads::OBJECT | Reads::PODS).may_be_kept() && !Reads::ANYTHING.may_be_kept());
    }
}
