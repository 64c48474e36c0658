//! Owns which events may help a pod that the plugin keeps waiting. As in kube-scheduler 1.36.3
//! (`podtopologyspread/plugin.go`), but for a node whose other labels change so that the pod's node affinity begins or
//! ends to match it: it counts from now on, or counts no more, and upstream's hint passes over that.

use super::PodTopologySpread;
use crate::counts::PodSet;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::node_object::NodeObject;
use crate::plugin::{EnqueueExtensions, HintReads, OtherPods};
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::topology_spread::{SpreadConstraint, WhenUnsatisfiable};

impl EnqueueExtensions for PodTopologySpread {
    fn events(&self) -> Vec<EventKind> {
        vec![
            EventKind::new(
                EventResource::Pod,
                Actions::ADD
                    | Actions::UPDATE_POD_LABEL
                    | Actions::UPDATE_POD_TOLERATION
                    | Actions::DELETE,
            ),
            EventKind::new(
                EventResource::Node,
                Actions::ADD
                    | Actions::DELETE
                    | Actions::UPDATE_NODE_LABEL
                    | Actions::UPDATE_NODE_TAINT,
            ),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        let hard = match &pod.needs.spread {
            Some(own) => Some(&**own.of(WhenUnsatisfiable::DoNotSchedule)),
            // What they select isn't known here.
            None if self.has_defaults(WhenUnsatisfiable::DoNotSchedule) => None,
            None => Some(&[][..]),
        };
        let helps = match &event.object {
            EventObject::Pod { old, new } => {
                let (old, new) = (old.as_deref(), new.as_deref());
                let mut both = old.into_iter().chain(new);
                both.all(|other| is_involved(event, other, pod))
                    && hard.is_none_or(|hard| pod_helps(hard, pod, old, new))
            }
            EventObject::Node { old, new } => {
                hard.is_none_or(|hard| node_helps(hard, pod, old.as_deref(), new.as_deref()))
            }
            EventObject::None | EventObject::Other { .. } => true,
        };
        Hint::queue_if(helps)
    }

    /// A pod's own constraints know its namespace; default ones are those of any pod without others.
    fn hint_reads(&self) -> HintReads {
        if self.has_defaults(WhenUnsatisfiable::DoNotSchedule) {
            HintReads::Pod
        } else {
            HintReads::Needs
        }
    }

    /// The labels by which the pod is spread: whoever is spread alike hears the same of a node.
    fn reads_for_nodes(&self, needs: &PodNeeds) -> Option<String> {
        let Some(own) = &needs.spread else {
            let nothing = !self.has_defaults(WhenUnsatisfiable::DoNotSchedule);
            return nothing.then(String::new);
        };
        let hard = own.of(WhenUnsatisfiable::DoNotSchedule);
        let mut rules = hard.iter().map(|it| &it.rule);
        let any_node = needs.node_affinity.is_empty() || !rules.any(|it| it.honors_affinity);
        // No label's name has a line break.
        let keys = hard.iter().map(|it| it.rule.topology_key.as_str());
        any_node.then(|| keys.collect::<Vec<_>>().join("\n"))
    }

    fn other_pods(&self) -> Option<&dyn OtherPods> {
        Some(self)
    }
}

impl OtherPods for PodTopologySpread {
    fn sought(&self, needs: &PodNeeds) -> Option<Vec<PodSet>> {
        let hard = match &needs.spread {
            Some(own) => &**own.of(WhenUnsatisfiable::DoNotSchedule),
            // What they select isn't known here.
            None if self.has_defaults(WhenUnsatisfiable::DoNotSchedule) => return None,
            None => &[],
        };
        let counted = hard.iter().filter_map(SpreadConstraint::counted);
        Some(counted.cloned().collect())
    }
}

/// Whether another pod's change can matter to a pod at all: it has a node or expects one, and is in the same namespace.
fn is_involved(event: &Event, other: &PodInfo, pod: &PodInfo) -> bool {
    other.uid == pod.uid || event.is_placed(other) && other.key.namespace == pod.key.namespace
}

fn pod_helps(
    hard: &[SpreadConstraint],
    pod: &PodInfo,
    old: Option<&PodInfo>,
    new: Option<&PodInfo>,
) -> bool {
    let mut hard = hard.iter();
    let counts =
        |constraint: &SpreadConstraint, of: &PodInfo| constraint.selector.matches(of.labels());
    match (old, new) {
        (Some(old), Some(new)) => {
            let tolerates_more =
                pod.uid == new.uid && old.needs.tolerations != new.needs.tolerations;
            if tolerates_more && hard.clone().any(|it| it.rule.honors_taints) {
                return true;
            }
            hard.any(|it| counts(it, old) != counts(it, new))
        }
        (Some(one), None) | (None, Some(one)) => hard.any(|it| counts(it, one)),
        (None, None) => true,
    }
}

fn node_helps(
    hard: &[SpreadConstraint],
    pod: &PodInfo,
    old: Option<&NodeObject>,
    new: Option<&NodeObject>,
) -> bool {
    let mut keys = hard.iter().map(|it| &it.rule.topology_key);
    let has_all = |node: &NodeObject| {
        let mut keys = keys.clone();
        keys.all(|key| node.labels().contains_key(key))
    };
    let honors_affinity = hard.iter().any(|it| it.rule.honors_affinity);
    let allows = |node: &NodeObject| pod.needs.node_affinity.matches(&node.name, node.labels());
    match (old, new) {
        (Some(old), Some(new)) => {
            let has = has_all(new);
            has_all(old) != has
                || has
                    && (keys.any(|key| old.labels().get(key) != new.labels().get(key))
                        || old.taints != new.taints
                        || honors_affinity && allows(old) != allows(new))
        }
        (Some(one), None) | (None, Some(one)) => has_all(one),
        (None, None) => true,
    }
}
