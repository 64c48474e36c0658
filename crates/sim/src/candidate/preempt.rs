//! A candidate's cycle that finds no node, but somebody who could be evicted from one: by the real board it may, or
//! only offers to.

use pilotage_api::preempts::Preempts;
use pilotage_candidate::{Leave, Refusal, seat::Seat};

use super::{Candidate, Cx, FLUSH, NODE, Place};
use crate::occupants::Occupants;

/// All that are on the node are evicted.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// For the pod of the chaperon with this UID.
    pub(crate) chaperon: String,
    /// As this attempt of it was granted.
    pub(crate) attempt: Option<u64>,
    /// What that costs.
    pub(crate) cost: Preempts,
}

impl Candidate {
    /// The cycle found no node, but one from which those that are `there` could be evicted, at this cost, or are.
    pub(super) fn preempt(
        &mut self,
        key: &str,
        uid: &str,
        there: &Occupants,
        cost: Preempts,
        cx: &mut Cx<'_>,
    ) -> String {
        let now = cx.now;
        let owner = self.pods.get(key).and_then(|pod| pod.owner());
        let owner = owner.unwrap_or_default().to_owned();
        // Who waits for somebody to go takes no more leave.
        let waits = there.is_anybody_ending() && self.cell(key).expected;
        let leave = if waits {
            Some(Leave::Used)
        } else {
            self.board.take_leave(uid, &cost)
        };
        let waits = waits || !there.is_anybody_staying();
        let cell = self.cell(key);
        cell.place = Place::Queue(Some(now + FLUSH));
        match leave {
            Some(Leave::Offer) => {
                cell.expected = true;
                cell.memory.offered(uid, NODE, cost, now);
                format!("{key}: offers to evict for {uid}, at {cost}")
            }
            Some(Leave::UpTo(_)) => {
                let seat = cell.memory.seat();
                let attempt = seat.and_then(Seat::attempt);
                cell.expected = true;
                let awaits = cell.memory.room_awaited(uid);
                if there.is_anybody_staying() {
                    cx.evicts.push(Eviction {
                        chaperon: owner,
                        attempt,
                        cost,
                    });
                }
                format!("{key}: evicts for {uid}, at {cost} ({awaits})")
            }
            Some(Leave::Used) if waits && cell.memory.room_awaited(uid) => {
                cell.expected = true;
                format!("{key}: {uid} waits for room")
            }
            None | Some(Leave::Used) => {
                cell.expected = false;
                let full = Refusal::Unschedulable("full".to_owned());
                cell.memory.found_none(uid, full);
                format!("{key}: no leave to evict for {uid}, at {cost}")
            }
        }
    }
}
