//! Owns which nodes share a place: nodes with equal values of one label, each value with a small number. Knows nothing
//! of pods.

use std::collections::HashMap;
use std::sync::Arc;

use crate::table::NodeId;

/// How many topology keys are kept in mind; pods name few.
pub(super) const MAX_KEYS: usize = 64;

/// The number of a label's value. Below [`Topology::places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlaceId(u32);

impl PlaceId {
    const NONE: Self = Self(u32::MAX);

    /// For vectors with an element a place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The nodes' values of one label.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    // By row.
    by_row: Vec<PlaceId>,
    by_value: HashMap<Arc<str>, PlaceId>,
    // By place.
    nodes: Vec<u32>,
    placed: usize,
}

impl Topology {
    /// Where a node is; `None` if it hasn't the label.
    pub fn place(&self, node: NodeId) -> Option<PlaceId> {
        let place = *self.by_row.get(node.index())?;
        (place != PlaceId::NONE).then_some(place)
    }

    /// Numbers of places are below this. Some may have no node any more.
    pub fn places(&self) -> usize {
        self.by_value.len()
    }

    /// How many nodes are at some place.
    pub const fn placed(&self) -> usize {
        self.placed
    }

    /// How many nodes each place has, by number.
    pub fn nodes_by_place(&self) -> &[u32] {
        &self.nodes
    }

    /// Where each node is, by row, as numbers of places; a row that isn't there, or at none, has one that no place has.
    pub(crate) fn by_row(&self) -> &[PlaceId] {
        &self.by_row
    }

    /// The place with this value.
    pub fn place_of(&self, value: &str) -> Option<PlaceId> {
        self.by_value.get(value).copied()
    }

    /// Whether most values have no node any more.
    pub(super) fn is_stale(&self) -> bool {
        self.by_value.len() > self.by_row.len().saturating_mul(2).saturating_add(MAX_KEYS)
    }

    /// The node's value is this one.
    pub(super) fn set(&mut self, node: NodeId, value: Option<&str>) {
        let row = node.index();
        if self.by_row.len() <= row {
            self.by_row.resize(row.saturating_add(1), PlaceId::NONE);
        }
        let place = value.map_or(PlaceId::NONE, |value| self.number(value));
        let before = std::mem::replace(&mut self.by_row[row], place);
        if let Some(nodes) = self.nodes.get_mut(before.index()) {
            *nodes = nodes.saturating_sub(1);
            self.placed = self.placed.saturating_sub(1);
        }
        if let Some(nodes) = self.nodes.get_mut(place.index()) {
            *nodes = nodes.saturating_add(1);
            self.placed = self.placed.saturating_add(1);
        }
    }

    fn number(&mut self, value: &str) -> PlaceId {
        if let Some(place) = self.place_of(value) {
            return place;
        }
        // There are never more values than nodes have had.
        let place = PlaceId(self.by_value.len() as u32);
        self.by_value.insert(value.into(), place);
        self.nodes.push(0);
        place
    }
}
