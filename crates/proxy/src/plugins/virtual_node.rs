//! *A proxy never reaches a real node*: the Filter that no configuration can switch off.

use pilotage_api::keys;
use pilotage_sched::{
    Actions, CycleState, EnqueueExtensions, EventKind, EventResource, Filter, HintReads, NodeScope,
    NodeView, Plugin, PluginName, PodInfo, Status, Verdict, labels::Labels,
};

/// Passes only virtual nodes of ours that stand for a target of the pod's namespace, or of all namespaces.
///
/// As the profile's scope it is the rule that no label of other nodes says anything about the pod: neither are they
/// places that want their share of pods, nor do the pods on them attract it or keep it away.
#[derive(Debug, Default)]
pub struct VirtualNode;

/// Why a node is none of those.
fn objection(pod: &PodInfo, labels: &Labels) -> Option<&'static str> {
    let label = |key: &str| labels.get(key).map(String::as_str);
    if label(keys::PROVIDER) != Some(keys::PROVIDER_VALUE) {
        return Some("node(s) were not virtual nodes of a target");
    }
    let everyones = label(keys::CLUSTER_TARGET_NAME).is_some();
    if !everyones && label(keys::TARGET_NAMESPACE) != Some(&*pod.key.namespace) {
        return Some("node(s) stood for a target of another namespace");
    }
    None
}

impl NodeScope for VirtualNode {
    fn includes(&self, pod: &PodInfo, labels: &Labels) -> bool {
        objection(pod, labels).is_none()
    }
}

impl Plugin for VirtualNode {
    fn name(&self) -> PluginName {
        "VirtualNode"
    }
}

impl EnqueueExtensions for VirtualNode {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(
            EventResource::Node,
            Actions::ADD | Actions::UPDATE_NODE_LABEL | Actions::UPDATE_NODE_TAINT,
        )]
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl Filter for VirtualNode {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        objection(pod, node.labels()).map_or(Ok(()), |why| Err(Status::unresolvable(why)))
    }
}
