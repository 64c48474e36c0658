//! Owns the places of nodes by each label that was asked for. Knows nothing of pods.

use std::collections::HashMap;
use std::sync::Arc;

use super::topology::{MAX_KEYS, PlaceId, Topology};
use crate::labels::Labels;
use crate::table::NodeId;

/// Grows whenever a node comes, goes or gets other labels, and whenever places get other numbers.
pub(super) type NodesVersion = u64;

/// Topologies by label.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_key: HashMap<String, Arc<Topology>>,
    pub(super) version: NodesVersion,
}

impl Places {
    /// Finds the places of those of these labels that weren't asked for yet, in one pass over `nodes`: all of them with
    /// their labels. Of very many labels the first ones.
    pub(super) fn prepare<'a, 'k>(
        &mut self,
        keys: impl Iterator<Item = &'k str>,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) {
        let mut keys: Vec<_> = keys.take(MAX_KEYS).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_new = |key: &&str| !self.by_key.contains_key(*key);
        let new = keys.iter().filter(|key| is_new(key)).count();
        if new == 0 {
            return;
        }
        if self.by_key.len().saturating_add(new) > MAX_KEYS {
            self.forget();
        }
        keys.retain(|key| !self.by_key.contains_key(*key));
        let mut new: Vec<_> = keys.iter().map(|key| (*key, Topology::default())).collect();
        for (node, labels) in nodes {
            for (key, topology) in &mut new {
                topology.set(node, labels.get(*key).map(String::as_str));
            }
        }
        let new = new.into_iter();
        let new = new.map(|(key, topology)| (key.to_owned(), Arc::new(topology)));
        self.by_key.extend(new);
    }

    fn forget(&mut self) {
        self.by_key.clear();
        self.version = self.version.saturating_add(1);
    }

    /// The places of a label; `nodes` are all nodes with their labels, for a label that wasn't asked for yet.
    pub(super) fn topology<'a>(
        &mut self,
        key: &str,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> Arc<Topology> {
        if let Some(topology) = self.by_key.get(key) {
            return topology.clone();
        }
        let mut topology = Topology::default();
        for (node, labels) in nodes {
            topology.set(node, labels.get(key).map(String::as_str));
        }
        if self.by_key.len() >= MAX_KEYS {
            self.forget();
        }
        let topology = Arc::new(topology);
        self.by_key.insert(key.to_owned(), topology.clone());
        topology
    }

    /// Where a node is by a label that was asked for.
    pub(super) fn of(&self, key: &str, node: NodeId) -> Option<PlaceId> {
        self.by_key.get(key)?.place(node)
    }

    /// A node has these labels from now on, or is gone.
    pub(super) fn node_changed(&mut self, node: NodeId, labels: Option<&Labels>) {
        self.version = self.version.saturating_add(1);
        self.by_key.retain(|key, topology| {
            let value = labels.and_then(|labels| labels.get(key));
            let topology = Arc::make_mut(topology);
            topology.set(node, value.map(String::as_str));
            !topology.is_stale()
        });
    }
}
