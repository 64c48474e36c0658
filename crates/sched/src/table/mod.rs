//! Owns the one table of nodes that the scheduler works on: a row a node, integer columns beside the rows, numbers for
//! equal parts of nodes, and a log of what changed. No copy is made for a cycle, which has the table for itself.
//!
//! *What if* questions change the table and then put everything back: see [`WhatIf`]. Knows nothing of how nodes and
//! pods are learned of (see [`crate::cache`]), nor of what plugins say of them (see `classes`).

mod log;
mod node_info;
mod numbers;
mod order;
mod sets;
mod verdicts;
mod view;
mod what_if;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use self::log::ChangeLog;
pub(crate) use self::log::Position;
pub use self::log::Reads;
pub use self::node_info::NodeInfo;
pub use self::numbers::{Column, Numbers};
use self::order::NodeOrder;
pub use self::sets::SetId;
use self::sets::Sets;
use self::verdicts::Verdicts;
pub(crate) use self::verdicts::{Asks, RowVerdicts};
pub use self::view::NodeView;
pub(crate) use self::what_if::WhatIfTable;
use crate::counts::{CarriedTerms, Counts, PodCounts, PodSet, Topology};
use crate::images::ImageSpread;
use crate::labels::{HOSTNAME, Labels};
use crate::names::{NodeName, PodUid};
use crate::node_object::NodeObject;
use crate::plugins::BySet;
use crate::pod_info::PodInfo;

/// The number of a node's row. Nodes that have gone give their numbers away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    pub(crate) const fn new(row: usize) -> Self {
        // A cluster has far fewer nodes.
        Self(row as u32)
    }

    /// For vectors with an element a row.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What equal nodes share: numbers of their equal parts.
#[derive(Clone, Copy, Debug)]
struct Parts {
    labels: SetId,
    taints: SetId,
    images: SetId,
}

/// Taints, and whether the node is cordoned, as one value.
type TaintSet = (Vec<crate::taints::Taint>, bool);

/// Nodes with the pods on them.
#[derive(Debug, Default)]
pub struct NodeTable {
    rows: Vec<Option<NodeInfo>>,
    parts: Vec<Option<Parts>>,
    numbers: Numbers,
    free: Vec<NodeId>,
    // Lookups only; never iterated, so that its order can't matter.
    by_name: HashMap<NodeName, NodeId>,
    labels: Sets<Labels>,
    taints: Sets<TaintSet>,
    image_sets: Sets<Vec<Arc<str>>>,
    images: ImageSpread,
    // Grows with each change of the images, and of the number of nodes.
    images_version: u64,
    order: NodeOrder,
    in_order: OnceLock<Vec<NodeId>>,
    log: ChangeLog,
    counts: Counts,
    verdicts: Verdicts,
}

impl NodeTable {
    /// An empty table that takes the place of another.
    pub(crate) fn in_place_of(other: &Self) -> Self {
        Self {
            log: ChangeLog::after(&other.log),
            ..Self::default()
        }
    }

    /// How many nodes there are.
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no node.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of nodes are below this.
    pub(crate) const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// All nodes, in search order: zones take turns, so that a partial search samples every zone.
    pub fn ids(&self) -> &[NodeId] {
        self.in_order.get_or_init(|| {
            let ids = self.order.interleaved();
            ids.filter_map(|name| self.id(name)).collect()
        })
    }

    /// All nodes, in search order.
    pub fn iter(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.ids().iter().filter_map(|id| self.get(*id))
    }

