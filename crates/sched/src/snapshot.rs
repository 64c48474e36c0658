//! Owns the immutable view of all nodes that one scheduling cycle works on, in search order.
//! Knows nothing of how it is kept up to date (see [`crate::cache`]).

use std::collections::HashMap;
use std::sync::Arc;

use crate::names::NodeName;
use crate::node_info::NodeInfo;

/// A node in a snapshot: shared, never changed.
pub type SnapshotNode = Arc<NodeInfo>;

/// All nodes at one point in time, interleaved by zone so that a partial search samples every zone.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    nodes: Vec<SnapshotNode>,
    // Lookups only; never iterated, so that its order can't matter.
    // Shared by snapshots of the same nodes.
    index: Arc<HashMap<NodeName, usize>>,
    with_affinity: Vec<usize>,
    with_required_anti_affinity: Vec<usize>,
}

impl Snapshot {
    /// Of these nodes, searched in this order.
    pub fn new(nodes: Vec<SnapshotNode>) -> Self {
        let index = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.name().clone(), at))
            .collect();
        let mut snapshot = Self {
            nodes,
            index: Arc::new(index),
            ..Self::default()
        };
        snapshot.index_affinity();
        snapshot
    }

    /// Puts newer versions of known nodes in place.
    pub(crate) fn replace(&mut self, changed: impl Iterator<Item = SnapshotNode>) {
        let mut crossed = false;
        for node in changed {
            let Some(&at) = self.index.get(node.name()) else {
                continue;
            };
            let old = &self.nodes[at];
            crossed |= old.pods_with_affinity().is_empty() != node.pods_with_affinity().is_empty()
                || old.pods_with_required_anti_affinity().is_empty()
                    != node.pods_with_required_anti_affinity().is_empty();
            self.nodes[at] = node;
        }
        if crossed {
            self.index_affinity();
        }
    }

    fn index_affinity(&mut self) {
        let positions = |has: fn(&NodeInfo) -> bool| {
            let nodes = self.nodes.iter().enumerate();
            nodes
                .filter(|(_, node)| has(node))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let with_affinity = positions(|node| !node.pods_with_affinity().is_empty());
        let anti = positions(|node| !node.pods_with_required_anti_affinity().is_empty());
        self.with_affinity = with_affinity;
        self.with_required_anti_affinity = anti;
    }

    /// All nodes, in search order.
    pub fn nodes(&self) -> &[SnapshotNode] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, name: &NodeName) -> Option<&SnapshotNode> {
        self.position(name).map(|at| &self.nodes[at])
    }

    /// Where a node stands in [`Snapshot::nodes`].
    pub fn position(&self, name: &NodeName) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Nodes with pods that have inter-pod affinity or anti-affinity.
    pub fn nodes_with_affinity(&self) -> impl Iterator<Item = &SnapshotNode> {
        self.with_affinity.iter().map(|&at| &self.nodes[at])
    }

    /// Nodes with pods that have required anti-affinity.
    pub fn nodes_with_required_anti_affinity(&self) -> impl Iterator<Item = &SnapshotNode> {
        self.with_required_anti_affinity
            .iter()
            .map(|&at| &self.nodes[at])
    }
}
