//! Owns what a failed attempt leaves to be published: event, condition, nomination, as plain data.
//! Knows nothing of clients; the pod is back in its queue already when this is made.

use std::sync::{Arc, OnceLock};

use crate::cycle::Cause;
use crate::names::NodeName;
use crate::plugin::Nomination;
use crate::pod_info::PodInfo;
use crate::queue::Place;
use crate::room::Room;

/// The longest note of an event, in bytes.
const MAX_NOTE: usize = 1024;

/// An event to record (events.k8s.io/v1); the reporting controller is the pod's `schedulerName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// Its type: Warning, else Normal.
    pub warning: bool,
    /// Its reason.
    pub reason: &'static str,
    /// Its action.
    pub action: &'static str,
    /// Its note, at most 1024 bytes.
    pub note: String,
}

impl EventNote {
    /// The event of a failed attempt.
    pub(crate) fn failed_scheduling(message: &str) -> Self {
        let note = truncate(message);
        Self {
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note,
        }
    }

    /// It says this as well, as far as there is room.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        let note = truncate(&format!("{}: {more}", self.note));
        Self { note, ..self }
    }
}

/// Cuts a message to an event's length, between characters.
fn truncate(message: &str) -> String {
    const SUFFIX: &str = " ...";
    const KEPT: usize = MAX_NOTE - SUFFIX.len();
    if message.len() <= MAX_NOTE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(KEPT);
    format!("{}{SUFFIX}", &message[..end])
}

/// The `PodScheduled` condition to write, with status False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCondition {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// The whole text, not cut.
    pub message: String,
    /// Whether the status was another (or none) before, so that `lastTransitionTime` is now; otherwise it stays.
    pub transition: bool,
    /// The pod's `metadata.generation` that was looked at.
    pub observed_generation: Option<i64>,
}

/// What to write into the pod's status, on the condition that its `resourceVersion` is still that of
/// [`Failure::pod`], so that a late failure can't overwrite a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusPatch {
    /// The condition, if it changes.
    pub condition: Option<FailedCondition>,
    /// `status.nominatedNodeName`. One that is set may be what the pod shows already: another write may be on its way.
    pub nomination: Nomination,
}

impl StatusPatch {
    fn of(pod: &PodInfo, cause: &Cause, message: &str, nomination: &Nomination) -> Option<Self> {
        let nothing_to_clear = *nomination == Nomination::Clear && pod.nominated_node.is_none();
        let patch = Self {
            condition: changed_condition(pod, cause, message),
            nomination: if nothing_to_clear {
                Nomination::Keep
            } else {
                nomination.clone()
            },
        };
        (patch.condition.is_some() || patch.nomination != Nomination::Keep).then_some(patch)
    }
}

fn changed_condition(pod: &PodInfo, cause: &Cause, message: &str) -> Option<FailedCondition> {
    let reason = if cause.is_rejection() {
        "Unschedulable"
    } else {
        "SchedulerError"
    };
    let object = pod.pod();
    let status = object.and_then(|object| object.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let known = conditions
        .into_iter()
        .flatten()
        .find(|known| known.type_ == "PodScheduled");
    let observed_generation = object.and_then(|object| object.metadata.generation);
    let same = known.is_some_and(|known| {
        known.status == "False"
            && known.reason.as_deref() == Some(reason)
            && known.message.as_deref() == Some(message)
            && known.observed_generation == observed_generation
    });
    let transition = known.is_none_or(|known| known.status != "False");
    (!same).then_some(FailedCondition {
        reason,
        message: message.to_owned(),
        transition,
        observed_generation,
    })
}

/// What became of a pod whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// It is in the queue again.
    Requeued(Place),
    /// It was deleted meanwhile; nothing is published.
    Gone,
    /// It has a node meanwhile (somebody bound it, or our own bind landed although it failed); nothing is
    /// published.
    Bound,
}

/// A failed attempt, with all that is left to publish.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The pod, in its newest version.
    pub pod: Arc<PodInfo>,
    /// How often it was tried, this try included.
    pub attempts: u32,
    /// The node that it was to go to, if the failure came after the choice.
    pub node: Option<NodeName>,
    /// Why.
    pub cause: Cause,
    /// What became of it.
    pub aftermath: Aftermath,
    /// What it may expect of evictions.
    pub room: Room,
    /// What becomes of its nomination.
    pub(crate) nomination: Nomination,
    pub(super) withdrawn: bool,
    pub(super) message: OnceLock<String>,
}

