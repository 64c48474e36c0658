//! Honours `spec.nodeName` of pods that are evaluated although they name a node.

use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Filter, Plugin};
use crate::pod_info::PodInfo;
use crate::refusals::Refusals;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};

/// Rejects every node but the one that `spec.nodeName` names, if it names one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeName;

impl NodeName {
    fn fits(pod: &PodInfo, name: &str) -> bool {
        pod.node_name
            .as_ref()
            .is_none_or(|wanted| wanted.as_str() == name)
    }
}

impl Plugin for NodeName {
    fn name(&self) -> PluginName {
        "NodeName"
    }
}

impl EnqueueExtensions for NodeName {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(EventResource::Node, Actions::ADD)]
    }

    // Not by class: the name isn't among what equal pods have in common. No pod that waits has one, either.
    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Node {
                new: Some(node), ..
            } => Hint::queue_if(Self::fits(pod, &node.name)),
            _ => Hint::Queue,
        }
    }
}

impl Filter for NodeName {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        if Self::fits(pod, node.name()) {
            return Ok(());
        }
        Err(Status::unresolvable(
            "node(s) didn't match the requested node name",
        ))
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
        if pod.node_name.is_none() {
            return Ok(());
        }
        for (at, &id) in nodes.iter().enumerate() {
            if let Some(node) = table.get(id) {
                refusals.note(at, self.filter(state, pod, node))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::NodeName;
    use crate::event::{Actions, Event, Hint};
    use crate::plugin::{EnqueueExtensions, Filter};
    use crate::state::CycleState;
    use crate::status::Code;
    use crate::test_objects::{node, pod};

    #[test]
    fn only_the_named_node_will_do() {
        let state = CycleState::new();
        let (here, there) = (node("here").info(), node("there").info());
        let named = pod("a").on("here").info();
        assert!(
            NodeName
                .filter(&state, &pod("b").info(), there.view())
                .is_ok()
        );
        assert!(NodeName.filter(&state, &named, here.view()).is_ok());
        let status = NodeName.filter(&state, &named, there.view()).unwrap_err();
        assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
        assert_eq!(
            status.to_string(),
            "node(s) didn't match the requested node name"
        );

        let comes = |name| Event::node(Actions::ADD, None, Some(node(name).object()));
        assert_eq!(NodeName.hint(&named, &comes("there")), Hint::Skip);
        assert_eq!(NodeName.hint(&named, &comes("here")), Hint::Queue);
    }
}