    /// The number of a node.
    pub fn id(&self, name: &NodeName) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The node of this number.
    pub fn get(&self, id: NodeId) -> Option<NodeView<'_>> {
        let row = self.rows.get(id.index())?.as_ref()?;
        Some(NodeView::new(row, id))
    }

    /// The node of this name.
    pub fn by_name(&self, name: &NodeName) -> Option<NodeView<'_>> {
        self.get(self.id(name)?)
    }

    /// The integer columns, by number of node.
    pub const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The number of a node's labels, hostname apart: nodes with equal numbers differ in that label alone.
    pub fn label_set(&self, id: NodeId) -> Option<SetId> {
        Some(self.parts(id)?.labels)
    }

    /// Numbers of labels are below this.
    pub const fn label_sets(&self) -> usize {
        self.labels.len()
    }

    /// The number of a node's taints and of `spec.unschedulable`.
    pub fn taint_set(&self, id: NodeId) -> Option<SetId> {
        Some(self.parts(id)?.taints)
    }

    /// Numbers of taints are below this.
    pub const fn taint_sets(&self) -> usize {
        self.taints.len()
    }

    /// The number of a node's images, by name.
    pub fn image_set(&self, id: NodeId) -> Option<SetId> {
        Some(self.parts(id)?.images)
    }

    /// Numbers of image sets are below this.
    pub const fn image_sets(&self) -> usize {
        self.image_sets.len()
    }

    /// Which images the nodes have.
    pub const fn images(&self) -> &ImageSpread {
        &self.images
    }

    /// Equal versions mean equal images, on as many nodes.
    pub(crate) const fn images_version(&self) -> u64 {
        self.images_version
    }

    /// Counts what isn't counted yet of these sets, and finds the places of these labels, for
    /// [`count`](Self::count) and [`topology`](Self::topology): one pass for all is faster than one for each.
    pub fn prepare<'a>(
        &self,
        sets: impl Iterator<Item = &'a PodSet>,
        keys: impl Iterator<Item = &'a str>,
    ) {
        self.counts
            .prepare(sets, self.all_pods(), keys, self.all_labels());
    }

    /// How many pods of a set each node has. Don't keep it beyond the cycle: as long as somebody has it, each change of
    /// a count copies it.
    pub fn count(&self, set: &PodSet) -> Arc<PodCounts> {
        self.counts.count(set, self.all_pods())
    }

    /// The same summed up by place of this label, by number, of all nodes; `None` if that isn't at hand, since the
    /// label has many values.
    pub(crate) fn count_by_place(
        &self,
        set: &PodSet,
        key: &str,
        topology: &Topology,
    ) -> Option<Vec<u32>> {
        // Whoever isn't counted yet is now.
        drop(self.count(set));
        self.counts.sums(set, key, topology)
    }

    /// Which nodes share a value of this label.
    pub fn topology(&self, key: &str) -> Arc<Topology> {
        self.counts.topology(key, self.all_labels())
    }

    fn all_labels(&self) -> impl Iterator<Item = (NodeId, &Labels)> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(row, node)| Some((NodeId::new(row), node.as_ref()?.labels())))
    }

    /// The inter-pod terms of the pods on nodes.
    pub const fn carried_terms(&self) -> &CarriedTerms {
        self.counts.carried()
    }

    /// What holds for each row whatever pods come and go: asked once for pods with the same needs, and again when nodes
    /// change.
    pub(crate) fn verdicts(
        &self,
        pod: &PodInfo,
        asks: Asks,
        says: impl Fn(NodeView<'_>) -> bool,
    ) -> RowVerdicts {
        self.verdicts
            .of(&pod.needs, asks, || self.ask_rows(asks, says))
    }

    /// One of equal nodes speaks for the others.
    fn ask_rows(&self, asks: Asks, says: impl Fn(NodeView<'_>) -> bool) -> Vec<bool> {
        let sets = match asks {
            Asks::Labels => self.label_sets(),
            Asks::Labelled => 0,
            Asks::Taints(_) => self.taint_sets(),
        };
        let mut known = BySet::new(sets);
        let rows = (0..self.rows()).map(NodeId::new);
        let verdicts = rows.map(|id| {
            let set = match asks {
                Asks::Labels => self.label_set(id),
                Asks::Labelled => None,
                Asks::Taints(_) => self.taint_set(id),
            };
            let ask = || self.get(id).is_some_and(&says);
            let Ok(verdict) = known.get(set, || Ok::<_, Infallible>(ask()));
            verdict && self.get(id).is_some()
        });
        verdicts.collect()
    }

    fn all_pods(&self) -> impl Iterator<Item = (NodeId, &[Arc<PodInfo>])> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(row, node)| Some((NodeId::new(row), node.as_ref()?.pods())))
    }

    /// Has a node use the names of images that others have already.
    pub(crate) fn share_images(&self, node: &mut NodeObject) {
        for image in &mut node.images {
            if let Some(name) = self.images.name(&image.name) {
                image.name = name;
            }
        }
    }

    fn parts(&self, id: NodeId) -> Option<Parts> {
        self.parts.get(id.index()).copied().flatten()
    }

    /// Where the log ends now.
    pub(crate) fn position(&self) -> Position {
        self.log.end()
    }

    /// Which nodes changed since then, and what of them, oldest first; `None` if that was too long ago. A node that is
    /// told may have gone.
    pub(crate) fn changes_since(
        &self,
        position: Position,
    ) -> Option<impl ExactSizeIterator<Item = (NodeId, Reads)>> {
        self.log.since(position)
    }

    /// The Node objects, whatever else is wrong with the table.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<NodeObject>> {
        self.rows.iter().flatten().map(NodeInfo::node)
    }

    /// Names of all nodes, in search order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.order.interleaved()
    }

    /// Adds a node without pods, or changes one; the object before, if there was one.
    pub(crate) fn set_node(&mut self, node: Arc<NodeObject>) -> Option<Arc<NodeObject>> {
        let Some(id) = self.id(&node.name) else {
            let parts = self.take_parts(&node);
            self.add_node(node, parts);
            return None;
        };
        let old = self.rows[id.index()].as_ref()?.node().clone();
        if self.images.change(&old.images, &node.images) {
            self.images_version = self.images_version.saturating_add(1);
        }
        if old.equals_for_plugins(&node) {
            self.edit(id, |row| row.set_node(node));
            return Some(old);
        }
        self.verdicts.forget();
        let parts = self.take_parts(&node);
        if let Some(before) = self.parts[id.index()].replace(parts) {
            self.give_back(before);
        }
        if old.labels() != node.labels() {
            self.counts.node_changed(id, Some(node.labels()));
        }
        let (from, to) = (old.zone(), node.zone());
        if from != to {
            self.order.remove(&from, &node.name);
            self.order.insert(to, node.name.clone());
            self.in_order.take();
        }
        self.change(id, Reads::OBJECT, |row| row.set_node(node));
        Some(old)
    }

    fn add_node(&mut self, node: Arc<NodeObject>, parts: Parts) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.parts.push(None);
            NodeId::new(self.rows.len().saturating_sub(1))
        });
        self.verdicts.forget();
        self.order.insert(node.zone(), node.name.clone());
        self.in_order.take();
        self.by_name.insert(node.name.clone(), id);
        self.images.change(&[], &node.images);
        self.images_version = self.images_version.saturating_add(1);
        self.counts.node_changed(id, Some(node.labels()));
        self.rows[id.index()] = Some(NodeInfo::new(node));
        self.parts[id.index()] = Some(parts);
        self.change(id, Reads::ANYTHING, |_| {});
    }

    /// Removes a node; what it was.
    pub(crate) fn remove_node(&mut self, name: &NodeName) -> Option<NodeInfo> {
        let id = self.by_name.remove(name)?;
        let row = self.rows[id.index()].take()?;
        self.verdicts.forget();
        if let Some(parts) = self.parts[id.index()].take() {
            self.give_back(parts);
        }
        self.order.remove(&row.node().zone(), name);
        self.in_order.take();
        self.images.change(&row.node().images, &[]);
        self.images_version = self.images_version.saturating_add(1);
        for pod in row.pods() {
            self.counts.pod_went(id, pod);
        }
        self.counts.node_changed(id, None);
        self.free.push(id);
        self.log.push(id, Reads::ANYTHING, self.order.len());
        Some(row)
    }

    /// Puts a pod on a node.
    pub(crate) fn add_pod(&mut self, id: NodeId, pod: Arc<PodInfo>) {
        if self.place_pod(id, pod) {
            self.log.push(id, Reads::PODS, self.order.len());
        }
    }

    /// Takes a pod off a node; `None` if it isn't there.
    pub(crate) fn remove_pod(&mut self, id: NodeId, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let (pod, _) = self.take_pod(id, uid)?;
        self.log.push(id, Reads::PODS, self.order.len());
        Some(pod)
    }

    /// Puts a pod on a node without telling anybody; `false` if there is no such node.
    fn place_pod(&mut self, id: NodeId, pod: Arc<PodInfo>) -> bool {
        let there = self.get(id).is_some();
        if there {
            self.counts.pod_came(id, &pod);
            self.edit(id, |row| row.add_pod(pod));
        }
        there
    }

    /// Takes a pod off a node without telling anybody; the pod, and its place among the pods there.
    fn take_pod(&mut self, id: NodeId, uid: &PodUid) -> Option<(Arc<PodInfo>, usize)> {
        let taken = self.edit(id, |row| {
            let at = row.pods().iter().position(|pod| pod.uid == *uid)?;
            Some((row.remove_pod(uid)?, at))
        });
        let taken = taken??;
        self.counts.pod_went(id, &taken.0);
        Some(taken)
    }

    /// Takes the pod off a node that came there last, where the lowest priority was this one before.
    fn take_newest(&mut self, id: NodeId, uid: &PodUid, lowest_priority: Option<i32>) {
        let taken = self.edit(id, |row| row.take_newest(uid, lowest_priority));
        if let Some(pod) = taken.flatten() {
            self.counts.pod_went(id, &pod);
        }
    }

    /// Undoes [taking](Self::take_pod) one.
    fn put_back(&mut self, id: NodeId, pod: Arc<PodInfo>, at: usize) {
        if self.get(id).is_some() {
            self.counts.pod_came(id, &pod);
            self.edit(id, |row| row.put_back(pod, at));
        }
    }

    /// Puts a newer version of a pod in its place that differs in nothing that plugins read.
    pub(crate) fn refresh_pod(&mut self, id: NodeId, pod: &Arc<PodInfo>) {
        self.edit(id, |row| row.refresh_pod(pod));
    }

    /// Says which pod on a node couldn't be taken in, if there is one.
    pub(crate) fn set_unread(&mut self, id: NodeId, pod: Option<PodUid>) {
        self.change(id, Reads::PODS, |row| row.set_unread(pod));
    }

    /// Changes a row, its columns and the log.
    pub(crate) fn change<T>(
        &mut self,
        id: NodeId,
        what: Reads,
        with: impl FnOnce(&mut NodeInfo) -> T,
    ) -> Option<T> {
        let done = self.edit(id, with)?;
        self.log.push(id, what, self.order.len());
        Some(done)
    }

    /// Changes a row and its columns in a way that concerns no kept answer, or is undone before one is asked for.
    fn edit<T>(&mut self, id: NodeId, with: impl FnOnce(&mut NodeInfo) -> T) -> Option<T> {
        let row = self.rows.get_mut(id.index())?.as_mut()?;
        let done = with(row);
        self.numbers.set(id, row);
        Some(done)
    }

    fn take_parts(&mut self, node: &NodeObject) -> Parts {
        let mut labels = node.labels().clone();
        labels.remove(HOSTNAME);
        let images = node.images.iter().map(|image| image.name.clone());
        Parts {
            labels: self.labels.take(labels),
            taints: self.taints.take((node.taints.clone(), node.unschedulable)),
            images: self.image_sets.take(images.collect()),
        }
    }

    fn give_back(&mut self, parts: Parts) {
        self.labels.give_back(parts.labels);
        self.taints.give_back(parts.taints);
        self.image_sets.give_back(parts.images);
    }
}

#[cfg(test)]
mod tests;
