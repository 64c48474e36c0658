//! What happens to room that evictions would make, or make: offered, allowed, begun.

use pilotage_api::preempts::Preempts;

use super::Memory;
use crate::{
    plan::Monotonic,
    seat::{Room, Seat, SeatState},
    settings::Settings,
};

impl Memory {
    /// A cycle found no node, but one where evictions would make room; the pod is in the queue.
    pub fn offered(&mut self, pod_uid: &str, node: &str, preempts: Preempts, now: Monotonic) {
        if let Some(room) = self.making(pod_uid) {
            *room = Room::Failed("more evictions would be needed".to_owned());
            return;
        }
        self.no_fit = None;
        self.seat = Some(Seat {
            pod_uid: pod_uid.to_owned(),
            node: node.to_owned(),
            preempts: Some(preempts),
            state: SeatState::Taken { since: now },
        });
    }

    /// A cycle found no node yet: evictions make room. `false`: nobody has given leave to that here.
    #[must_use]
    pub fn room_awaited(&mut self, pod_uid: &str) -> bool {
        let Some(room) = self.making(pod_uid) else {
            return false;
        };
        *room = Room::Begun;
        self.room_made = self.seat.as_ref().and_then(Seat::attempt);
        true
    }

    /// Whether others were evicted here as this attempt was granted: that is done once.
    pub(crate) fn has_made_room(&self, attempt: u64) -> bool {
        self.room_made == Some(attempt)
    }

    /// How far making room for this pod has come, if it is made.
    pub(super) fn making(&mut self, pod_uid: &str) -> Option<&mut Room> {
        match &mut self.seat {
            Some(Seat {
                pod_uid: uid,
                state: SeatState::Making { room, .. },
                ..
            }) if uid == pod_uid => Some(room),
            _ => None,
        }
    }

    /// The scheduler gets leave to make the room that was offered.
    pub fn make_room(
        &mut self,
        pod_uid: &str,
        attempt: u64,
        preempts: Preempts,
        settings: &Settings,
        now: Monotonic,
    ) {
        let wait = settings.make_room.saturating_add(preempts.grace);
        let offered = self.seat.take().filter(|seat| seat.pod_uid == pod_uid);
        self.seat = Some(Seat {
            pod_uid: pod_uid.to_owned(),
            node: offered.map(|seat| seat.node).unwrap_or_default(),
            preempts: Some(preempts),
            state: SeatState::Making {
                attempt,
                until: now.saturating_add(wait),
                room: Room::Allowed,
            },
        });
    }
}
