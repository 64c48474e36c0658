//! Owns which events may help a pod that was refused. The answers are those of kube-scheduler 1.36.3, which knows no
//! labels of namespaces here.

use super::InterPodAffinity;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::labels::Labels;
use crate::node_object::NodeObject;
use crate::plugin::{EnqueueExtensions, HintReads};
use crate::pod_affinity::PodAffinityTerm;
use crate::pod_info::PodInfo;

impl EnqueueExtensions for InterPodAffinity {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(
                EventResource::Pod,
                Actions::ADD | Actions::UPDATE_POD_LABEL | Actions::DELETE,
            ),
            EventKind::new(
                EventResource::Node,
                Actions::ADD | Actions::UPDATE_NODE_LABEL,
            ),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        let helps = match &event.object {
            EventObject::Pod { old, new } => after_pod(pod, old.as_deref(), new.as_deref()),
            EventObject::Node {
                old,
                new: Some(new),
            } => after_node(pod, old.as_deref(), new),
            _ => true,
        };
        Hint::queue_if(helps)
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Labels
    }
}

/// Whether another pod that came, changed or went, or the pod itself with other labels, may help.
fn after_pod(pod: &PodInfo, old: Option<&PodInfo>, new: Option<&PodInfo>) -> bool {
    let is_unplaced = |other: &PodInfo| other.node_name.is_none() && other.nominated_node.is_none();
    if let (Some(_), Some(new)) = (old, new)
        && new.uid == pod.uid
    {
        return true;
    }
    if old.is_some_and(is_unplaced) || new.is_some_and(is_unplaced) {
        return false;
    }
    let affinity = &pod.needs.pod_affinity;
    let near = |other| all_mean(&affinity.required, other);
    let away_from = |other| all_mean(&affinity.required_anti, other);
    match (old, new) {
        (Some(old), Some(new)) => (!near(old) && near(new)) || (away_from(old) && !away_from(new)),
        (None, Some(new)) => near(new),
        (Some(old), None) => away_from(old) || all_mean(&old.needs.pod_affinity.required_anti, pod),
        (None, None) => true,
    }
}

/// Whether a node that came, or has other labels, may help.
fn after_node(pod: &PodInfo, old: Option<&NodeObject>, new: &NodeObject) -> bool {
    let affinity = &pod.needs.pod_affinity;
    let Some(old) = old else {
        // Without its label, too, a node may keep the pod away from others.
        let has_place = |term: &PodAffinityTerm| new.labels().contains_key(&term.topology_key);
        return affinity.required.iter().any(has_place) || !affinity.required_anti.is_empty();
    };
    let values = |term: &PodAffinityTerm| {
        let (before, now) = (old.labels(), new.labels());
        (before.get(&term.topology_key), now.get(&term.topology_key))
    };
    let came = |term| matches!(values(term), (before, Some(now)) if before != Some(now));
    let went = |term| matches!(values(term), (Some(before), now) if now != Some(before));
    affinity.required.iter().any(came) || affinity.required_anti.iter().any(went)
}

/// Whether there are terms, and all mean this pod.
fn all_mean(terms: &[PodAffinityTerm], pod: &PodInfo) -> bool {
    static UNKNOWN: Labels = Labels::new();
    let mean = |term: &PodAffinityTerm| term.matches(&pod.key.namespace, &UNKNOWN, pod.labels());
    !terms.is_empty() && terms.iter().all(mean)
}
