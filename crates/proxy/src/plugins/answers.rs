//! Gates a proxy pod until enough targets have answered, then passes the nodes whose candidate holds a real node.

use std::sync::Arc;

use pilotage_sched::{
    Actions, Context, CycleState, EnqueueExtensions, EventKind, EventResource, Filter, NodeView,
    Plugin, PluginName, PodInfo, PreEnqueue, PreFilter, PreFiltered, Status, Verdict,
};

use crate::{
    board::{Answers, Board},
    plan::Gate,
};

/// Name of the event that says: this pod's posting changed.
pub const ANSWERS_EVENT: &str = "CandidateAnswers";

/// Reads the board for the pod at hand.
#[derive(Debug)]
pub struct CandidateAnswers {
    board: Arc<Board>,
}

/// One cycle's copy of the answers, so that all nodes are judged on the same state.
struct CycleAnswers(Answers);

impl CandidateAnswers {
    /// Reads from this board.
    pub fn new(board: Arc<Board>) -> Self {
        Self { board }
    }
}

impl Plugin for CandidateAnswers {
    fn name(&self) -> PluginName {
        "CandidateAnswers"
    }
}

impl EnqueueExtensions for CandidateAnswers {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(
            EventResource::Custom(ANSWERS_EVENT),
            Actions::ALL,
        )]
    }
}

impl PreEnqueue for CandidateAnswers {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        match self.board.get(&pod.uid).gate {
            Gate::Open => Ok(()),
            Gate::Closed(note) => Err(Status::unschedulable(note.to_string())),
        }
    }
}

impl PreFilter for CandidateAnswers {
    fn pre_filter(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        state.insert(CycleAnswers(self.board.get(&pod.uid).answers));
        Ok(PreFiltered::AllNodes)
    }
}

impl Filter for CandidateAnswers {
    fn filter(&self, state: &CycleState, _: &PodInfo, node: NodeView<'_>) -> Verdict {
        let CycleAnswers(answers) = state.require()?;
        let name: &str = node.name();
        let objection = match answers.get(name) {
            Some(answer) => answer.objection(),
            None => Some("was not asked".to_owned()),
        };
        match objection {
            None => Ok(()),
            Some(objection) => Err(Status::unresolvable(format!("{name} {objection}"))),
        }
    }
}
