//! A node that the scheduler has taken for a pod, from *taken* over *held* to *bound*, and how requests about it ended.
//!
//! Plain data; when a seat changes is [`crate::memory`]'s affair, why is [`mod@crate::decide`]'s.

use pilotage_api::preempts::Preempts;
use pilotage_sched::Rechecked;

use crate::{plan::Monotonic, refusal::Refusal};

/// A node that the scheduler has taken for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// UID of the pod.
    pub pod_uid: String,
    /// The node; of room that is made, where the scheduler says it will be.
    pub node: String,
    /// Whom it evicts once it is granted; `None`: the node has room.
    pub preempts: Option<Preempts>,
    /// How far the answer has come.
    pub state: SeatState,
}

/// How far the answer about a taken node has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatState {
    /// Not said yet.
    Taken {
        /// When the scheduler took it.
        since: Monotonic,
    },
    /// The hold: said under this attempt.
    Held {
        /// The attempt.
        attempt: u64,
        /// When the node is given back.
        deadline: Monotonic,
    },
    /// Granted, and evictions make the room.
    Making {
        /// The granted attempt.
        attempt: u64,
        /// When the answer is taken back.
        until: Monotonic,
        /// How far that has come.
        room: Room,
    },
    /// Granted.
    Binding {
        /// The granted attempt.
        attempt: u64,
        /// When the answer is taken back.
        until: Monotonic,
        /// How far the binding has come.
        stage: Stage,
    },
}

/// How far making room has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// The scheduler has leave to evict.
    Allowed,
    /// It does; another leave isn't given.
    Begun,
    /// It leads nowhere, for this reason.
    Failed(String),
}

/// What looking at a held node again found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It takes the pod.
    Fits,
    /// It does while others are there for whom nodes are held without a grant; without them it doesn't, for this
    /// reason.
    Leans(String),
    /// It doesn't any more, for this reason.
    Misfit(String),
}

impl From<Rechecked> for Fit {
    fn from(found: Rechecked) -> Self {
        match found {
            Rechecked::Fits => Self::Fits,
            Rechecked::Leans(status) => Self::Leans(status.to_string()),
            Rechecked::Misfit(status) => Self::Misfit(status.to_string()),
        }
    }
}

/// How far a binding has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The node was looked at again and takes the pod.
    Fits,
    /// It takes the pod only as long as others are there who may leave: it has to be looked at once more.
    Leans {
        /// What it would lack without them.
        why: String,
        /// When to look.
        next: Monotonic,
    },
    /// It takes the pod no more.
    Misfit(String),
    /// The pod may pass Permit; its Bind isn't asked for yet.
    Permitted,
    /// The binding has to be sent.
    Called {
        /// Requests of unknown outcome so far.
        tries: u32,
        /// Not before.
        next: Monotonic,
    },
    /// The pod is bound.
    Done,
    /// The pod is gone, ending or bound by another: what it is, the watch will show.
    Lost,
    /// The API server refuses, with this message.
    Refused(String),
}

impl Seat {
    /// The attempt that the node is held under, once there is one.
    pub fn attempt(&self) -> Option<u64> {
        match self.state {
            SeatState::Taken { .. } => None,
            SeatState::Held { attempt, .. }
            | SeatState::Making { attempt, .. }
            | SeatState::Binding { attempt, .. } => Some(attempt),
        }
    }
}

/// An answer that no hold backs any more and that must be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debt {
    /// The attempt that was answered with a reservation.
    pub attempt: u64,
    /// What to say instead.
    pub refusal: Refusal,
    /// It is due even if the attempt is granted.
    pub firm: bool,
}

/// How a write to the chaperon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It landed; the reply has been folded into the store.
    Done,
    /// The chaperon moved on, ends or is gone: a newer version will come.
    Conflict,
    /// The API server refuses, with this message.
    Refused(String),
    /// Nobody knows.
    Unknown,
}

/// How a binding ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is bound.
    Done,
    /// 404 or 409: the pod is gone, ending or bound.
    Lost,
    /// The API server refuses, with this message.
    Refused(String),
    /// Nobody knows.
    Unknown,
}
