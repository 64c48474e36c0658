//! Owns how many pods of each set that plugins asked about every node has. A set is counted when it is asked about
//! first; from then on each pod that comes or goes changes only the counters of sets that it is in. Knows nothing of
//! what the counts are for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::anchored::{Anchored, SelectorId};
use super::places::{NodesVersion, Places};
use super::pod_set::PodSet;
use super::topology::Topology;
use crate::pod_info::PodInfo;
use crate::table::NodeId;
use crate::used::Used;

/// How many pods of a set each node has, in ascending order; nodes with none are left out.
pub type PodCounts = Vec<(NodeId, u32)>;

/// A node has one more.
pub(super) fn one_more(counts: &mut PodCounts, node: NodeId) {
    match counts.binary_search_by_key(&node, |(node, _)| *node) {
        Ok(at) => counts[at].1 = counts[at].1.saturating_add(1),
        Err(at) => counts.insert(at, (node, 1)),
    }
}

/// A node has one less.
pub(super) fn one_less(counts: &mut PodCounts, node: NodeId) {
    if let Ok(at) = counts.binary_search_by_key(&node, |(node, _)| *node) {
        counts[at].1 = counts[at].1.saturating_sub(1);
        if counts[at].1 == 0 {
            counts.remove(at);
        }
    }
}

/// Adds a node that comes after those in `counts`, with those of its pods that are in the set.
fn add(counts: &mut PodCounts, set: &PodSet, node: NodeId, pods: &[Arc<PodInfo>]) {
    let count = pods.iter().filter(|pod| set.contains(pod)).count();
    if count > 0 {
        // A node has far fewer pods.
        counts.push((node, count as u32));
    }
}

/// How much is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Entries of all counters together, of eight bytes each.
    pub(super) entries: usize,
    pub(super) sets: usize,
}

impl Limits {
    pub(super) const DEFAULT: Self = Self {
        entries: 8 << 20,
        sets: 16_384,
    };
}

#[derive(Debug)]
struct Counter {
    set: Arc<PodSet>,
    counts: Arc<PodCounts>,
    // Few, and of labels with few values: as a rule one, the zone.
    by_place: Vec<ByPlace>,
}

/// The same summed up by place.
#[derive(Debug)]
struct ByPlace {
    key: String,
    // Up to which change of nodes they hold.
    as_of: NodesVersion,
    sums: Vec<u32>,
}

/// Sums by place are kept of labels with no more values than this, and for so many labels a set.
const MAX_PLACES: usize = 256;
const MAX_SUMS: usize = 4;

/// How many sets are counted in one pass: as many as a pod of a candidate may name, and few enough for what is counted
/// to be small.
pub(super) const AT_ONCE: usize = 64;

/// Counters by set.
#[derive(Debug)]
pub(super) struct Counters {
    by_set: HashMap<Arc<PodSet>, SelectorId>,
    slots: Vec<Option<Counter>>,
    free: Vec<SelectorId>,
    anchored: Anchored,
    used: Used<SelectorId>,
    entries: usize,
    limits: Limits,
}

impl Default for Counters {
    fn default() -> Self {
        Self::new(Limits::DEFAULT)
    }
}

