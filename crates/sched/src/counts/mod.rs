//! Owns what plugins that look at other pods count: pods of a set on each node, terms that pods on nodes carry, and
//! nodes that share a place. Kept up to date by the table of nodes as pods and nodes come and go, in a *what if*, too.
//!
//! A count has an entry for each node with such pods. Sums over places are kept beside it where all nodes count and
//! there are few places; else they are made from it by each cycle in one pass, for the nodes that count for that very
//! pod. So nothing has to be kept for each combination of policies, affinity and tolerations that pods come with, and a
//! *what if* changes sums in the cycle's state alone.

mod anchored;
mod carried;
mod counters;
mod labelled;
mod places;
mod pod_set;
mod topology;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::anchored::Anchored;
pub use self::carried::{CarriedTerm, CarriedTerms, TermRole};
use self::counters::Counters;
pub use self::counters::PodCounts;
pub(crate) use self::labelled::Labelled;
use self::places::Places;
pub use self::pod_set::{Namespaces, PodSet, Selected};
pub use self::topology::{PlaceId, Topology};
use crate::labels::Labels;
use crate::pod_info::PodInfo;
use crate::table::NodeId;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    // Plugins ask while they only read the table; what is asked for first is counted then.
    counters: Mutex<Counters>,
    places: Mutex<Places>,
    carried: CarriedTerms,
}

impl Counts {
    /// Counts what isn't counted yet of these sets, and finds the places of those of these labels that weren't asked
    /// for yet, in one pass each: a pod or a node is looked at for all of them while it is at hand. `pods` and `nodes`
    /// are all that there are.
    pub(crate) fn prepare<'a, 's>(
        &self,
        sets: impl Iterator<Item = &'s PodSet>,
        pods: impl Iterator<Item = (NodeId, &'a [Arc<PodInfo>])>,
        keys: impl Iterator<Item = &'s str>,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) {
        lock(&self.places).prepare(keys, nodes);
        lock(&self.counters).prepare(sets, pods);
    }

    /// The counts of a set. Don't keep them beyond the cycle: as long as somebody has them, a change copies them.
    pub(crate) fn count<'a>(
        &self,
        set: &PodSet,
        pods: impl Iterator<Item = (NodeId, &'a [Arc<PodInfo>])>,
    ) -> Arc<PodCounts> {
        lock(&self.counters).count(set, pods)
    }

    /// The counts of a set that was [counted](Self::count), summed up by place of this label; `None` where that isn't
    /// kept. No pass over nodes is needed for it.
    pub(crate) fn sums(&self, set: &PodSet, key: &str, topology: &Topology) -> Option<Vec<u32>> {
        let version = lock(&self.places).version;
        let mut counters = lock(&self.counters);
        counters
            .sums(set, key, topology, version)
            .map(<[u32]>::to_vec)
    }

    /// The places of a label; `nodes` are all nodes with their labels, for a label that wasn't asked for yet.
    pub(crate) fn topology<'a>(
        &self,
        key: &str,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> Arc<Topology> {
        lock(&self.places).topology(key, nodes)
    }

    /// The terms of pods on nodes.
    pub(crate) const fn carried(&self) -> &CarriedTerms {
        &self.carried
    }

    /// A node has these labels from now on, or is gone.
    pub(crate) fn node_changed(&mut self, node: NodeId, labels: Option<&Labels>) {
        unlocked(&mut self.places).node_changed(node, labels);
    }

    /// A pod came to a node.
    pub(crate) fn pod_came(&mut self, node: NodeId, pod: &PodInfo) {
        let places = unlocked(&mut self.places);
        unlocked(&mut self.counters).pod_came(node, pod, places);
        self.carried.pod_came(node, pod);
    }

    /// A pod left a node, or the node went with it.
    pub(crate) fn pod_went(&mut self, node: NodeId, pod: &PodInfo) {
        let places = unlocked(&mut self.places);
        unlocked(&mut self.counters).pod_went(node, pod, places);
        self.carried.pod_went(node, pod);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unlocked<T>(shared: &mut Mutex<T>) -> &mut T {
    shared.get_mut().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
