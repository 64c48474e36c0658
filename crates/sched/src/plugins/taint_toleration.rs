//! Keeps pods off tainted nodes that they don't tolerate, and ranks nodes by the soft taints that they don't. As in
//! kube-scheduler 1.36.3 (`plugins/tainttoleration`).

use super::by_set;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::node_object::NodeObject;
use crate::plugin::{EnqueueExtensions, Filter, HintReads, Plugin, Score, normalize_by_max};
use crate::pod_info::PodInfo;
use crate::refusals::Refusals;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};
use crate::taints::{Comparison, Effect, Taint, Toleration, first_untolerated};

/// Taints and tolerations.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration {
    comparison: Comparison,
}

impl TaintToleration {
    /// With or without tolerations that compare integers; the default is without.
    pub const fn new(comparison: Comparison) -> Self {
        Self { comparison }
    }

    fn fits(self, pod: &PodInfo, taints: &[Taint]) -> bool {
        first_untolerated(taints, &pod.needs.tolerations, self.comparison).is_none()
    }

    /// How many of the soft taints the pod doesn't tolerate.
    fn unwelcome(self, taints: &[Taint], tolerations: &[Toleration]) -> usize {
        let soft = (taints.iter()).filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let tolerated = |taint: &Taint| {
            let mut tolerations = tolerations.iter();
            tolerations.any(|toleration| toleration.tolerates(taint, self.comparison))
        };
        soft.filter(|taint| !tolerated(taint)).count()
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
                // Of thousands that wait it lets few in.
                let fits = |node: &NodeObject| self.fits(pod, &node.taints);
                Hint::queue_if(fits(new) && !old.as_deref().is_some_and(fits))
            }
            // Tolerations can only be added, so any change may be the one that was missing.
            EventObject::Pod { .. } => Hint::queue_if(event.is_about(&pod.uid)),
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl Filter for TaintToleration {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        if self.fits(pod, &node.node().taints) {
            return Ok(());
        }
        Err(Status::unresolvable("node(s) had untolerated taint(s)"))
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

impl Score for TaintToleration {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        Ok(self.unwelcome(&node.node().taints, &pod.needs.tolerations) as i64)
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }

    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let set = (table.taint_sets(), |id| table.taint_set(id));
        by_set::score(
            |node| self.score(state, pod, node),
            table,
            set,
            nodes,
            scores,
        )
    }

    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        _nodes: &[NodeId],
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
    use crate::table::NodeTable;
    use crate::taints::Comparison;
    use crate::test_objects::{node, pod};

    const PLUGIN: TaintToleration = TaintToleration::new(Comparison::Off);

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
            let verdict = PLUGIN.filter(&state, &pod.info(), node.info().view());
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
            .map(|n| PLUGIN.score(&state, &pod, n.view()).unwrap())
            .collect::<Vec<_>>();
        assert_eq!(scores, [0, 2, 1]);
        PLUGIN
            .normalize(&state, &pod, &NodeTable::default(), &[], &mut scores)
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
            PLUGIN.hint(&pod, &change(tainted.clone(), clean.clone())),
            Hint::Queue
        );
        assert_eq!(PLUGIN.hint(&pod, &change(clean, tainted)), Hint::Skip);
        let tolerant = |of| {
            let action = Actions::UPDATE_POD_TOLERATION;
            Event::pod(EventResource::TargetPod, action, None, Some(of))
        };
        assert_eq!(PLUGIN.hint(&pod, &tolerant(pod.clone())), Hint::Queue);
        let other = crate::test_objects::pod("b").info();
        assert_eq!(PLUGIN.hint(&pod, &tolerant(other)), Hint::Skip);
    }

    #[test]
    fn integers_are_compared_only_if_the_gate_is_on() {
        let state = CycleState::new();
        let on = TaintToleration::new(Comparison::On);
        let pod = pod("p").tolerate("tide", "Gt", "2", "").info();
        let hard = node("n").taint("tide", "3", "NoSchedule");
        let soft = node("n").taint("tide", "3", "PreferNoSchedule").info();
        let (object, hard) = (
            hard.object(),
            node("n").taint("tide", "3", "NoSchedule").info(),
        );
        for (plugin, fits, unwelcome) in [(PLUGIN, false, 1), (on, true, 0)] {
            assert_eq!(plugin.filter(&state, &pod, hard.view()).is_ok(), fits);
            assert_eq!(plugin.score(&state, &pod, soft.view()).unwrap(), unwelcome);
            let comes = Event::node(Actions::ADD, None, Some(object.clone()));
            assert_eq!(plugin.hint(&pod, &comes), Hint::queue_if(fits));
        }
    }
}
