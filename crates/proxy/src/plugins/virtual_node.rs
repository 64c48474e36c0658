//! *A proxy never reaches a real node*: the Filter that no configuration can switch off.

use pilotage_api::keys;
use pilotage_sched::{
    Actions, CycleState, EnqueueExtensions, EventKind, EventResource, Filter, NodeView, Plugin,
    PluginName, PodInfo, Status, Verdict,
};

/// Passes only virtual nodes of ours that stand for a target of the pod's namespace, or of all namespaces.
#[derive(Debug, Default)]
pub struct VirtualNode;

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
}

impl Filter for VirtualNode {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        let labels = node.labels();
        let label = |key: &str| labels.get(key).map(AsRef::as_ref);
        if label(keys::PROVIDER) != Some(keys::PROVIDER_VALUE) {
            return Err(Status::unresolvable(
                "node(s) were not virtual nodes of a target",
            ));
        }
        let everyones = label(keys::CLUSTER_TARGET_NAME).is_some();
        if !everyones && label(keys::TARGET_NAMESPACE) != Some(&*pod.key.namespace) {
            return Err(Status::unresolvable(
                "node(s) stood for a target of another namespace",
            ));
        }
        Ok(())
    }
}
