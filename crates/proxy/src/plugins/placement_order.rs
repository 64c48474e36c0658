//! Chooses among the reserved targets as the pipeline orders them: a better class outweighs all other scores together.

use std::{collections::BTreeSet, sync::Arc};

use pilotage_sched::{
    Context, CycleState, MAX_NODE_SCORE, NodeInfo, Plugin, PluginName, PodInfo, PreScore,
    PreScored, Score, SnapshotNode, Verdict,
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
    /// More than the weights of all stock scores together (6), so that the best class wins by its first point.
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
        _: &[SnapshotNode],
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
    fn score(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Verdict<i64> {
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
        _: &[SnapshotNode],
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
        *score = (MAX_NODE_SCORE - place as i64).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
