//! What a decision asks of the edge: one step at a time, whether the pod may be tried, and what its owner is told.

use std::{fmt, time::Duration};

use pilotage_api::{keys, preempts::Preempts};
use serde_json::{Value, json};

use crate::{refusal::Refusal, seat::Debt, view::Fault};

/// Time on the process's own monotonic clock, since some fixed start.
pub type Monotonic = std::time::Duration;

/// A conditional write to the chaperon; each numbers a new attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// UID of the chaperon.
    pub chaperon_uid: String,
    /// Version that the decision was made on; a newer one makes the write fail.
    pub resource_version: String,
    /// Number of the attempt: the one before, plus 1.
    pub attempt: u64,
    /// What the attempt came to.
    pub answer: Answer,
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A node is held.
    Reserved {
        /// For the pod with this UID.
        pod: String,
        /// Whom it evicts once it is granted.
        preempts: Option<Preempts>,
    },
    /// No node is held.
    Refused(Refusal),
}

impl Write {
    /// The merge patch. It fails with 409 if the chaperon moved on, ends, or is another by now.
    pub fn patch(&self) -> Value {
        let mut annotations = json!({ keys::ATTEMPT: self.attempt.to_string() });
        match &self.answer {
            Answer::Reserved { pod, preempts } => {
                annotations[keys::IS_RESERVED] = keys::TRUE.into();
                annotations[keys::RESERVED_POD_UID] = pod.as_str().into();
                annotations[keys::PREEMPTS] = preempts.map(|it| it.to_string()).into();
                annotations[keys::REFUSAL] = Value::Null;
            }
            Answer::Refused(why) => {
                annotations[keys::IS_RESERVED] = Value::Null;
                annotations[keys::PREEMPTS] = Value::Null;
                annotations[keys::REFUSAL] = why.to_string().into();
            }
        }
        json!({ "metadata": {
            "uid": self.chaperon_uid,
            "resourceVersion": self.resource_version,
            "annotations": annotations,
        } })
    }
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes or [`Plan::wake_at`].
    Rest,
    /// Write to the chaperon.
    Write(Write),
    /// Run Filter once more for the held node: the grant for this attempt is in.
    Recheck {
        /// The granted attempt.
        attempt: u64,
    },
    /// The grant for this attempt is in: let the scheduler make the room that was offered.
    MakeRoom {
        /// UID of the pod.
        pod_uid: String,
        /// The granted attempt.
        attempt: u64,
        /// What was said of it.
        preempts: Preempts,
    },
    /// Let the pod pass Permit.
    Permit,
    /// POST the binding of the pod with this UID to this node.
    Bind {
        /// UID of the pod.
        pod_uid: String,
        /// The held node.
        node: String,
    },
    /// The pod is bound to the held node: tell the scheduler.
    Confirm,
    /// Give the node back at once.
    Drop {
        /// Why, for the pod's events and condition.
        why: Dropped,
        /// The refusal that has to be written.
        debt: Option<Debt>,
        /// How long to wait before the next reservation, unless the source moves.
        pause: Option<Duration>,
    },
}

/// Why a node was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nobody granted it in time.
    Expired,
    /// It wasn't bound in time.
    BindTimedOut,
    /// Those who had to go weren't gone in time.
    RoomNotMade,
    /// It takes the pod no more, for this reason.
    NoLongerFits(String),
    /// The API server refused the binding with this message.
    BindRefused(String),
    /// The pod is gone, ending, or bound by another.
    PodLeft,
    /// The chaperon is gone, ending, or not the pod's owner.
    ChaperonLeft,
    /// Another candidate scheduler numbered a newer attempt.
    TakenOver,
    /// The answer couldn't be written in time.
    Unanswered,
    /// It was taken while the pod wasn't to be tried.
    NotNow,
}

impl Dropped {
    /// In one word, for a metric.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::BindTimedOut => "bind_timed_out",
            Self::RoomNotMade => "room_not_made",
            Self::NoLongerFits(_) => "no_longer_fits",
            Self::BindRefused(_) => "bind_refused",
            Self::PodLeft => "pod_left",
            Self::ChaperonLeft => "not_chosen",
            Self::TakenOver => "taken_over",
            Self::Unanswered => "unanswered",
            Self::NotNow => "not_now",
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str(
                "the node was held, but the source cluster did not choose this candidate in time",
            ),
            Self::BindTimedOut => f.write_str("the binding was not confirmed in time"),
            Self::RoomNotMade => f.write_str("the pods that make room were not gone in time"),
            Self::NoLongerFits(why) => write!(f, "the held node no longer fits: {why}"),
            Self::BindRefused(why) => write!(f, "the binding was refused: {why}"),
            Self::PodLeft => f.write_str("the pod is gone, ending, or bound by another scheduler"),
            Self::ChaperonLeft => f.write_str("the pod's chaperon is gone or ending"),
            Self::TakenOver => f.write_str("another candidate scheduler has taken over"),
            Self::Unanswered => {
                f.write_str("the reservation could not be written to the chaperon in time")
            }
            Self::NotNow => f.write_str("the pod's chaperon waits for no reservation now"),
        }
    }
}

/// Whether the pod may be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Open,
    /// Not now.
    Shut(Note),
}

