//! What a decision asks of the edge: requests with their preconditions, and what plugins and users are told.

mod answer;
mod note;

use std::collections::BTreeMap;

use pilotage_api::record::Record;

pub use self::{answer::Answer, note::Note};
use crate::{released::Released, view::Monotonic};

/// How a grant is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantForm {
    /// For this attempt: `test` UID, attempt and is-reserved; then allowed-attempt, is-allowed and our finalizer.
    Attempt(u64),
    /// To a candidate that is only made after the choice: `test` UID and attempt 0; attempt 1 is allowed.
    Unreserved,
    /// To a target that numbers no attempts: by resource version, without finalizer.
    Plain,
}

/// What the `PodScheduled` condition of a pod without a place says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// In one word.
    pub reason: &'static str,
    /// In full.
    pub message: String,
}

/// One request to an API server. Each may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// POST the pod's chaperon in the target behind this node.
    Ask {
        /// The virtual node.
        node: String,
    },
    /// PATCH the record onto the proxy pod, by its resource version, with our finalizer if that isn't there.
    Record {
        /// The new record.
        record: Record,
        /// Version of the proxy pod that the rule was judged on.
        resource_version: String,
    },
    /// PATCH our finalizer onto a proxy pod that Admiralty placed, by its resource version.
    Keep {
        /// Version of the proxy pod that it was judged on.
        resource_version: String,
    },
    /// PATCH the grant onto a chaperon.
    Grant {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// Version of the chaperon, for the forms that need it.
        resource_version: String,
        /// Others' finalizers are on it: use a merge patch with the version instead of a JSON patch.
        foreign_finalizers: bool,
        /// How it is written.
        form: GrantForm,
    },
    /// PATCH a chaperon, by its version: the target ends the pod unless it is bound, and tells that it is missing.
    GiveUp {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// Version at which it was given up.
        resource_version: String,
    },
    /// PATCH the proxy pod's status, by its resource version: its condition says this from now on.
    Say {
        /// What it says.
        words: Words,
        /// Version of the proxy pod that it was judged on.
        resource_version: String,
    },
    /// POST the proxy's binding with its UID and resource version.
    BindProxy {
        /// The virtual node.
        node: String,
        /// Version of a proxy pod that carries the record.
        resource_version: String,
    },
    /// DELETE a chaperon with a UID precondition, in the background; of a plain target in the foreground.
    DeleteChaperon {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// Granted by a target that numbers no attempts: no finalizer of ours waits for its pod.
        plain: bool,
        /// Version at which it was given up: if it moved on, by being bound for instance, it isn't deleted.
        resource_version: Option<String>,
    },
    /// Live GET of a chaperon: is this UID gone? For a plain target live LISTs of the pod's chaperons, whose names
    /// Admiralty lets the API server make up, and of its delegates.
    ConfirmGone {
        /// The virtual node.
        node: String,
        /// Name of the chaperon; of no use for a plain target.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// The target numbers no attempts.
        plain: bool,
    },
    /// Live GET of the proxy pod; if its record still doesn't name this chaperon, DELETE the chaperon.
    DeleteUnlessRecorded {
        /// The virtual node.
        node: String,
        /// Name of the chaperon.
        name: String,
        /// UID of the chaperon.
        uid: String,
        /// No finalizer of ours waits for its pod: DELETE in the foreground.
        plain: bool,
    },
}

/// What an action is about; no two with one key are under way at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionKey {
    /// [`Action::Ask`] of a node.
    Ask(String),
    /// A write to the proxy pod that a choice needs.
    Proxy,
    /// [`Action::Say`]. Never under way beside the other one; but what can't be said holds up nothing that is done.
    Words,
    /// Any write to, or live read of, the chaperon with this UID behind this virtual node.
    Chaperon {
        /// The virtual node.
        node: String,
        /// UID of the chaperon.
        uid: String,
    },
}

impl Action {
    /// Whether it writes the proxy pod for a choice, which moves the pod's version on.
    pub fn writes_proxy(&self) -> bool {
        matches!(
            self,
            Action::Record { .. } | Action::Keep { .. } | Action::BindProxy { .. }
        )
    }