impl Counters {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            by_set: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            anchored: Anchored::default(),
            used: Used::default(),
            entries: 0,
            limits,
        }
    }

    /// Counts the first [`AT_ONCE`] of these sets that aren't counted yet, in one pass over `pods`: all pods on nodes,
    /// in ascending order of nodes.
    pub(super) fn prepare<'a, 's>(
        &mut self,
        sets: impl Iterator<Item = &'s PodSet>,
        pods: impl Iterator<Item = (NodeId, &'a [Arc<PodInfo>])>,
    ) {
        let mut seen = HashSet::new();
        let new = sets.filter(|set| !self.by_set.contains_key(*set) && seen.insert(*set));
        let mut new: Vec<_> = new.take(AT_ONCE).map(|it| (it, PodCounts::new())).collect();
        if new.is_empty() {
            return;
        }
        for (node, pods) in pods {
            for (set, counts) in &mut new {
                add(counts, set, node, pods);
            }
        }
        for (set, counts) in new {
            self.keep(set.clone(), Arc::new(counts));
        }
    }

    /// The counts of a set; `pods` are all pods on nodes, in ascending order of nodes, for a set that isn't counted
    /// yet.
    pub(super) fn count<'a>(
        &mut self,
        set: &PodSet,
        pods: impl Iterator<Item = (NodeId, &'a [Arc<PodInfo>])>,
    ) -> Arc<PodCounts> {
        if let Some(&id) = self.by_set.get(set)
            && let Some(counter) = self.counter(id)
        {
            let counts = counter.counts.clone();
            self.used.now(id);
            return counts;
        }
        let mut counts = PodCounts::new();
        for (node, pods) in pods {
            add(&mut counts, set, node, pods);
        }
        let counts = Arc::new(counts);
        self.keep(set.clone(), counts.clone());
        counts
    }

    /// Of a set that is counted: how many pods each place has, by number. `None` where that isn't kept.
    pub(super) fn sums(
        &mut self,
        set: &PodSet,
        key: &str,
        topology: &Topology,
        now: NodesVersion,
    ) -> Option<&[u32]> {
        if topology.places() > MAX_PLACES {
            return None;
        }
        let id = *self.by_set.get(set)?;
        let Counter {
            counts, by_place, ..
        } = self.slots.get_mut(id as usize)?.as_mut()?;
        by_place.retain(|known| known.as_of == now);
        let at = by_place.iter().position(|known| known.key == key);
        let at = at.unwrap_or_else(|| {
            let mut sums = vec![0_u32; topology.places()];
            for &(node, pods) in &**counts {
                if let Some(place) = topology.place(node) {
                    let sum = &mut sums[place.index()];
                    *sum = sum.saturating_add(pods);
                }
            }
            by_place.truncate(MAX_SUMS - 1);
            by_place.push(ByPlace {
                key: key.to_owned(),
                as_of: now,
                sums,
            });
            by_place.len().saturating_sub(1)
        });
        by_place.get(at).map(|known| &*known.sums)
    }

    fn counter(&self, id: SelectorId) -> Option<&Counter> {
        self.slots.get(id as usize)?.as_ref()
    }

    fn keep(&mut self, set: PodSet, counts: Arc<PodCounts>) {
        let set = Arc::new(set);
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        let (place, selector) = set.anchor();
        self.anchored.insert(place, selector, id);
        self.entries = self.entries.saturating_add(counts.len());
        self.by_set.insert(set.clone(), id);
        self.slots[id as usize] = Some(Counter {
            set,
            counts,
            by_place: Vec::new(),
        });
        self.used.now(id);
        while self.entries > self.limits.entries || self.by_set.len() > self.limits.sets {
            let Some(id) = self.used.give_way() else {
                return;
            };
            self.forget(id);
        }
    }

    fn forget(&mut self, id: SelectorId) {
        let counter = self.slots.get_mut(id as usize).and_then(Option::take);
        if let Some(Counter { set, counts, .. }) = counter {
            let (place, selector) = set.anchor();
            self.anchored.remove(place, selector, id);
            self.entries = self.entries.saturating_sub(counts.len());
            self.by_set.remove(&set);
            self.free.push(id);
        }
    }

    /// A pod came to a node.
    pub(super) fn pod_came(&mut self, node: NodeId, pod: &PodInfo, places: &Places) {
        let more = |sum: &mut u32| *sum = sum.saturating_add(1);
        self.each(pod, places, node, |counts| one_more(counts, node), more);
    }

    /// A pod left a node.
    pub(super) fn pod_went(&mut self, node: NodeId, pod: &PodInfo, places: &Places) {
        let less = |sum: &mut u32| *sum = sum.saturating_sub(1);
        self.each(pod, places, node, |counts| one_less(counts, node), less);
    }

    /// Changes the counts of the sets that a pod is in.
    fn each(
        &mut self,
        pod: &PodInfo,
        places: &Places,
        node: NodeId,
        change: impl Fn(&mut PodCounts),
        change_sum: impl Fn(&mut u32),
    ) {
        if self.by_set.is_empty() {
            return;
        }
        for id in self.anchored.find(&pod.key.namespace, pod.labels()) {
            let counter = self.slots.get_mut(id as usize).and_then(Option::as_mut);
            if let Some(counter) = counter
                && counter.set.contains(pod)
            {
                let before = counter.counts.len();
                change(Arc::make_mut(&mut counter.counts));
                let entries = self.entries.saturating_sub(before);
                self.entries = entries.saturating_add(counter.counts.len());
                for ByPlace { key, as_of, sums } in &mut counter.by_place {
                    // What is older isn't used any more.
                    if *as_of == places.version
                        && let Some(place) = places.of(key, node)
                    {
                        change_sum(&mut sums[place.index()]);
                    }
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.by_set.len(), self.entries)
    }
}
