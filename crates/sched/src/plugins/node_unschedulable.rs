//! Keeps pods off cordoned nodes.

use super::by_set;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::node_object::NodeObject;
use crate::plugin::{EnqueueExtensions, Filter, HintReads, Plugin};
use crate::pod_info::PodInfo;
use crate::refusals::Refusals;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};
use crate::taints::{Comparison, Effect, Taint};

/// Rejects nodes with `spec.unschedulable`, unless the pod tolerates the taint that stands for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeUnschedulable;

impl NodeUnschedulable {
    fn tolerated(pod: &PodInfo) -> bool {
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: String::new(),
            effect: Effect::NoSchedule,
        };
        // Nothing compares with a taint that has no value.
        pod.needs
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(&taint, Comparison::Off))
    }

    fn fits(pod: &PodInfo, node: &NodeObject) -> bool {
        !node.unschedulable || Self::tolerated(pod)
    }
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> PluginName {
        "NodeUnschedulable"
    }
}

impl EnqueueExtensions for NodeUnschedulable {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(
                EventResource::Node,
                Actions::ADD | Actions::UPDATE_NODE_TAINT,
            ),
            EventKind::new(EventResource::TargetPod, Actions::UPDATE_POD_TOLERATION),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Node {
                old,
                new: Some(new),
            } => {
                let fitted = old.as_ref().is_some_and(|old| Self::fits(pod, old));
                Hint::queue_if(!fitted && Self::fits(pod, new))
            }
            EventObject::Pod { .. } => {
                Hint::queue_if(event.is_about(&pod.uid) && Self::tolerated(pod))
            }
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        if Self::fits(pod, node.node()) {
            return Ok(());
        }
        Err(Status::unresolvable("node(s) were unschedulable"))
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }

    fn filter_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        let set = (table.taint_sets(), |id| table.taint_set(id));
        by_set::filter(self, (state, pod), table, set, nodes, refusals)
    }
}

#[cfg(test)]
mod tests {
    use super::NodeUnschedulable;
    use crate::event::{Actions, Event, Hint};
    use crate::plugin::{EnqueueExtensions, Filter};
    use crate::state::CycleState;
    use crate::status::Code;
    use crate::test_objects::{node, pod};

    const KEY: &str = "node.kubernetes.io/unschedulable";

    #[test]
    fn cordoned_nodes_take_only_tolerant_pods() {
        let state = CycleState::new();
        let cordoned = node("n").unschedulable().info();
        assert!(
            NodeUnschedulable
                .filter(&state, &pod("a").info(), node("n").info().view())
                .is_ok()
        );
        for (pod, fits) in [
            (pod("a"), false),
            (pod("a").tolerate(KEY, "Exists", "", "NoSchedule"), true),
            (pod("a").tolerate("", "Exists", "", ""), true),
            (pod("a").tolerate(KEY, "Exists", "", "NoExecute"), false),
        ] {
            assert_eq!(
                NodeUnschedulable
                    .filter(&state, &pod.info(), cordoned.view())
                    .is_ok(),
                fits
            );
        }
        let status = NodeUnschedulable
            .filter(&state, &pod("a").info(), cordoned.view())
            .unwrap_err();
        assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
        assert_eq!(status.to_string(), "node(s) were unschedulable");
    }

    #[test]
    fn uncordoning_helps() {
        let (open, cordoned) = (node("n").object(), node("n").unschedulable().object());
        let change = |old, new| Event::node(Actions::UPDATE_NODE_TAINT, Some(old), Some(new));
        let pod = pod("a").info();
        for (old, new, hint) in [
            (&cordoned, &open, Hint::Queue),
            (&open, &cordoned, Hint::Skip),
            (&open, &open, Hint::Skip),
        ] {
            assert_eq!(
                NodeUnschedulable.hint(&pod, &change(old.clone(), new.clone())),
                hint
            );
        }
    }
}
