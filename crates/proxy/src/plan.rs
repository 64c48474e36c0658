//! What a decision asks of the edge: requests with their preconditions, and what plugins and users are told.

use std::{collections::BTreeMap, fmt};

use pilotage_api::{keys, preempts::Preempts, record::Record, refusal::Word};

use crate::{kept::ROOM, released::Released, view::Monotonic};

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

/// What a target has said to the question whether it takes the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds a node.
    Reserved,
    /// It would evict others, which costs less than it would anywhere else, and no other has room.
    Evicts(Preempts),
    /// It would evict others, and another one needn't, or at less cost.
    Outbid(Preempts),
    /// It could take a pod that is a question only; by evicting so many others, if any.
    Could(Option<Preempts>),
    /// It needn't be asked: the candidate is made after the choice.
    Unasked,
    /// No, for this reason.
    Refused(String),
    /// Asked; no answer yet.
    Waiting,
    /// Asked; no answer for longer than we are willing to wait quietly.
    Silent,
    /// Not asked yet: it was asked for as many others as it answers in a few seconds.
    Busy,
    /// It can't be reached.
    Unreachable,
    /// The pod's own words rule it out, so it isn't asked, for this reason.
    PassedOver(String),
}

impl Answer {
    /// Whether the target can be chosen now.
    pub fn is_choosable(&self) -> bool {
        matches!(self, Self::Reserved | Self::Evicts(_) | Self::Unasked)
    }

    /// Why the target can't be chosen now, in a phrase that goes behind its name; `None`: it can.
    pub fn objection(&self) -> Option<String> {
        match self {
            Self::Reserved | Self::Evicts(_) | Self::Unasked => None,
            Self::Outbid(Preempts { pods, .. }) => Some(format!(
                "would evict {pods} pod(s), at a higher cost than others"
            )),
            Self::Could(None) => Some("could take the pod".to_owned()),
            Self::Could(Some(Preempts { pods, .. })) => {
                Some(format!("could take the pod by evicting {pods} pod(s)"))
            }
            Self::Refused(reason) => {
                Some(format!("refused [{}{}]", short(reason), way_out(reason)))
            }
            Self::Waiting | Self::Silent => Some("has not answered yet".to_owned()),
            Self::Busy => Some("hasn't placed pods yet that came before".to_owned()),
            Self::Unreachable => Some("can't be reached".to_owned()),
            Self::PassedOver(reason) => Some(reason.clone()),
        }
    }
}

/// One short reason: a candidate's refusal without the words that every refusal shares.
fn short(reason: &str) -> &str {
    let reason = match Word::of(reason) {
        Some((Word::Unschedulable | Word::UnknownConstraint | Word::Gated, Some(why))) => why,
        _ => reason,
    };
    let reason = match reason.split_once(" nodes are available: ") {
        Some((count, rest)) if count.starts_with("0/") => rest,
        _ => reason,
    };
    let reason = reason
        .split_once(" preemption: ")
        .map_or(reason, |(head, _)| head);
    reason.trim_end_matches(['.', ' '])
}

/// What the author can do about a refusal that no change of a target ends.
fn way_out(reason: &str) -> String {
    match Word::of(reason) {
        Some((Word::UnknownConstraint, Some(_))) => {
            format!(" (only with the annotation {})", keys::NO_RESERVATION)
        }
        _ => String::new(),
    }
}

/// Why a pod isn't tried yet, in words for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing is known of the pod yet.
    Unseen,
    /// It says our scheduler's name but carries no manifest.
    NoManifest,
    /// What says where it may run is too heavy to be kept.
    TooHeavy,
    /// Its scheduling gates hold it.
    Gated,
    /// Targets that suit are busy with pods that came before, or are more urgent.
    Queued,
    /// A target holds a node, and other pods that are on their way have to come first.
    Others,
    /// These targets were asked and haven't answered.
    Asked(Vec<String>),
    /// This target was granted the pod; its delegate isn't bound yet.
    Granted(String),
    /// This target was granted the pod, whose own scheduler has no node for it there, for this reason; nobody else has
    /// one.
    Unfit(String, String),
    /// The pod is recorded at a target that can't be reached.
    Held(String),
    /// Admiralty made the pod, and may have granted it to this target, whose chaperons aren't all known.
    Unlisted(String),
    /// The record is unreadable.
    DamagedRecord(String),
    /// The source's API server refuses to write the record, or the binding.
    WriteRefused(String),
    /// The pod has a place, or needs none any more.
    Settled,
}

