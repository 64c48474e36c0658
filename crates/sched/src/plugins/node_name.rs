//! Honours `spec.nodeName` of pods that are evaluated although they name a node.

use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::node_info::NodeInfo;
use crate::plugin::{EnqueueExtensions, Filter, Plugin};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};

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
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict {
        if Self::fits(pod, node.name()) {
            return Ok(());
        }
        Err(Status::unresolvable(
            "node(s) didn't match the requested node name",
        ))
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
        assert!(NodeName.filter(&state, &pod("b").info(), &there).is_ok());
        assert!(NodeName.filter(&state, &named, &here).is_ok());
        let status = NodeName.filter(&state, &named, &there).unwrap_err();
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
