//! A candidate's cycle that finds no node, but somebody who could be evicted from one: by the real board it may, or only offers to.

use pilotage_api::preempts::Preempts;
use pilotage_candidate::{Leave, Refusal, plan::Monotonic, seat::Seat};

use super::{Candidate, Cx, FLUSH, NODE, Place};
use crate::world::Occupant;

/// What it costs to evict who is on the node.
const COST: Preempts = Preempts {
    budgets: 0,
    highest: 0,
    sum: 0,
    pods: 1,
    oldest: None,
    grace: Monotonic::from_secs(5),
};
/// Somebody is evicted.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// For the pod of the chaperon with this UID.
    pub(crate) chaperon: String,
    /// As this attempt of it was granted.
    pub(crate) attempt: Option<u64>,
}

impl Candidate {
    /// The cycle found no node, but one where somebody could be evicted, or is.
    pub(super) fn preempt(&mut self, key: &str, uid: &str, cx: &mut Cx<'_>) -> String {
        let now = cx.now;
        let goes = cx.occupant == Occupant::Ends;
        let owner = self.pods.get(key).and_then(|pod| pod.owner());
        let owner = owner.unwrap_or_default().to_owned();
        // Who waits for somebody to go takes no more leave.
        let waits = goes && self.cell(key).expected;
        let leave = if waits {
            None
        } else {
            Some(self.board.take_leave(uid, &COST))
        };
        let cell = self.cell(key);
        cell.place = Place::Queue(Some(now + FLUSH));
        match leave {
            Some(Leave::Offer) => {
                cell.expected = true;
                cell.memory.offered(uid, NODE, COST, now);
                format!("{key}: offers to evict for {uid}")
            }
            Some(Leave::UpTo(_)) => {
                let seat = cell.memory.seat();
                let attempt = seat.and_then(Seat::attempt);
                cell.expected = true;
                let awaits = cell.memory.room_awaited(uid);
                if !goes {
                    cx.evicts.push(Eviction {
                        chaperon: owner,
                        attempt,
                    });
                }
                format!("{key}: evicts for {uid} ({awaits})")
            }
            None if cell.memory.room_awaited(uid) => format!("{key}: {uid} waits for room"),
            None | Some(Leave::Refuse) => {
                cell.expected = false;
                let full = Refusal::Unschedulable("full".to_owned());
                cell.memory.found_none(uid, full);
                format!("{key}: no leave to evict for {uid}")
            }
        }
    }
}
