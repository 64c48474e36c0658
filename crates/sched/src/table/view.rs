//! Owns the view on one row of the table that plugins get: small, copied freely, and never changed.

use std::ops::Deref;

use super::{NodeId, NodeInfo};

/// A node as plugins see it: its row, and its number in the table.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    row: &'a NodeInfo,
    id: NodeId,
}

impl<'a> NodeView<'a> {
    pub(super) const fn new(row: &'a NodeInfo, id: NodeId) -> Self {
        Self { row, id }
    }

    /// Its number in the table.
    pub const fn id(self) -> NodeId {
        self.id
    }

    /// Its row, for as long as the table lives.
    pub const fn row(self) -> &'a NodeInfo {
        self.row
    }
}

#[cfg(test)]
impl NodeInfo {
    /// As a node of its own table.
    pub(crate) const fn view(&self) -> NodeView<'_> {
        NodeView::new(self, NodeId::new(0))
    }
}

impl Deref for NodeView<'_> {
    type Target = NodeInfo;
    fn deref(&self) -> &NodeInfo {
        self.row
    }
}
