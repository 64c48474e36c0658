//! Whom a pod leans on that has to be with others on its node: those that may still leave it.

use pilotage_candidate::seat::{Seat, SeatState};

use super::Candidate;

impl Candidate {
    /// Whether the node is held for a pod of another name that nobody has granted it to.
    pub(super) fn holds_for_others(&self, key: &str) -> bool {
        let mut others = self.cells.iter().filter(|(name, _)| *name != key);
        others.any(|(_, cell)| {
            let held = |seat: &Seat| {
                let held = matches!(seat.state, SeatState::Taken { .. } | SeatState::Held { .. });
                held && seat.preempts.is_none()
            };
            cell.memory.seat().is_some_and(held)
        })
    }
}
