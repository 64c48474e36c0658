//! Owns numbers of nodes summed up over places: nodes with equal values of a label. Knows nothing of what is counted.

use std::sync::Arc;

use crate::counts::{PlaceId, PodSet, Topology};
use crate::labels::Labels;
use crate::scope::InScope;
use crate::table::{NodeId, NodeTable, NodeView};

/// The sums of the places of one label.
#[derive(Debug)]
struct OfKey {
    key: String,
    topology: Arc<Topology>,
    sums: Vec<i64>,
}

/// Sums by label and place, of all nodes that are there for the pod.
#[derive(Debug, Default)]
pub(super) struct PlaceSums {
    keys: Vec<OfKey>,
    scope: InScope,
    is_touched: bool,
    // Of all places of all labels.
    total: i64,
}

impl PlaceSums {
    /// No sums yet, of these nodes.
    pub(super) fn within(scope: InScope) -> Self {
        Self {
            scope,
            ..Self::default()
        }
    }

    /// Adds the pods of a set, times `factor`, to the places of their nodes by this label.
    pub(super) fn add_set(&mut self, table: &NodeTable, key: &str, set: &PodSet, factor: i64) {
        let at = self.at_key(table, key);
        let known = &mut self.keys[at];
        let sums = self.scope.is_everywhere();
        let sums = sums.then(|| table.count_by_place(set, key, &known.topology));
        let Some(pods) = sums.flatten() else {
            return self.add(table, key, &table.count(set), factor);
        };
        for (sum, pods) in known.sums.iter_mut().zip(pods) {
            let more = factor.saturating_mul(pods.into());
            *sum = sum.saturating_add(more);
            self.total = self.total.saturating_add(more);
            self.is_touched |= pods > 0;
        }
    }

    /// Adds what nodes have, times `factor`, to their places by this label. Nodes without the label have none.
    pub(super) fn add(
        &mut self,
        table: &NodeTable,
        key: &str,
        counts: &[(NodeId, u32)],
        factor: i64,
    ) {
        let at = self.at_key(table, key);
        let (scope, OfKey { topology, sums, .. }) = (&self.scope, &mut self.keys[at]);
        let (mut is_touched, mut total) = (false, self.total);
        for &(node, count) in counts {
            if let Some(place) = topology.place(node).filter(|_| scope.has(node)) {
                let more = factor.saturating_mul(i64::from(count));
                let sum = &mut sums[place.index()];
                *sum = sum.saturating_add(more);
                total = total.saturating_add(more);
                is_touched = true;
            }
        }
        self.is_touched |= is_touched;
        self.total = total;
    }

    fn at_key(&mut self, table: &NodeTable, key: &str) -> usize {
        self.position(key).unwrap_or_else(|| {
            let topology = table.topology(key);
            self.keys.push(OfKey {
                key: key.to_owned(),
                sums: vec![0; topology.places()],
                topology,
            });
            self.keys.len().saturating_sub(1)
        })
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|known| known.key == key)
    }

    /// Whether anything was added to any place, and be it 0.
    pub(super) const fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// The sums of a node's places over all labels, together.
    pub(super) fn of_node(&self, node: NodeId) -> i64 {
        let places = self.keys.iter().map(|known| {
            let place = known.topology.place(node);
            place.map_or(0, |place| known.sums[place.index()])
        });
        places.fold(0, i64::saturating_add)
    }

    /// The same of many nodes.
    pub(super) fn of_nodes(&self, nodes: &[NodeId], sums: &mut Vec<i64>) {
        let first = sums.len();
        sums.resize(first.saturating_add(nodes.len()), 0);
        for known in &self.keys {
            for (sum, &node) in sums[first..].iter_mut().zip(nodes) {
                if let Some(place) = known.topology.place(node) {
                    *sum = sum.saturating_add(known.sums[place.index()]);
                }
            }
        }
    }
}

/// What pods that came and went in a *what if* change at one place.
#[derive(Clone, Debug)]
enum Change {
    /// Of a label that is summed up already, by its position.
    At(usize, PlaceId, i64),
    /// Of another label, with its value.
    Elsewhere(String, String, i64),
}

/// Counts of pods by label and place, which follow a *what if*. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceCounts {
    base: Arc<PlaceSums>,
    // Over all places, as they are in the *what if*.
    total: i64,
    // Of few nodes: as a rule of one.
    changes: Vec<Change>,
}

impl From<PlaceSums> for PlaceCounts {
    fn from(base: PlaceSums) -> Self {
        Self {
            total: base.total,
            base: Arc::new(base),
            changes: Vec::new(),
        }
    }
}

