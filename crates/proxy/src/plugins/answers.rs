//! Gates a proxy pod until enough targets have answered, then passes the nodes whose candidate holds a real node.

use std::sync::Arc;

use pilotage_sched::{
    Actions, Context, CycleState, EnqueueExtensions, EventKind, EventResource, Filter, NodeInfo,
    Plugin, PluginName, PodInfo, PreEnqueue, PreFilter, PreFiltered, Status, Verdict,
};

use crate::{
    board::{Answers, Board},
    plan::{Answer, Gate},
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
    fn filter(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Verdict {
        let CycleAnswers(answers) = state.require()?;
        let name: &str = node.name();
        match answers.get(name) {
            Some(Answer::Reserved | Answer::Unasked) => Ok(()),
            Some(Answer::Refused(reason)) => Err(Status::unresolvable(format!(
                "{name} refused: {}",
                short(reason)
            ))),
            Some(Answer::Waiting | Answer::Silent) => {
                Err(Status::unresolvable(format!("{name} has not answered yet")))
            }
            Some(Answer::Unreachable) => {
                Err(Status::unresolvable(format!("{name} can't be reached")))
            }
            None => Err(Status::unresolvable(format!("{name} was not asked"))),
        }
    }
}

/// One short reason: a candidate's refusal without the words that every refusal shares.
fn short(reason: &str) -> &str {
    let reason = reason.strip_prefix("Unschedulable: ").unwrap_or(reason);
    let reason = match reason.split_once(" nodes are available: ") {
        Some((count, rest)) if count.starts_with("0/") => rest,
        _ => reason,
    };
    let reason = reason
        .split_once(" preemption: ")
        .map_or(reason, |(head, _)| head);
    reason.trim_end_matches(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_refusal_is_told_in_short() {
        for (reason, want) in [
            (
                "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
                 2 No preemption victims found for incoming pod.",
                "2 Insufficient cpu",
            ),
            (
                "CandidateRefused: exceeded quota: q",
                "CandidateRefused: exceeded quota: q",
            ),
            ("Expired", "Expired"),
        ] {
            assert_eq!(short(reason), want);
        }
    }
}
