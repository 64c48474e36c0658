//! Owns which pods are expected on which nodes (`status.nominatedNodeName`), so that room made for them
//! isn't given away. Knows nothing of why they are expected there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::names::{NodeName, PodUid};
use crate::pod_info::PodInfo;

/// A pod that was expected on a node.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The pod, in the version that counted there.
    pub pod: Arc<PodInfo>,
    /// The node.
    pub node: NodeName,
}

/// Pods by the node where they are expected.
#[derive(Clone, Debug, Default)]
pub struct Nominator {
    by_node: HashMap<NodeName, BTreeMap<PodUid, Arc<PodInfo>>>,
    by_pod: HashMap<PodUid, NodeName>,
    /// Those that are expected only where evictions would make room for which they have no leave.
    offered: HashSet<PodUid>,
}

impl Nominator {
    /// Expects a pod on a node, and nowhere else.
    pub fn nominate(&mut self, pod: Arc<PodInfo>, node: NodeName) {
        self.clear(&pod.uid);
        self.by_pod.insert(pod.uid.clone(), node.clone());
        self.by_node
            .entry(node)
            .or_default()
            .insert(pod.uid.clone(), pod);
    }

    /// What a pod has leave for or not stays as it is; the pod itself is expected in this version.
    pub(crate) fn refresh(&mut self, pod: Arc<PodInfo>, node: NodeName) {
        let offered = self.offered.contains(&pod.uid);
        let uid = pod.uid.clone();
        self.nominate(pod, node);
        if offered {
            self.only_offered(uid);
        }
    }

    /// A pod that is expected somewhere has no leave yet to make the room there.
    pub(crate) fn only_offered(&mut self, uid: PodUid) {
        if self.by_pod.contains_key(&uid) {
            self.offered.insert(uid);
        }
    }

    /// Whether a pod was merely offered the room where it is expected.
    pub(crate) fn is_only_offered(&self, uid: &PodUid) -> bool {
        self.offered.contains(uid)
    }

    /// Expects the pod nowhere; where it was expected.
    pub fn clear(&mut self, uid: &PodUid) -> Option<Expected> {
        self.offered.remove(uid);
        let node = self.by_pod.remove(uid)?;
        let pods = self.by_node.get_mut(&node)?;
        let pod = pods.remove(uid);
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        Some(Expected { pod: pod?, node })
    }

    /// Where the pod is expected.
    pub fn node_of(&self, uid: &PodUid) -> Option<&NodeName> {
        self.by_pod.get(uid)
    }

    /// The pods expected on a node, by UID.
    pub fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.by_node
            .get(node)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// The nodes where pods are expected, in no particular order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.by_node.keys()
    }

    /// Whether no pod is expected anywhere.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}