impl PlaceCounts {
    /// Whether no place has any.
    pub(super) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// There are so many more at the node's place by this label.
    pub(super) fn change(&mut self, key: &str, node: NodeView<'_>, by: i64) {
        let base = self.base.clone();
        if !base.scope.has(node.id()) {
            return;
        }
        match base.position(key) {
            Some(at) => {
                if let Some(place) = base.keys[at].topology.place(node.id()) {
                    self.note(Change::At(at, place, by));
                }
            }
            None => {
                if let Some(value) = node.labels().get(key) {
                    self.note(Change::Elsewhere(key.to_owned(), value.clone(), by));
                }
            }
        }
    }

    fn note(&mut self, change: Change) {
        let (Change::At(.., by) | Change::Elsewhere(.., by)) = change;
        self.total = self.total.saturating_add(by);
        let known = self
            .changes
            .iter_mut()
            .find_map(|known| match (known, &change) {
                (Change::At(at, place, sum), Change::At(key, here, _)) => {
                    (at == key && place == here).then_some(sum)
                }
                (Change::Elsewhere(at, place, sum), Change::Elsewhere(key, here, _)) => {
                    (at == key && place == here).then_some(sum)
                }
                _ => None,
            });
        match known {
            Some(sum) => *sum = sum.saturating_add(by),
            None => self.changes.push(change),
        }
    }

    /// Marks those of the nodes whose place has any, by any of the labels that are summed up: what [`any`](Self::any)
    /// says of each.
    pub(super) fn mark_any(&self, nodes: &[NodeId], mut mark: impl FnMut(usize)) {
        if !self.changes.is_empty() {
            for (at, node) in nodes.iter().enumerate() {
                if self.any(*node) {
                    mark(at);
                }
            }
            return;
        }
        if !self.base.is_touched {
            return;
        }
        for known in &self.base.keys {
            let by_row = known.topology.by_row();
            for (at, node) in nodes.iter().enumerate() {
                let place = by_row.get(node.index()).map(|place| place.index());
                let sum = place.and_then(|place| known.sums.get(place));
                if sum.is_some_and(|sum| *sum > 0) {
                    mark(at);
                }
            }
        }
    }

    /// Marks those of the nodes that aren't at a place by each of the labels that has some: of which [`all`](Self::all)
    /// doesn't say `Some(true)`.
    pub(super) fn mark_not_all(&self, nodes: &[NodeId], mut mark: impl FnMut(usize)) {
        if !self.changes.is_empty() {
            for (at, node) in nodes.iter().enumerate() {
                if self.all(*node) != Some(true) {
                    mark(at);
                }
            }
            return;
        }
        for known in &self.base.keys {
            let by_row = known.topology.by_row();
            for (at, node) in nodes.iter().enumerate() {
                let place = by_row.get(node.index()).map(|place| place.index());
                let sum = place.and_then(|place| known.sums.get(place));
                if sum.is_none_or(|sum| *sum <= 0) {
                    mark(at);
                }
            }
        }
    }

    /// Marks those of the nodes that aren't at a place by each of the labels.
    pub(super) fn mark_placeless(&self, nodes: &[NodeId], mut mark: impl FnMut(usize)) {
        for known in &self.base.keys {
            for (at, node) in nodes.iter().enumerate() {
                if known.topology.place(*node).is_none() {
                    mark(at);
                }
            }
        }
    }

    /// Whether a *what if* put some at places by other labels.
    pub(super) fn is_elsewhere(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| matches!(change, Change::Elsewhere(..)))
    }

    /// Whether a node's place has any, by any of the labels that are summed up.
    pub(super) fn any(&self, node: NodeId) -> bool {
        (0..self.base.keys.len()).any(|at| self.at(at, node) > Some(0))
    }

    /// The same by other labels, which only a *what if* knows.
    pub(super) fn any_elsewhere<'a>(&self, labels: impl Fn() -> Option<&'a Labels>) -> bool {
        self.changes.iter().any(|change| match change {
            Change::At(..) => false,
            Change::Elsewhere(key, value, by) => {
                *by > 0 && labels().and_then(|labels| labels.get(key)) == Some(value)
            }
        })
    }

    /// Whether a node has a place by each of the labels; and if so, whether each has some.
    pub(super) fn all(&self, node: NodeId) -> Option<bool> {
        let mut all = true;
        for at in 0..self.base.keys.len() {
            all &= self.at(at, node)? > 0;
        }
        Some(all)
    }

    /// How many a node's place has by one of the labels; `None` if the node isn't at any.
    fn at(&self, at: usize, node: NodeId) -> Option<i64> {
        let known = &self.base.keys[at];
        let place = known.topology.place(node)?;
        let sum = known.sums[place.index()];
        let changed = self.changes.iter().find_map(|change| match change {
            Change::At(key, here, by) if (*key, *here) == (at, place) => Some(*by),
            _ => None,
        });
        Some(sum.saturating_add(changed.unwrap_or(0)))
    }
}