    /// The virtual node that it concerns, if it is one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Action::Ask { node }
            | Action::Grant { node, .. }
            | Action::GiveUp { node, .. }
            | Action::BindProxy { node, .. }
            | Action::DeleteChaperon { node, .. }
            | Action::ConfirmGone { node, .. }
            | Action::DeleteUnlessRecorded { node, .. } => Some(node),
            Action::Record { .. } | Action::Keep { .. } | Action::Say { .. } => None,
        }
    }

    /// The virtual node of the target that it cleans up in, if so: of such requests a target can cause any number.
    pub fn cleans_up_at(&self) -> Option<&str> {
        match self {
            Action::DeleteChaperon { node, .. }
            | Action::ConfirmGone { node, .. }
            | Action::DeleteUnlessRecorded { node, .. } => Some(node),
            Action::Ask { .. }
            | Action::Grant { .. }
            | Action::GiveUp { .. }
            | Action::Record { .. }
            | Action::Keep { .. }
            | Action::Say { .. }
            | Action::BindProxy { .. } => None,
        }
    }

    /// What the action is about.
    pub fn key(&self) -> ActionKey {
        match self {
            Action::Ask { node } => ActionKey::Ask(node.clone()),
            Action::Record { .. } | Action::Keep { .. } | Action::BindProxy { .. } => {
                ActionKey::Proxy
            }
            Action::Say { .. } => ActionKey::Words,
            Action::Grant { node, uid, .. }
            | Action::GiveUp { node, uid, .. }
            | Action::DeleteChaperon { node, uid, .. }
            | Action::ConfirmGone { node, uid, .. }
            | Action::DeleteUnlessRecorded { node, uid, .. } => ActionKey::Chaperon {
                node: node.clone(),
                uid: uid.clone(),
            },
        }
    }

    /// Version of the object that the action was judged on, if a conflict must wait for a newer one.
    pub fn judged_on(&self) -> Option<&str> {
        match self {
            Action::Record {
                resource_version, ..
            }
            | Action::Keep { resource_version }
            | Action::Say {
                resource_version, ..
            }
            | Action::BindProxy {
                resource_version, ..
            }
            | Action::Grant {
                resource_version, ..
            }
            | Action::GiveUp {
                resource_version, ..
            } => Some(resource_version),
            Action::DeleteChaperon {
                resource_version, ..
            } => resource_version.as_deref(),
            Action::Ask { .. }
            | Action::ConfirmGone { .. }
            | Action::DeleteUnlessRecorded { .. } => None,
        }
    }
}

/// Whether the pod may be tried in a scheduling cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Enough answers are in: choose among the reserved, or tell why nobody takes it.
    Open,
    /// Not yet.
    Closed(Note),
}

/// What became of a choice that a scheduling cycle made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceFate {
    /// No choice, or it is still being carried out.
    Undecided,
    /// The proxy pod is bound to the chosen virtual node.
    Done,
    /// It can't be carried out any more; the pod must be tried again.
    Failed(String),
}

/// Everything that one decision asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Requests to send now; they don't depend on each other.
    pub actions: Vec<Action>,
    /// Whether a scheduling cycle may run.
    pub gate: Gate,
    /// What each target says, by virtual node: what the cycle's Filter reads.
    pub answers: BTreeMap<String, Answer>,
    /// What became of the cycle's choice.
    pub choice: ChoiceFate,
    /// Targets whose room for another question the pod waits for.
    pub queue: Vec<String>,
    /// The pod has waited for the same thing for long: tell its author.
    pub tell: Option<Note>,
    /// The pod isn't its target's any more: tell its author.
    pub released: Option<Released>,
    /// Decide again then at the latest, even if nothing happens.
    pub wake_at: Option<Monotonic>,
}

impl Plan {
    /// Nothing to do; the pod isn't to be tried, because of `note`.
    pub(crate) fn closed(note: Note) -> Self {
        Self {
            actions: Vec::new(),
            gate: Gate::Closed(note),
            answers: BTreeMap::new(),
            choice: ChoiceFate::Undecided,
            queue: Vec::new(),
            tell: None,
            released: None,
            wake_at: None,
        }
    }

    /// Whether it asks anybody.
    pub(crate) fn asks(&self) -> bool {
        let asks = |action: &Action| matches!(action, Action::Ask { .. });
        self.actions.iter().any(asks)
    }

    /// Those who owe an answer, whether it is still hoped for or not.
    pub(crate) fn owing(&self) -> impl Iterator<Item = &str> {
        let owes = |answer: &Answer| matches!(answer, Answer::Waiting | Answer::Silent);
        let owing = self.answers.iter().filter(move |(_, answer)| owes(answer));
        owing.map(|(node, _)| &**node)
    }

    /// Decide again at `at`, or earlier.
    pub(crate) fn wake(&mut self, at: Monotonic) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}
