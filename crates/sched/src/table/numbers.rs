//! Owns the integer columns of the table: what a plugin that looks at all nodes reads one after the other in memory.
//! Copies of what the rows say, as far as 64 bits hold it. Knows nothing of pods.

use super::{NodeId, NodeInfo};
use crate::resources::{Amounts, ResourceName, cap};

/// A column for each of these.
const COLUMNS: usize = 3;

/// A resource that has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// CPU in thousandths of a core.
    Cpu,
    /// Memory in bytes.
    Memory,
    /// Ephemeral storage in bytes.
    EphemeralStorage,
}

impl Column {
    /// All of them.
    pub const ALL: [Self; COLUMNS] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    /// The column of a resource, if it has one.
    pub const fn of(name: &ResourceName) -> Option<Self> {
        match name {
            ResourceName::Cpu => Some(Self::Cpu),
            ResourceName::Memory => Some(Self::Memory),
            ResourceName::EphemeralStorage => Some(Self::EphemeralStorage),
            ResourceName::Pods | ResourceName::Scalar(_) => None,
        }
    }

    /// This resource of some amounts.
    pub const fn amount<N: Copy>(self, amounts: &Amounts<N>) -> N {
        match self {
            Self::Cpu => amounts.milli_cpu,
            Self::Memory => amounts.memory,
            Self::EphemeralStorage => amounts.ephemeral_storage,
        }
    }
}

/// One number of each node.
#[derive(Debug, Default)]
struct PerNode<T>(Vec<T>);

impl<T: Copy + Default> PerNode<T> {
    fn set(&mut self, node: NodeId, value: T) {
        let at = node.index();
        if at >= self.0.len() {
            self.0.resize(at.saturating_add(1), T::default());
        }
        self.0[at] = value;
    }

    fn get(&self, node: NodeId) -> T {
        self.0[node.index()]
    }
}

/// The integer columns.
#[derive(Debug, Default)]
pub struct Numbers {
    allocatable: [PerNode<i64>; COLUMNS],
    requested: [PerNode<i64>; COLUMNS],
    non_zero_requested: [PerNode<i64>; COLUMNS],
    free_pods: PerNode<i64>,
    lowest_priority: PerNode<Option<i32>>,
    closed: PerNode<bool>,
}

impl Numbers {
    /// What a node can give to pods in all.
    pub fn allocatable(&self, column: Column, node: NodeId) -> i64 {
        self.allocatable[column as usize].get(node)
    }

    /// What its pods ask for.
    pub fn requested(&self, column: Column, node: NodeId) -> i64 {
        self.requested[column as usize].get(node)
    }

    /// The same with defaults; for scoring only.
    pub fn non_zero_requested(&self, column: Column, node: NodeId) -> i64 {
        self.non_zero_requested[column as usize].get(node)
    }

    /// How many more pods it takes.
    pub fn free_pods(&self, node: NodeId) -> i64 {
        self.free_pods.get(node)
    }

    /// The lowest priority of the pods on it; `None` if there are none.
    pub fn lowest_priority(&self, node: NodeId) -> Option<i32> {
        self.lowest_priority.get(node)
    }

    /// Whether a pod on it couldn't be taken in, so that its sums don't count.
    pub fn is_closed(&self, node: NodeId) -> bool {
        self.closed.get(node)
    }

    /// Follows a row.
    pub(super) fn set(&mut self, node: NodeId, row: &NodeInfo) {
        for column in Column::ALL {
            let at = column as usize;
            self.allocatable[at].set(node, column.amount(row.allocatable()));
            self.requested[at].set(node, cap(column.amount(row.requested())));
            self.non_zero_requested[at].set(node, cap(column.amount(row.non_zero_requested())));
        }
        let pods = i64::try_from(row.pods().len()).unwrap_or(i64::MAX);
        self.free_pods
            .set(node, row.allocatable().pods.saturating_sub(pods));
        self.lowest_priority.set(node, row.lowest_priority());
        self.closed.set(node, row.unread_pod().is_some());
    }
}