impl Note {
    /// The reasons by which condition and event tell of it, if its author is told. Where a scheduler has found no node,
    /// they are those of Kubernetes, which its tools look for.
    pub const fn reasons(&self) -> (&'static str, &'static str) {
        match self {
            Self::Unfit(..) => ("Unschedulable", "FailedScheduling"),
            _ => ("Waiting", "Waiting"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Unseen => f.write_str("no target was asked yet"),
            Note::NoManifest => write!(
                f,
                "the pod names the scheduler of proxy pods but was not admitted by the Pilotage webhook \
                 (no sourcepod-manifest annotation): label its namespace {}={}, annotate the pod {} and \
                 create it again",
                keys::NAMESPACE_LABEL,
                keys::NAMESPACE_LABEL_VALUE,
                keys::ELECT
            ),
            Note::TooHeavy => write!(
                f,
                "the pod takes too much memory, so no target is asked for it: its labels, its containers and its \
                 rules about nodes and other pods may take {} KiB together, where it is over 8 MiB as a whole or \
                 its namespace has many heavy pods",
                ROOM >> 10
            ),
            Note::Gated => f.write_str("the pod's scheduling gates hold it"),
            Note::Queued => f.write_str("waiting until pods that came before have an answer"),
            Note::Others => f.write_str("waiting until other pods that are on their way have come"),
            Note::Asked(nodes) => write!(f, "waiting for an answer of {}", nodes.join(", ")),
            Note::Granted(node) => {
                write!(
                    f,
                    "granted to {node}, waiting for its delegate to be bound there"
                )
            }
            Note::Unfit(node, why) => write!(
                f,
                "{node} refused [{}]; the pod waits there, as no other target may take it now",
                short(why)
            ),
            Note::Held(node) => write!(
                f,
                "the pod was granted to {node}, which can't be reached: its delegate may be running there, \
                 so no other target is asked until {node} answers"
            ),
            Note::Unlisted(node) => write!(
                f,
                "the pod was made by Admiralty, which may have granted it to {node}; what is there isn't known yet, \
                 so no target is asked until it can be looked at, or its Target has the annotation {}=true",
                keys::FORGET
            ),
            Note::DamagedRecord(error) => write!(
                f,
                "{error}; the pod may have a delegate, so no target is asked until the annotation is \
                 restored"
            ),
            Note::WriteRefused(reason) => {
                write!(f, "the choice can't be written down: {reason}")
            }
            Note::Settled => f.write_str("the pod has its place"),
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

#[cfg(test)]
mod tests {
    use super::{Answer, short};

    #[test]
    fn who_needs_what_no_candidate_scheduler_knows_is_told_of_the_way_without_one() {
        let objection = |reason: &str| Answer::Refused(reason.to_owned()).objection().unwrap();
        let claims = "needs persistent volumes, which this candidate scheduler doesn't know yet";
        assert_eq!(
            objection(&format!("refused: {claims}")),
            format!(
                "refused [{claims} (only with the annotation multicluster.admiralty.io/no-reservation)]"
            )
        );
        assert_eq!(objection("Unschedulable: full"), "refused [full]");
    }

    #[test]
    fn a_refusal_is_told_in_short() {
        for (reason, want) in [
            (
                "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
                 2 No preemption victims found for incoming pod.",
                "2 Insufficient cpu",
            ),
            (
                "CandidateRefused: exceeded quota: q",
                "CandidateRefused: exceeded quota: q",
            ),
            (
                "refused: needs pod groups, which this candidate scheduler doesn't know yet",
                "needs pod groups, which this candidate scheduler doesn't know yet",
            ),
            (
                "Gated: held there by the scheduling gates example.com/queue",
                "held there by the scheduling gates example.com/queue",
            ),
            ("Expired", "Expired"),
        ] {
            assert_eq!(short(reason), want);
        }
    }
}
