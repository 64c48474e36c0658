//! Owns which events may help a pod that was refused. Those that help in kube-scheduler 1.36.3, and some that it passes
//! over although they may help: who was refused can't be told whether by the own terms or by those of others, labels
//! of namespaces aren't known here, and a pod may be the first of its kind once the others have gone.

use std::sync::Arc;

use super::InterPodAffinity;
use crate::counts::{Namespaces, PodSet, Selected};
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::labels::Selector;
use crate::node_object::NodeObject;
use crate::objects::Kind;
use crate::plugin::{EnqueueExtensions, HintReads, OtherPods};
use crate::pod_affinity::PodAffinityTerm;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;

impl EnqueueExtensions for InterPodAffinity {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(
                EventResource::Pod,
                Actions::ADD | Actions::UPDATE_POD_LABEL | Actions::DELETE,
            ),
            EventKind::new(
                EventResource::Node,
                Actions::ADD | Actions::UPDATE_NODE_LABEL | Actions::DELETE,
            ),
            EventKind::new(EventResource::Object(Kind::Namespace), Actions::ALL),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        let helps = match &event.object {
            EventObject::Pod { old, new } => {
                let (old, new) = (old.as_deref(), new.as_deref());
                let changes_itself = old.is_some() && new.is_some_and(|new| new.uid == pod.uid);
                let mut both = old.into_iter().chain(new);
                changes_itself
                    || both.all(|other| event.is_placed(other)) && after_pod(pod, old, new)
            }
            EventObject::Node {
                old,
                new: Some(new),
            } => after_node(pod, old.as_deref(), new),
            // The pods of a node that goes keep nobody away any more; a namespace's labels may make or end any term.
            _ => true,
        };
        Hint::queue_if(helps)
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Labels
    }

    fn other_pods(&self) -> Option<&dyn OtherPods> {
        Some(self)
    }
}

impl OtherPods for InterPodAffinity {
    /// Whom the pod wants to be near all of its terms mean, so the first one will do.
    fn sought(&self, needs: &PodNeeds) -> Option<Vec<PodSet>> {
        let affinity = &needs.pod_affinity;
        let near = affinity.required.first().into_iter();
        Some(near.chain(&affinity.required_anti).map(may_be).collect())
    }

    fn kept_away(&self, other: &PodInfo) -> Vec<PodSet> {
        let terms = other.needs.pod_affinity.required_anti.iter();
        terms.map(may_be).collect()
    }
}

/// The pods that a term may mean, as far as can be told without the labels of namespaces.
fn may_be(term: &PodAffinityTerm) -> PodSet {
    let namespaces = if term.namespace_selector == Selector::Nothing {
        let names = term.namespaces.iter().map(|name| Arc::from(&**name));
        Namespaces::These(Arc::new(names.collect()))
    } else {
        Namespaces::All
    };
    PodSet::all_of(vec![Selected {
        namespaces,
        selector: term.selector.clone(),
    }])
}

/// Whether another pod that came, changed or went may help.
fn after_pod(pod: &PodInfo, old: Option<&PodInfo>, new: Option<&PodInfo>) -> bool {
    let affinity = &pod.needs.pod_affinity;
    let near = |other: &PodInfo| {
        let terms = &affinity.required;
        !terms.is_empty() && terms.iter().all(|term| may_mean(term, other))
    };
    // With the last of those that the pod wants to be near, its own kind, goes what ties it to their place.
    let may_be_first = |old| near(old) && near(pod);
    let mut away_from = affinity.required_anti.iter();
    match (old, new) {
        (Some(old), Some(new)) => {
            (!near(old) && near(new))
                || (!near(new) && may_be_first(old))
                || away_from.any(|term| may_mean(term, old) && !may_mean(term, new))
        }
        (None, Some(new)) => near(new),
        (Some(old), None) => {
            let mut kept_away = old.needs.pod_affinity.required_anti.iter();
            away_from.any(|term| may_mean(term, old))
                || kept_away.any(|term| may_mean(term, pod))
                || may_be_first(old)
        }
        (None, None) => true,
    }
}

/// Whether a node that came, or has other labels, may help.
fn after_node(pod: &PodInfo, old: Option<&NodeObject>, new: &NodeObject) -> bool {
    let affinity = &pod.needs.pod_affinity;
    let Some(old) = old else {
        let has_place = |term: &PodAffinityTerm| new.labels().contains_key(&term.topology_key);
        return affinity.required.iter().any(has_place)
            || affinity.required.is_empty()
            || !affinity.required_anti.is_empty();
    };
    let (before, now) = (old.labels(), new.labels());
    let came = |term: &PodAffinityTerm| {
        let place = now.get(&term.topology_key);
        place.is_some() && place != before.get(&term.topology_key)
    };
    // Whoever keeps the pod away there may do so by any label.
    let left_a_place = before
        .iter()
        .any(|(key, value)| now.get(key) != Some(value));
    affinity.required.iter().any(came) || left_a_place
}

/// Whether a term may mean a pod, as far as can be told without the labels of its namespace.
fn may_mean(term: &PodAffinityTerm, pod: &PodInfo) -> bool {
    let may_be_there = term.namespaces.contains(&*pod.key.namespace)
        || term.namespace_selector != Selector::Nothing;
    may_be_there && term.selector.matches(pod.labels())
}
