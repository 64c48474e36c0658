//! Why a pod waits, in words for its author.

use std::fmt;

use pilotage_api::keys;

use super::answer::short;
use crate::kept::ROOM;

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
