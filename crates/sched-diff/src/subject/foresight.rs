//! What gates and preemption would do for a pod, as the oracle tells it: nothing is changed by asking. So our scheduler
//! can play the oracle, and what a field changes can be seen.

use pilotage_sched::TieBreaker;
use serde_json::Value;

use super::{Outcome, Subject, Unplaced};
use crate::object;
use crate::side::{Side as _, SideError};
use crate::verdict::{Candidate, Refusal, Verdict};

/// Begins with this node of those where room may be made.
struct From {
    at: usize,
    // How many there are.
    of: usize,
}

impl TieBreaker for From {
    fn pick(&mut self, candidates: usize) -> usize {
        self.of = candidates;
        self.at.min(candidates.saturating_sub(1))
    }
}

impl Subject {
    /// What would become of the pod if it were its turn, and no node will do; `None` if one will, or it isn't tried.
    pub fn probe(&mut self, pod: &Value) -> Result<Option<Unplaced>, SideError> {
        self.probe_from(pod, &mut From { at: 0, of: 0 })
    }

    fn probe_from(&mut self, pod: &Value, from: &mut From) -> Result<Option<Unplaced>, SideError> {
        let key = object::key(pod);
        let expected = self.nominated.clone();
        let outcome = self.attempt(pod, from)?;
        let told = match outcome {
            Outcome::Placed(_) | Outcome::Gated(_) => None,
            Outcome::Failed(told) => Some(told),
        };
        self.delete(pod)?;
        let is_changed = |known: &String| {
            let cleared = told.as_ref().map(|told| told.cleared.as_slice());
            *known == key || cleared.unwrap_or_default().contains(known)
        };
        for (known, (other, node)) in expected {
            if is_changed(&known) {
                self.delete(&other)?;
                self.nominate(&other, &node)?;
            }
        }
        Ok(told)
    }

    /// Why the pod isn't tried, if it has gates.
    fn gate(&mut self, pod: &Value) -> Result<Option<Refusal>, SideError> {
        let gates = object::list(pod, "/spec/schedulingGates");
        if gates.is_empty() || object::node_of(pod).is_some() {
            return Ok(None);
        }
        let expected = self.nominated.get(&object::key(pod)).cloned();
        let outcome = self.attempt(pod, &mut From { at: 0, of: 0 })?;
        self.delete(pod)?;
        if let Some((pod, node)) = expected {
            self.nominate(&pod, &node)?;
        }
        Ok(match outcome {
            Outcome::Gated(refusal) => Some(refusal),
            Outcome::Placed(_) | Outcome::Failed(_) => None,
        })
    }

    /// Adds to a verdict who keeps the pod out of the queue, and what preemption does.
    pub(super) fn foresee(&mut self, pod: &Value, verdict: &mut Verdict) -> Result<(), SideError> {
        verdict.pre_enqueue = self.gate(pod)?;
        let arguments = self.preemption.as_ref();
        verdict.limited = arguments.is_some_and(|arguments| !arguments.is_null());
        let nobody = verdict.error.is_some() || !verdict.best.is_empty();
        if nobody || object::node_of(pod).is_some() {
            return Ok(());
        }
        if arguments.is_none() {
            // Nobody looks for room, so a nomination is taken away.
            verdict.nominated = Some(String::new());
            return Ok(());
        }
        let (mut at, mut of) = (0, 1);
        while at < of {
            let mut from = From { at, of: 0 };
            let Some(told) = self.probe_from(pod, &mut from)? else {
                return Ok(());
            };
            (at, of) = (at + 1, from.of);
            let helps = !told.message.contains(" preemption: ");
            if let Some(node) = told.nominated.clone().filter(|_| helps) {
                let candidate = Candidate {
                    victims: told.victims.clone(),
                    violations: 0,
                    best: true,
                };
                verdict.candidates.insert(node, candidate);
            }
            verdict.message = Some(told.message);
            verdict.nominated = Some(told.nominated.unwrap_or_default());
            verdict.victims = told.victims;
            verdict.cleared = told.cleared;
        }
        Ok(())
    }
}
