//! Owns what pods will take that are on their way to nodes, though nothing is held for them here yet.
//! Scoring counts it as taken, so that pods that come together are spread. Filter doesn't: it may never come.

use std::collections::HashMap;

use crate::names::NodeName;
use crate::requests::PodRequests;
use crate::resources::ResourceSum;

/// What is on its way, by node.
#[derive(Clone, Debug, Default)]
pub struct Coming {
    // Lookups only; never iterated, so that its order can't matter.
    by_node: HashMap<NodeName, ComingPods>,
}

/// The pods that are on their way to one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComingPods {
    count: usize,
    /// What they will take.
    pub(crate) total: ResourceSum,
    /// The same with defaults.
    pub(crate) non_zero: ResourceSum,
}

impl Coming {
    /// A pod with these requests is on its way to a node.
    pub fn add(&mut self, node: &str, pod: &PodRequests) {
        let pods = self.by_node.entry(NodeName::from(node)).or_default();
        pods.count = pods.count.saturating_add(1);
        pods.total.add(&pod.total);
        pods.non_zero.add(&pod.non_zero);
    }

    /// A pod with these requests, which was added, isn't on its way any more.
    pub fn remove(&mut self, node: &str, pod: &PodRequests) {
        let Some(pods) = self.by_node.get_mut(node) else {
            return;
        };
        pods.count = pods.count.saturating_sub(1);
        pods.total.subtract(&pod.total);
        pods.non_zero.subtract(&pod.non_zero);
        if pods.count == 0 {
            self.by_node.remove(node);
        }
    }

    /// Nothing is on its way to a node that is gone.
    pub fn drop_node(&mut self, node: &str) {
        self.by_node.remove(node);
    }

    /// What is on its way to a node, as scores count it.
    pub(crate) fn at(&self, node: &NodeName) -> Option<&ComingPods> {
        self.by_node.get(node)
    }
}

#[cfg(test)]
mod tests {
    use super::Coming;
    use crate::names::NodeName;
    use crate::test_objects::pod;

    #[test]
    fn a_pod_that_wanted_everything_leaves_nothing_behind() {
        let at = |coming: &Coming| {
            let pods = coming.at(&NodeName::from("n"))?;
            assert_eq!(pods.total.milli_cpu, pods.non_zero.milli_cpu);
            Some(pods.total.milli_cpu)
        };
        let small = pod("small").request("cpu", "1").info();
        let huge = pod("huge").request("cpu", "9223372036854775807").info();
        let mut coming = Coming::default();
        coming.add("n", &small.needs.requests);
        coming.add("n", &huge.needs.requests);
        coming.remove("n", &huge.needs.requests);
        assert_eq!(at(&coming), Some(1000));
        coming.remove("n", &small.needs.requests);
        assert_eq!(at(&coming), None);
        // What was dropped with its node isn't owed to the next one of its name.
        coming.add("n", &huge.needs.requests);
        coming.drop_node("n");
        coming.remove("n", &huge.needs.requests);
        assert_eq!(at(&coming), None);
    }
}
