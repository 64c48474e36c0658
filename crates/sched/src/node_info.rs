//! Owns what Filter and Score look at: a node and the pods on it, with their sums kept up to date.
//! Knows nothing of how the cache learned of them.

use std::sync::Arc;

use crate::host_ports::HostPort;
use crate::labels::Labels;
use crate::names::{NodeName, PodUid};
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::resources::{ResourceSum, Resources};

/// A node with the pods on it, assumed ones included.
///
/// Shared as `Arc<NodeInfo>` between cache and snapshots, copied only when one side changes it.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    node: Arc<NodeObject>,
    pods: Vec<Arc<PodInfo>>,
    // Subsets of `pods`, so that inter-pod affinity needn't scan all.
    with_affinity: Vec<Arc<PodInfo>>,
    with_required_anti_affinity: Vec<Arc<PodInfo>>,
    requested: ResourceSum,
    non_zero_requested: ResourceSum,
    used_ports: Vec<HostPort>,
    unread: Option<PodUid>,
    generation: u64,
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Arc<NodeObject>) -> Self {
        Self {
            node,
            pods: Vec::new(),
            with_affinity: Vec::new(),
            with_required_anti_affinity: Vec::new(),
            requested: ResourceSum::default(),
            non_zero_requested: ResourceSum::default(),
            used_ports: Vec::new(),
            unread: None,
            generation: 0,
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

    /// Those with any inter-pod affinity or anti-affinity.
    pub fn pods_with_affinity(&self) -> &[Arc<PodInfo>] {
        &self.with_affinity
    }

    /// Those with required anti-affinity.
    pub fn pods_with_required_anti_affinity(&self) -> &[Arc<PodInfo>] {
        &self.with_required_anti_affinity
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
    pub fn used_ports(&self) -> &[HostPort] {
        &self.used_ports
    }

    /// A pod on it that couldn't be taken in, if there is one: it is missing in all sums.
    pub const fn unread_pod(&self) -> Option<&PodUid> {
        self.unread.as_ref()
    }

    /// Grows with each change; equal generations of one node mean equal contents.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) const fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    pub(crate) fn set_unread(&mut self, pod: Option<PodUid>) {
        self.unread = pod;
    }

    pub(crate) fn set_node(&mut self, node: Arc<NodeObject>) {
        self.node = node;
    }

    /// Puts a pod on it.
    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests.total);
        self.non_zero_requested.add(&pod.requests.non_zero);
        self.used_ports.extend_from_slice(&pod.host_ports);
        if !pod.pod_affinity.is_empty() {
            self.with_affinity.push(pod.clone());
        }
        if !pod.pod_affinity.required_anti.is_empty() {
            self.with_required_anti_affinity.push(pod.clone());
        }
        self.pods.push(pod);
    }

    /// Takes a pod off it; `None` if it isn't there.
    pub fn remove_pod(&mut self, uid: &PodUid) -> Option<Arc<PodInfo>> {
        let at = self.pods.iter().position(|pod| pod.uid == *uid)?;
        let pod = self.pods.swap_remove(at);
        self.with_affinity.retain(|pod| pod.uid != *uid);
        self.with_required_anti_affinity
            .retain(|pod| pod.uid != *uid);
        self.requested.subtract(&pod.requests.total);
        self.non_zero_requested.subtract(&pod.requests.non_zero);
        for port in &pod.host_ports {
            if let Some(at) = self.used_ports.iter().position(|used| used == port) {
                self.used_ports.swap_remove(at);
            }
        }
        Some(pod)
    }
}

#[cfg(test)]
mod tests;
