//! Keeps pods off nodes whose kubelet doesn't declare what they need. As in kube-scheduler 1.36.3
//! (`plugins/nodedeclaredfeatures`), where it is on.

use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Filter, HintReads, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::table::{NodeView, Reads};

/// Features of kubelets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> PluginName {
        "NodeDeclaredFeatures"
    }
}

impl EnqueueExtensions for NodeDeclaredFeatures {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(
                EventResource::Node,
                Actions::ADD | Actions::UPDATE_NODE_DECLARED_FEATURE,
            ),
            EventKind::new(EventResource::TargetPod, Actions::ALL),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Node {
                old: Some(old),
                new: Some(new),
            } => Hint::queue_if(old.features != new.features),
            EventObject::Pod {
                old: Some(old),
                new: Some(new),
            } => Hint::queue_if(
                new.uid == pod.uid && old.needs.needed_features != new.needs.needed_features,
            ),
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        Ok(if pod.needs.needed_features.is_empty() {
            PreFiltered::Skip
        } else {
            PreFiltered::AllNodes
        })
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        if node.node().features.cover(pod.needs.needed_features) {
            return Ok(());
        }
        Err(Status::unresolvable(
            "node(s) didn't match Pod's required features",
        ))
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }
}

#[cfg(test)]
mod tests {
    use super::NodeDeclaredFeatures;
    use crate::event::{Actions, Event, EventResource, Hint};
    use crate::plugin::{EnqueueExtensions, Filter, PreFilter, PreFiltered};
    use crate::state::CycleState;
    use crate::status::Code;
    use crate::test_objects::{PodBuilder, node, pod, with_context};

    const FEATURE: &str = "UserNamespacesHostNetworkSupport";

    /// A pod in the host's network with users of its own.
    fn diver() -> PodBuilder {
        pod("diver").edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            (spec.host_network, spec.host_users) = (Some(true), Some(false));
        })
    }

    #[test]
    fn only_kubelets_that_declare_it_will_do() {
        let state = CycleState::new();
        let filter = |pod: PodBuilder, node| NodeDeclaredFeatures.filter(&state, &pod.info(), node);
        let (old, new) = (node("old").info(), node("new").declares(FEATURE).info());
        assert!(filter(diver(), new.view()).is_ok());
        assert!(filter(pod("p"), old.view()).is_ok());
        let status = filter(diver(), old.view()).unwrap_err();
        assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
        assert_eq!(
            status.to_string(),
            "node(s) didn't match Pod's required features"
        );
    }

    #[test]
    fn pods_that_need_no_feature_are_no_concern() {
        let asked = |pod: PodBuilder| {
            let (pod, mut state) = (pod.info(), CycleState::new());
            with_context(|cx| NodeDeclaredFeatures.pre_filter(cx, &mut state, &pod)).unwrap()
        };
        assert_eq!(asked(pod("p")), PreFiltered::Skip);
        assert_eq!(asked(diver()), PreFiltered::AllNodes);
    }

    #[test]
    fn what_helps() {
        let waiting = diver().info();
        let plain = || node("n").object();
        let changes = |new| {
            let action = Actions::UPDATE_NODE_DECLARED_FEATURE;
            Event::node(action, Some(plain()), Some(new))
        };
        let edited = |of: &str| {
            let old = Some(diver().uid(of).info());
            let new = Some(pod("diver").uid(of).info());
            Event::pod(EventResource::TargetPod, Actions::UPDATE_OTHER, old, new)
        };
        let said = Event::pod(
            EventResource::TargetPod,
            Actions::UPDATE_OTHER,
            Some(waiting.clone()),
            Some(waiting.clone()),
        );
        for (what, event, hint) in [
            (
                "a node comes",
                Event::node(Actions::ADD, None, Some(plain())),
                Hint::Queue,
            ),
            (
                "it declares more",
                changes(node("n").declares(FEATURE).object()),
                Hint::Queue,
            ),
            (
                "nothing that matters",
                changes(node("n").declares("Other").object()),
                Hint::Skip,
            ),
            ("the pod needs less", edited("uid-diver"), Hint::Queue),
            ("another one does", edited("uid-other"), Hint::Skip),
            ("it needs as much", said, Hint::Skip),
        ] {
            assert_eq!(NodeDeclaredFeatures.hint(&waiting, &event), hint, "{what}");
        }
    }
}
