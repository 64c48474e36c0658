//! Owns what pods will take that are on their way to nodes, though nothing is held for them here yet.
//! Scoring counts it as taken, so that pods that come together are spread. Filter doesn't: it may never come.

use std::collections::HashMap;

use crate::names::NodeName;
use crate::requests::PodRequests;
use crate::resources::Resources;

/// What is on its way, by node.
#[derive(Clone, Debug, Default)]
pub struct Coming {
    // Lookups only; never iterated, so that its order can't matter.
    by_node: HashMap<NodeName, Resources>,
}

impl Coming {
    /// A pod with these requests is on its way to a node.
    pub fn add(&mut self, node: &str, pod: &PodRequests) {
        let sum = self.by_node.entry(NodeName::from(node)).or_default();
        sum.add(&pod.non_zero);
    }

    /// A pod with these requests, which was added, isn't on its way any more.
    pub fn remove(&mut self, node: &str, pod: &PodRequests) {
        if let Some(sum) = self.by_node.get_mut(node) {
            sum.subtract(&pod.non_zero);
        }
    }

    /// Nothing is on its way to a node that is gone.
    pub fn drop_node(&mut self, node: &str) {
        self.by_node.remove(node);
    }

    /// What is on its way to a node, as scores count it.
    pub(crate) fn at(&self, node: &NodeName) -> Option<&Resources> {
        self.by_node.get(node)
    }
}
