//! Chooses among the reserved targets as the pipeline orders them: a better class outweighs all other scores together.

use std::{collections::BTreeSet, sync::Arc};

use pilotage_sched::{
    Context, CycleState, MAX_NODE_SCORE, NodeId, NodeTable, NodeView, Plugin, PluginName, PodInfo,
    PreScore, PreScored, Score, Verdict,
};

use crate::board::{Board, Classes};

/// Reads the board for the pod at hand; scores nothing if no pipeline ordered its targets.
#[derive(Debug)]
pub struct PlacementOrder {
    board: Arc<Board>,
}

/// One cycle's copy of the classes.
struct CycleClasses(Classes);

impl PlacementOrder {
    /// More than the weights of all stock scores together (10), so that the best class wins by its first point.
    pub const WEIGHT: u32 = 1000;

    /// Reads from this board.
    pub fn new(board: Arc<Board>) -> Self {
        Self { board }
    }
}

impl Plugin for PlacementOrder {
    fn name(&self) -> PluginName {
        "PlacementOrder"
    }
}

impl PreScore for PlacementOrder {
    fn pre_score(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _: &[NodeId],
    ) -> Verdict<PreScored> {
        let classes = self.board.get(&pod.uid).classes;
        if classes.is_empty() {
            return Ok(PreScored::Skip);
        }
        state.insert(CycleClasses(classes));
        Ok(PreScored::Proceed)
    }
}

impl Score for PlacementOrder {
    /// The class; the best is 0.
    fn score(&self, state: &CycleState, _: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let CycleClasses(classes) = state.require()?;
        let name: &str = node.name();
        Ok(classes
            .get(name)
            .map_or(i64::MAX, |class| i64::from(*class)))
    }

    /// 100 for the best class among these nodes, 99 for the next, and so on; the 101st and all after it have nothing.
    fn normalize(
        &self,
        _: &CycleState,
        _: &PodInfo,
        _: &NodeTable,
        _: &[NodeId],
        scores: &mut [i64],
    ) -> Verdict {
        by_place(scores);
        Ok(())
    }
}

fn by_place(scores: &mut [i64]) {
    let classes: BTreeSet<i64> = scores.iter().copied().collect();
    let classes: Vec<i64> = classes.into_iter().collect();
    for score in scores {
        let place = classes.partition_point(|class| class < score);
        *score = MAX_NODE_SCORE.saturating_sub(place as i64).max(0);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use pilotage_sched::{Attempt, FirstOfEquals, Moment, Scheduler, SchedulerConfig};
    use serde_json::json;

    use super::*;
    use crate::{
        board::Posting,
        plan::{Answer, Gate},
        plugins::{GrantFailure, Grants},
        profile::profiles,
    };

    struct Nobody;

    impl Grants for Nobody {
        fn grant<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
            Box::pin(async { Err(GrantFailure::Ending) })
        }
    }

    /// Where a pod goes that prefers `a` with all its weight, if both reserved a node.
    fn winner(classes: &[(&str, u32)]) -> String {
        let board = Arc::<Board>::default();
        let profiles = profiles(&board, Arc::new(Nobody)).unwrap();
        let mut scheduler = Scheduler::new(profiles, SchedulerConfig::default()).unwrap();
        let named = |names: &[(&str, u32)]| -> Classes {
            let own = |(name, class): &(&str, u32)| ((*name).to_owned(), *class);
            Arc::new(names.iter().map(own).collect())
        };
        board.post(
            "u",
            Posting {
                gate: Gate::Open,
                answers: Arc::new(
                    ["a", "b"]
                        .map(|name| (name.to_owned(), Answer::Reserved))
                        .into(),
                ),
                classes: named(classes),
            },
        );
        for name in ["a", "b"] {
            let node = json!({
                "metadata": {
                    "name": name,
                    "labels": {
                        "virtual-kubelet.io/provider": "admiralty",
                        "multicluster.admiralty.io/cluster-target-name": name,
                    },
                },
                "status": { "allocatable": { "cpu": "4", "pods": "9" } },
            });
            let node: Node = serde_json::from_value(node).unwrap();
            scheduler.node_applied(&node, Moment::ZERO).unwrap();
        }
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }] });
        let preferred = json!([{ "weight": 100, "preference": term }]);
        let pod = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
            "spec": {
                "schedulerName": "admiralty-proxy",
                "containers": [],
                "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } },
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        scheduler.pod_applied(Arc::new(pod), Moment::ZERO).unwrap();
        match scheduler.schedule_next(Moment::ZERO, &mut FirstOfEquals) {
            Some(Attempt::Assumed(assumed)) => assumed.node().to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_best_class_wins_and_equal_ones_are_chosen_between_as_ever() {
        assert_eq!(winner(&[]), "a");
        assert_eq!(winner(&[("a", 4), ("b", 4)]), "a");
        assert_eq!(winner(&[("a", 5), ("b", 4)]), "b");
        assert_eq!(winner(&[("b", 4)]), "b", "one without a class is last");
    }

    #[test]
    fn a_better_class_has_a_point_more() {
        let mut scores = [7, 0, i64::MAX, 7, 3];
        by_place(&mut scores);
        assert_eq!(scores, [98, 100, 97, 98, 99]);
        let mut many: Vec<i64> = (0..150).collect();
        by_place(&mut many);
        assert_eq!((many[0], many[1], many[99], many[149]), (100, 99, 1, 0));
    }
}