impl Failure {
    pub(crate) const fn new(
        pod: Arc<PodInfo>,
        attempts: u32,
        cause: Cause,
        aftermath: Aftermath,
    ) -> Self {
        Self {
            pod,
            attempts,
            node: None,
            cause,
            aftermath,
            room: Room::Nowhere,
            nomination: Nomination::Keep,
            withdrawn: false,
            message: OnceLock::new(),
        }
    }

    /// Whether its author is told: it looks for a node again.
    pub const fn is_told(&self) -> bool {
        matches!(self.aftermath, Aftermath::Requeued(_))
    }

    /// The text of event and condition. Worked out when it is asked for, which needs no scheduler, and once.
    pub fn message(&self) -> &str {
        self.message.get_or_init(|| self.cause.to_string())
    }

    /// The event to record.
    pub fn event(&self) -> Option<EventNote> {
        self.is_told()
            .then(|| EventNote::failed_scheduling(self.message()))
    }

    /// Takes a nomination away that the driver wrote, whether the pod shows it yet or not.
    pub const fn withdraw_nomination(&mut self) {
        self.withdrawn = true;
    }

    /// What to write into its status, if anything changes.
    pub fn status(&self) -> Option<StatusPatch> {
        if !self.is_told() {
            return None;
        }
        // An offer is no promise that others could rely on.
        let nomination = match self.room {
            Room::Offered(_) => &Nomination::Keep,
            Room::Nowhere | Room::Awaited(_) => &self.nomination,
        };
        let patch = StatusPatch::of(&self.pod, &self.cause, self.message(), nomination);
        if self.withdrawn {
            return Some(StatusPatch {
                nomination: Nomination::Clear,
                ..patch.unwrap_or_default()
            });
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodCondition;

    use super::{MAX_NOTE, StatusPatch, truncate};
    use crate::cycle::Cause;
    use crate::names::NodeName;
    use crate::plugin::Nomination;
    use crate::pod_info::PodInfo;
    use crate::status::PluginError;
    use crate::test_objects::pod;

    fn of(pod: &PodInfo, cause: &Cause, nomination: &Nomination) -> Option<StatusPatch> {
        StatusPatch::of(pod, cause, &cause.to_string(), nomination)
    }

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(truncate("short"), "short");
        let exact = "x".repeat(MAX_NOTE);
        assert_eq!(truncate(&exact), exact);
        let cut = truncate(&"é".repeat(MAX_NOTE));
        assert!(cut.len() <= MAX_NOTE && cut.ends_with("é ..."), "{cut}");
    }

    #[test]
    fn nothing_is_written_if_nothing_changes() {
        let cause = Cause::NoNodes;
        let condition = |status: &str| PodCondition {
            type_: "PodScheduled".into(),
            status: status.into(),
            reason: Some("Unschedulable".into()),
            message: Some(cause.to_string()),
            ..PodCondition::default()
        };
        let known = pod("a").condition(condition("False")).info();
        assert_eq!(of(&known, &cause, &Nomination::Clear), None);

        let moved = Nomination::Set(NodeName::from("n"));
        let patch = of(&known, &cause, &moved).unwrap();
        assert_eq!((patch.condition, patch.nomination), (None, moved));

        let other = Cause::Error(PluginError::new("broken"));
        let written = of(&known, &other, &Nomination::Keep)
            .unwrap()
            .condition
            .unwrap();
        assert_eq!(
            (written.reason, written.transition),
            ("SchedulerError", false)
        );

        let first = pod("b").condition(condition("True")).info();
        let written = of(&first, &cause, &Nomination::Keep)
            .unwrap()
            .condition
            .unwrap();
        assert!(written.transition);
    }

    #[test]
    fn a_nomination_is_cleared_only_where_there_is_one() {
        let named = pod("a").nominated("n").info();
        let patch = of(&named, &Cause::NoNodes, &Nomination::Clear).unwrap();
        assert_eq!(patch.nomination, Nomination::Clear);
        let patch = of(&pod("a").info(), &Cause::NoNodes, &Nomination::Clear);
        assert_eq!(patch.unwrap().nomination, Nomination::Keep);
        // It may be on its way to be taken away.
        let same = Nomination::Set(NodeName::from("n"));
        let patch = of(&named, &Cause::NoNodes, &same).unwrap();
        assert_eq!(patch.nomination, same);
    }
}
