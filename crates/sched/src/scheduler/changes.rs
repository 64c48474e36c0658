//! Owns the difference between two versions of a pod or node, as the events that plugins register for: one
//! event a changed property. Knows nothing of caches and queues.

use std::sync::Arc;

use crate::event::{Actions, Event, EventResource};
use crate::node_object::NodeObject;
use crate::pod_info::PodInfo;
use crate::resources::Resources;

/// How a pod changed. Empty if nothing changed that scheduling could care about.
pub(super) fn of_pod(
    resource: EventResource,
    old: &Arc<PodInfo>,
    new: &Arc<PodInfo>,
) -> Vec<Event> {
    let (less, more) = scaled(&old.needs.requests.total, &new.needs.requests.total);
    let gates_gone = !old.scheduling_gates.is_empty() && new.scheduling_gates.is_empty();
    let mut actions = [
        (old.labels() != new.labels(), Actions::UPDATE_POD_LABEL),
        (less, Actions::UPDATE_POD_SCALE_DOWN),
        (more, Actions::UPDATE_POD_SCALE_UP),
        (
            old.needs.tolerations != new.needs.tolerations,
            Actions::UPDATE_POD_TOLERATION,
        ),
        (gates_gone, Actions::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (
            old.has_other_claims(new),
            Actions::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        ),
    ]
    .into_iter()
    .filter_map(|(changed, action)| changed.then_some(action))
    .collect::<Vec<_>>();
    if actions.is_empty() && old.differs_otherwise(new) {
        actions.push(Actions::UPDATE_OTHER);
    }
    let event = |action| Event::pod(resource, action, Some(old.clone()), Some(new.clone()));
    actions.into_iter().map(event).collect()
}

fn scaled(old: &Resources, new: &Resources) -> (bool, bool) {
    let mut larger = old.clone();
    larger.raise_to(new);
    (larger != *new, larger != *old)
}

/// How a node changed. Empty if nothing changed that scheduling could care about.
pub(super) fn of_node(old: &Arc<NodeObject>, new: &Arc<NodeObject>) -> Vec<Event> {
    let taints = old.taints != new.taints || old.unschedulable != new.unschedulable;
    [
        (
            old.allocatable != new.allocatable,
            Actions::UPDATE_NODE_ALLOCATABLE,
        ),
        (old.labels() != new.labels(), Actions::UPDATE_NODE_LABEL),
        (taints, Actions::UPDATE_NODE_TAINT),
        (
            old.digests.conditions != new.digests.conditions,
            Actions::UPDATE_NODE_CONDITION,
        ),
        (
            old.digests.annotations != new.digests.annotations,
            Actions::UPDATE_NODE_ANNOTATION,
        ),
        (
            old.digests.features != new.digests.features,
            Actions::UPDATE_NODE_DECLARED_FEATURE,
        ),
    ]
    .into_iter()
    .filter(|(changed, _)| *changed)
    .map(|(_, action)| Event::node(action, Some(old.clone()), Some(new.clone())))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{of_node, of_pod};
    use crate::event::{Event, EventResource};
    use crate::test_objects::{node, pod};

    fn names(events: &[Event]) -> Vec<String> {
        events.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_change_is_split_by_property() {
        let target = EventResource::TargetPod;
        let base = || pod("a").request("cpu", "1").request("memory", "1Gi");
        for (new, expected) in [
            (base(), vec![]),
            (base().nominated("n"), vec![]),
            (base().label("k", "v"), vec!["TargetPodLabelUpdate"]),
            (base().request("cpu", "500m"), vec!["TargetPodScaleDown"]),
            (
                base().request("cpu", "2").request("memory", "1Mi"),
                vec!["TargetPodScaleDown", "TargetPodScaleUp"],
            ),
            (
                base().tolerate("k", "Exists", "", ""),
                vec!["TargetPodTolerationAdd"],
            ),
            (base().node_selector("k", "v"), vec!["TargetPodUpdate"]),
            (base().annotation("k", "v"), vec!["TargetPodUpdate"]),
        ] {
            assert_eq!(
                names(&of_pod(target, &base().info(), &new.info())),
                expected
            );
        }
        let gated = base().gate("g").info();
        let freed = of_pod(target, &gated, &base().info());
        assert_eq!(names(&freed), ["TargetPodSchedulingGatesEliminated"]);
    }

    #[test]
    fn a_node_change_is_split_by_property() {
        let base = || node("n").allocatable("cpu", "4");
        for (new, expected) in [
            (base(), vec![]),
            (
                base().allocatable("cpu", "5"),
                vec!["NodeAllocatableChange"],
            ),
            (
                base().label("k", "v").taint("t", "", "NoSchedule"),
                vec!["NodeLabelChange", "NodeTaintChange"],
            ),
            (base().unschedulable(), vec!["NodeTaintChange"]),
            (
                base().condition("Ready", "False"),
                vec!["NodeConditionChange"],
            ),
            (base().annotation("k", "v"), vec!["NodeAnnotationChange"]),
        ] {
            assert_eq!(names(&of_node(&base().object(), &new.object())), expected);
        }
    }
}
