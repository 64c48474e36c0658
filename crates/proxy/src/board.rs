//! What the state machines tell the scheduler's plugins: for each proxy pod its gate and its targets' answers.
//!
//! Written by the edge after each decision, read by [`crate::plugins`]. It holds no policy.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use crate::plan::{Answer, Gate, Note};

/// Answers of all targets for one pod, by virtual node.
pub type Answers = Arc<BTreeMap<String, Answer>>;

/// How far back targets stand in the pipeline's eyes, by virtual node: those that may be chosen. Empty without an
/// order.
pub type Classes = Arc<BTreeMap<String, u32>>;

/// What one pod's decision said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Whether a cycle may run.
    pub gate: Gate,
    /// What the targets say.
    pub answers: Answers,
    /// Which of those that may be chosen are the best.
    pub classes: Classes,
}

/// All postings, by the pods' UIDs.
#[derive(Debug, Default)]
pub struct Board {
    postings: RwLock<HashMap<String, Posting>>,
}

impl Board {
    /// Posts a pod's newest decision; says whether a scheduling cycle should look at the pod (again): its gate is open
    /// and it was closed, or the answers changed.
    pub fn post(&self, uid: &str, posting: Posting) -> bool {
        let mut postings = self
            .postings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let worth_a_cycle =
            posting.gate == Gate::Open && postings.get(uid).is_none_or(|old| *old != posting);
        postings.insert(uid.to_owned(), posting);
        worth_a_cycle
    }

    /// Forgets a pod.
    pub fn remove(&self, uid: &str) {
        self.postings
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(uid);
    }

    /// The newest posting of a pod.
    pub fn get(&self, uid: &str) -> Posting {
        let postings = self.postings.read().unwrap_or_else(PoisonError::into_inner);
        postings.get(uid).cloned().unwrap_or_else(|| Posting {
            gate: Gate::Closed(Note::Unseen),
            answers: Answers::default(),
            classes: Classes::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posting(gate: Gate, answer: Answer) -> Posting {
        Posting {
            gate,
            answers: Arc::new(BTreeMap::from([("n".to_owned(), answer)])),
            classes: Classes::default(),
        }
    }

    #[test]
    fn a_cycle_is_worth_it_when_the_gate_opens_or_the_answers_change() {
        let board = Board::default();
        let closed = Gate::Closed(Note::Asked(vec!["n".into()]));
        assert!(!board.post("u", posting(closed.clone(), Answer::Waiting)));
        assert!(board.post("u", posting(Gate::Open, Answer::Reserved)));
        assert!(!board.post("u", posting(Gate::Open, Answer::Reserved)));
        assert!(board.post("u", posting(Gate::Open, Answer::Refused("full".into()))));
        assert!(!board.post("u", posting(closed, Answer::Waiting)));
        assert!(board.post("u", posting(Gate::Open, Answer::Refused("full".into()))));
    }

    #[test]
    fn an_unknown_pod_is_gated() {
        assert_eq!(Board::default().get("u").gate, Gate::Closed(Note::Unseen));
    }
}
