//! Keeps pods off tainted nodes that they don't tolerate, and ranks nodes by the soft taints that they don't.

use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::node_info::NodeInfo;
use crate::plugin::{EnqueueExtensions, Filter, Plugin, Score, normalize_by_max};
use crate::pod_info::PodInfo;
use crate::snapshot::SnapshotNode;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::taints::{Effect, Taint, first_untolerated};

/// Taints and tolerations.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration;

impl TaintToleration {
    fn fits(pod: &PodInfo, taints: &[Taint]) -> bool {
        first_untolerated(taints, &pod.tolerations).is_none()
    }
}

impl Plugin for TaintToleration {
    fn name(&self) -> PluginName {
        "TaintToleration"
    }
}

impl EnqueueExtensions for TaintToleration {
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
                let fitted = old.as_ref().is_some_and(|old| Self::fits(pod, &old.taints));
                Hint::queue_if(!fitted && Self::fits(pod, &new.taints))
            }
            // Tolerations can only be added, so any change may be the one that was missing.
            EventObject::Pod { .. } => Hint::queue_if(event.is_about(&pod.uid)),
            _ => Hint::Queue,
        }
    }
}

impl Filter for TaintToleration {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict {
        if Self::fits(pod, &node.node().taints) {
            return Ok(());
        }
        Err(Status::unresolvable("node(s) had untolerated taint(s)"))
    }
}

impl Score for TaintToleration {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict<i64> {
        let soft = node
            .node()
            .taints
            .iter()
            .filter(|t| t.effect == Effect::PreferNoSchedule);
        let unwelcome = soft.filter(|taint| !pod.tolerations.iter().any(|t| t.tolerates(taint)));
        Ok(unwelcome.count() as i64)
    }

    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _nodes: &[SnapshotNode],
        scores: &mut [i64],
    ) -> Verdict {
        normalize_by_max(true, scores);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::TaintToleration;
    use crate::event::{Actions, Event, EventResource, Hint};
    use crate::plugin::{EnqueueExtensions, Filter, Score};
    use crate::state::CycleState;
    use crate::status::Code;
    use crate::test_objects::{node, pod};

    #[test]
    fn hard_taints_keep_pods_away() {
        let state = CycleState::new();
        let docked = || node("n").taint("dock", "dry", "NoSchedule");
        for (pod, node, fits) in [
            (pod("a"), node("n"), true),
            (pod("a"), docked(), false),
            (
                pod("a"),
                node("n").taint("dock", "dry", "PreferNoSchedule"),
                true,
            ),
            (pod("a"), node("n").taint("dock", "dry", "NoExecute"), false),
            (
                pod("a").tolerate("dock", "Equal", "dry", "NoSchedule"),
                docked(),
                true,
            ),
            (
                pod("a").tolerate("dock", "Equal", "wet", "NoSchedule"),
                docked(),
                false,
            ),
            (
                pod("a").tolerate("dock", "Exists", "", ""),
                docked().taint("crew", "", "NoSchedule"),
                false,
            ),
        ] {
            let verdict = TaintToleration.filter(&state, &pod.info(), &node.info());
            assert_eq!(verdict.is_ok(), fits);
            if let Err(status) = verdict {
                assert_eq!(status.code(), Code::UnschedulableAndUnresolvable);
                assert_eq!(status.to_string(), "node(s) had untolerated taint(s)");
            }
        }
    }

    #[test]
    fn soft_taints_are_counted_and_the_fewest_win() {
        let state = CycleState::new();
        let soft =
            |node: crate::test_objects::NodeBuilder, key| node.taint(key, "", "PreferNoSchedule");
        let nodes = [
            node("none").info(),
            soft(soft(node("two"), "a"), "b").info(),
            soft(soft(node("one"), "a"), "c").info(),
        ];
        // A toleration of another effect doesn't count.
        let pod = pod("p")
            .tolerate("c", "Exists", "", "")
            .tolerate("b", "Exists", "", "NoSchedule")
            .info();
        let mut scores = nodes
            .iter()
            .map(|n| TaintToleration.score(&state, &pod, n).unwrap())
            .collect::<Vec<_>>();
        assert_eq!(scores, [0, 2, 1]);
        TaintToleration
            .normalize(&state, &pod, &[], &mut scores)
            .unwrap();
        assert_eq!(scores, [100, 0, 50]);
    }

    #[test]
    fn what_helps() {
        let (clean, tainted) = (
            node("n").object(),
            node("n").taint("t", "", "NoSchedule").object(),
        );
        let pod = pod("a").info();
        let change = |old, new| Event::node(Actions::UPDATE_NODE_TAINT, Some(old), Some(new));
        assert_eq!(
            TaintToleration.hint(&pod, &change(tainted.clone(), clean.clone())),
            Hint::Queue
        );
        assert_eq!(
            TaintToleration.hint(&pod, &change(clean, tainted)),
            Hint::Skip
        );
        let tolerant = |of| {
            let action = Actions::UPDATE_POD_TOLERATION;
            Event::pod(EventResource::TargetPod, action, None, Some(of))
        };
        assert_eq!(
            TaintToleration.hint(&pod, &tolerant(pod.clone())),
            Hint::Queue
        );
        let other = crate::test_objects::pod("b").info();
        assert_eq!(TaintToleration.hint(&pod, &tolerant(other)), Hint::Skip);
    }
}
