//! Pods that are questions only: every target is asked whether it could take the pod, and none gets it.
//!
//! No choice is ever made of such a pod, whatever a scheduling cycle wants; its cycle tells the answers when all are
//! in. What targets hold for it ends with its chaperons, or after their own time.

use crate::{
    plan::{Action, Answer, Gate, Note},
    wave::{Asking, Wave, waited_for},
};

impl Asking<'_> {
    /// Whom to ask, and when the answers can be told.
    pub(crate) fn question(&self) -> Wave {
        let mut answers = self.answers();
        let waiting = waited_for(&answers);
        let (mut next, retry_at) = self.unasked(&answers);
        if self.proxy.no_reservation {
            // Whoever is asked for such a pod runs it.
            next.clear();
        }
        let has_room = |node: &str| self.windows.has_room(node, &self.proxy.ticket);
        let (open, full): (Vec<_>, Vec<_>) =
            next.into_iter().partition(|ranked| has_room(&ranked.node));
        let asks: Vec<_> = open
            .iter()
            .map(|ranked| Action::Ask {
                node: ranked.node.clone(),
            })
            .collect();
        let queue: Vec<String> = full.iter().map(|ranked| ranked.node.clone()).collect();

        // One that couldn't be asked before is no reason to wait.
        let first_time = |node: &str| self.memory.ask_refusal(node).is_none();
        let asked_anew = asks.iter().filter_map(Action::node).any(first_time);
        let turn = self.turn_over();
        let waits_for_turn = !queue.is_empty() && self.now < turn;
        let patience_over = self.patience_over(&waiting);
        let gate = if !waiting.is_empty() || asked_anew {
            Gate::Closed(Note::Asked(waiting))
        } else if waits_for_turn {
            Gate::Closed(Note::Queued)
        } else {
            Gate::Open
        };
        let wake_at = [patience_over, retry_at, waits_for_turn.then_some(turn)];

        for answer in answers.values_mut() {
            *answer = match answer {
                Answer::Reserved => Answer::Could(None),
                Answer::Outbid(preempts) | Answer::Evicts(preempts) => {
                    Answer::Could(Some(*preempts))
                }
                _ => continue,
            };
        }
        for node in &queue {
            answers.entry(node.clone()).or_insert(Answer::Busy);
        }
        Wave {
            asks,
            gate,
            answers,
            queue,
            wake_at: wake_at.into_iter().flatten().min(),
        }
    }
}
