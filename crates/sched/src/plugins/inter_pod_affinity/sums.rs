//! Owns numbers of nodes summed up over places: nodes with equal values of a label. Knows nothing of what is counted.

use std::sync::Arc;

use crate::counts::{PlaceId, Topology};
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
}

impl PlaceSums {
    /// No sums yet, of these nodes.
    pub(super) fn within(scope: InScope) -> Self {
        Self {
            scope,
            ..Self::default()
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
        let mut is_touched = false;
        for &(node, count) in counts {
            if let Some(place) = topology.place(node).filter(|_| scope.has(node)) {
                let sum = &mut sums[place.index()];
                *sum = sum.saturating_add(factor.saturating_mul(i64::from(count)));
                is_touched = true;
            }
        }
        self.is_touched |= is_touched;
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
        let sums = base.keys.iter().flat_map(|known| &known.sums);
        let total = sums.fold(0_i64, |total, sum| total.saturating_add(*sum));
        Self {
            base: Arc::new(base),
            total,
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