/// Whether pods may be evicted for the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// No: what it would take is the answer.
    #[default]
    Offer,
    /// At this cost at most, and once.
    UpTo(Preempts),
    /// No more: it was given, and used. The pod may wait for those who are going.
    Used,
}

/// Why a pod isn't tried, or what is wrong with its chaperon, in words for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing is known of the pod yet.
    Unseen,
    /// No chaperon controls the pod.
    NotACandidate,
    /// The chaperon that controls the pod isn't there.
    NoChaperon,
    /// The chaperon of the pod's name is another than the one that controls it.
    OtherChaperon,
    /// The chaperon is being deleted.
    ChaperonEnding,
    /// A node is held or being bound.
    Seated,
    /// The scheduler hasn't taken the pod back yet.
    Settling,
    /// A refusal has to be written first.
    InDebt,
    /// Another leader may hold a node for it.
    OtherLeader,
    /// The source didn't take earlier answers: the next one waits.
    Pausing,
    /// The cluster's own admission has put scheduling gates on it.
    Gated,
    /// The pod is bound, ending or finished.
    Settled,
    /// A value on the chaperon means nothing.
    Unreadable(Fault),
    /// The API server refuses our write to the chaperon, with this message.
    WriteRefused(String),
}

impl Note {
    /// Whether somebody has to do something about it.
    pub fn is_trouble(&self) -> bool {
        matches!(
            self,
            Self::NotACandidate
                | Self::NoChaperon
                | Self::OtherChaperon
                | Self::Unreadable(_)
                | Self::WriteRefused(_)
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unseen => "the pod's chaperon has not been looked at yet",
            Self::NotACandidate => {
                "the pod names the scheduler of candidates, but no PodChaperon controls it: it will not be scheduled"
            }
            Self::NoChaperon => "the PodChaperon that controls the pod does not exist",
            Self::OtherChaperon => {
                "the pod is controlled by an earlier PodChaperon of that name; it will be collected"
            }
            Self::ChaperonEnding => "the pod's chaperon is being deleted",
            Self::Seated => "a node is held for the pod, until the source cluster chooses or the hold expires",
            Self::Settling => "the scheduler has not taken the pod back yet",
            Self::InDebt => "the end of the last reservation is being written to the chaperon",
            Self::OtherLeader => "another candidate scheduler may hold a node for the pod",
            Self::Pausing => "the source cluster did not take earlier reservations, the next one is made later",
            Self::Gated => "the pod's scheduling gates hold it",
            Self::Settled => "the pod is bound, ending or finished",
            Self::Unreadable(fault) => return write!(f, "{fault}"),
            Self::WriteRefused(why) => {
                return write!(f, "the answer can't be written to the chaperon: {why}");
            }
        })
    }
}

/// Everything that one decision asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Do this, fold its outcome, and decide again.
    pub step: Step,
    /// Whether a scheduling cycle may run for the pod.
    pub gate: Gate,
    /// Whether others may be evicted for it.
    pub leave: Leave,
    /// The pod's owner should hear this now.
    pub tell: Option<Note>,
    /// Decide again then at the latest.
    pub wake_at: Option<Monotonic>,
}

impl Plan {
    /// Nothing to do; the gate as given.
    pub(crate) fn rest(gate: Gate) -> Self {
        Self {
            step: Step::Rest,
            gate,
            leave: Leave::Offer,
            tell: None,
            wake_at: None,
        }
    }

    /// Nothing to do in front of a shut gate.
    pub(crate) fn shut(note: Note) -> Self {
        Self::rest(Gate::Shut(note))
    }

    /// Do this, with the gate shut.
    pub(crate) fn step(step: Step, note: Note) -> Self {
        Self {
            step,
            ..Self::shut(note)
        }
    }

    /// Decide again at `at`, or earlier.
    pub(crate) fn wake(mut self, at: Monotonic) -> Self {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(answer: Answer) -> Value {
        Write {
            chaperon_uid: "u".into(),
            resource_version: "7".into(),
            attempt: 3,
            answer,
        }
        .patch()
    }

    #[test]
    fn writes_replace_the_answer_before_in_one_patch() {
        assert_eq!(
            write(Answer::Reserved {
                pod: "p".into(),
                preempts: None
            }),
            json!({ "metadata": { "uid": "u", "resourceVersion": "7", "annotations": {
                "multicluster.admiralty.io/attempt": "3",
                "multicluster.admiralty.io/is-reserved": "true",
                "multicluster.admiralty.io/reserved-pod-uid": "p",
                "multicluster.admiralty.io/preempts": null,
                "multicluster.admiralty.io/refusal": null,
            } } })
        );
        assert_eq!(
            write(Answer::Refused(Refusal::Unschedulable(
                "0/3 nodes are available".into()
            ))),
            json!({ "metadata": { "uid": "u", "resourceVersion": "7", "annotations": {
                "multicluster.admiralty.io/attempt": "3",
                "multicluster.admiralty.io/is-reserved": null,
                "multicluster.admiralty.io/preempts": null,
                "multicluster.admiralty.io/refusal": "Unschedulable: 0/3 nodes are available",
            } } })
        );
    }
}
