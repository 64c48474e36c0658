//! Owns what Filter and Score look at: a node and the pods on it, with their sums kept up to date.
//! Knows nothing of how the cache learned of them.

use std::sync::Arc;

use crate::host_ports::UsedPorts;
use crate::labels::Labels;
use crate::names::{NodeName, PodUid};
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::resources::{ResourceSum, Resources};

/// A node with the pods on it, assumed ones included: a row of the table.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    node: Arc<NodeObject>,
    pods: Vec<Arc<PodInfo>>,
    requested: ResourceSum,
    non_zero_requested: ResourceSum,
    used_ports: UsedPorts,
    lowest_priority: Option<i32>,
    unread: Option<PodUid>,
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Arc<NodeObject>) -> Self {
        Self {
            node,
            pods: Vec::new(),
            requested: ResourceSum::default(),
            non_zero_requested: ResourceSum::default(),
            used_ports: UsedPorts::default(),
            lowest_priority: None,
            unread: None,
        }
    }

    /// The Node object.
    pub fn node(&self) -> &Arc<NodeObject> {
        &self.node
    }

    /// Its name.
    pub fn name(&self) -> &NodeName {
        &self.node.name
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        self.node.labels()
    }

    /// What it can give to pods in all.
    pub fn allocatable(&self) -> &Resources {
        &self.node.allocatable
    }

    /// The pods on it.
    pub fn pods(&self) -> &[Arc<PodInfo>] {
        &self.pods
    }

    /// What its pods ask for, in all.
    pub fn requested(&self) -> &ResourceSum {
        &self.requested
    }

    /// The same with defaults for containers that state no CPU or memory; for scoring only.
    pub fn non_zero_requested(&self) -> &ResourceSum {
        &self.non_zero_requested
    }

    /// Host ports in use.
    pub fn used_ports(&self) -> &UsedPorts {
        &self.used_ports
    }

    /// The lowest priority of its pods; `None` if there are none.
    pub const fn lowest_priority(&self) -> Option<i32> {
        self.lowest_priority
    }

    /// A pod on it that couldn't be taken in, if there is one: it is missing in all sums.
    pub const fn unread_pod(&self) -> Option<&PodUid> {
        self.unread.as_ref()
    }

    pub(crate) fn set_unread(&mut self, pod: Option<PodUid>) {
        self.unread = pod;
    }

    pub(crate) fn set_node(&mut self, node: Arc<NodeObject>) {
        self.node = node;
    }

    /// Puts a pod back where it was taken off, at this place among the pods.
    pub(super) fn put_back(&mut self, pod: Arc<PodInfo>, at: usize) {
        self.add_pod(pod);
        let last = self.pods.len().saturating_sub(1);
        self.pods.swap(at.min(last), last);
    }

    /// Puts a newer version of a pod in its place that asks for the same.
    pub(super) fn refresh_pod(&mut self, pod: &Arc<PodInfo>) {
        if let Some(known) = self.pods.iter_mut().find(|known| known.uid == pod.uid) {
            *known = pod.clone();
        }
    }

    /// Puts a pod on it.
    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.needs.requests.total);
        self.non_zero_requested.add(&pod.needs.requests.non_zero);
        self.used_ports.add(&pod.needs.host_ports);
        let lowest = self.lowest_priority.unwrap_or(pod.priority);
        self.lowest_priority = Some(lowest.min(pod.priority));
        self.pods.push(pod);
    }

    /// Takes a pod off it; `None` if it isn't there.
    pub fn remove_pod(&mut self, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let at = self.pods.iter().position(|pod| pod.uid == *uid)?;
        let pod = self.pods.swap_remove(at);
        self.give_back(&pod);
        if self.lowest_priority == Some(pod.priority) {
            self.lowest_priority = self.pods.iter().map(|pod| pod.priority).min();
        }
        Some(pod)
    }

    /// Takes the pod that came last off again, where the lowest priority was this one before: however many pods there
    /// are.
    pub(crate) fn take_newest(
        &mut self,
        uid: &PodUid,
        lowest_priority: Option<i32>,
    ) -> Option<Arc<PodInfo>> {
        if self.pods.last().is_none_or(|newest| newest.uid != *uid) {
            return self.remove_pod(uid);
        }
        let pod = self.pods.pop()?;
        self.give_back(&pod);
        self.lowest_priority = lowest_priority;
        Some(pod)
    }

    /// What a pod took that isn't here any more.
    fn give_back(&mut self, pod: &PodInfo) {
        self.requested.subtract(&pod.needs.requests.total);
        self.non_zero_requested
            .subtract(&pod.needs.requests.non_zero);
        self.used_ports.remove(&pod.needs.host_ports);
    }
}

#[cfg(test)]
mod tests;
