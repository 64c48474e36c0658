//! Why a pod is refused, in words for its author: `kubectl` and the events of a `ReplicaSet` show them as they are.

use pilotage_api::annotations::LIMIT;
use pilotage_api::keys;
use pilotage_api::limits::TooLong;
use pilotage_api::lost::LostPolicyError;
use pilotage_model::burden::TooHeavy;
use pilotage_model::constraints::ConstraintError;
use pilotage_model::kept_labels::RegexpError;
use pilotage_model::manifest::ManifestError;
use thiserror::Error;

/// Longest pod that is read, in bytes. One whose manifest fits into its annotations has a fraction of that, with all of
/// its managed fields.
pub(crate) const OBJECT_LIMIT: usize = 2 * 1024 * 1024;
/// How many fields and list entries a pod may have, those of its managed fields among them.
pub(crate) const FIELDS_LIMIT: usize = 64 * 1024;

/// Why an elected pod is refused.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum Denial {
    /// It names its node.
    #[error(
        "spec.nodeName is {0:?}, but the pod is elected (annotation {elect}): a pod that names its node skips every \
         scheduler and would run on that very node. Leave spec.nodeName out to run it in another cluster, or the \
         annotation to run it here",
        elect = keys::ELECT
    )]
    NodeName(String),
    /// It came with a manifest that this webhook did not write.
    #[error(
        "annotation {key} is written by Pilotage alone, and this pod was sent with it; if you copied a pod that ran \
         before, create it from its original manifest instead, or take its spec back from that annotation",
        key = keys::SOURCE_POD_MANIFEST
    )]
    ManifestForged,
    /// It came with a record, which names somebody else's candidate.
    #[error(
        "annotation {key} is written by Pilotage alone: leave it out (it belongs to a pod that was made before)",
        key = keys::GRANTED_TO
    )]
    RecordForged,
    /// The manifest that this webhook wrote was damaged by another one.
    #[error("another admission webhook damaged what Pilotage saved: {0}")]
    ManifestDamaged(ManifestError),
    /// It isn't even a pod.
    #[error("an elected pod can't be saved: {0}")]
    NoPod(ManifestError),
    /// It already goes to our scheduler, but nothing says what to delegate.
    #[error(
        "spec.schedulerName is {name:?}, which Pilotage sets itself, but annotation {key} is missing: leave \
         schedulerName out of an elected pod; if you didn't set it, another admission webhook removed the annotation",
        name = keys::PROXY_SCHEDULER,
        key = keys::SOURCE_POD_MANIFEST
    )]
    SchedulerTaken,
    /// Its constraints can't be used.
    #[error(transparent)]
    Constraints(#[from] ConstraintError),
    /// What says which labels keep their key can't be read.
    #[error(transparent)]
    LabelRegexp(#[from] RegexpError),
    /// What is to become of it if its target is lost can't be read.
    #[error("annotation {key}: {0}", key = keys::REPLACE_AFTER)]
    LostPolicy(#[from] LostPolicyError),
    /// Who is asked for a pod that needs no reservation runs it.
    #[error(
        "annotations {what_if} and {no_reservation} exclude each other: a target that is asked for a pod without \
         reservation runs it",
        what_if = keys::WHAT_IF,
        no_reservation = keys::NO_RESERVATION
    )]
    WhatIf,
    /// With its manifest saved, its annotations would be too long for the API server.
    #[error(
        "the pod is too large to be elected: its annotations, with its own manifest among them, would take more than \
         the {limit} bytes that the API server takes. `kubectl apply --server-side` saves the copy that plain apply \
         keeps",
        limit = LIMIT
    )]
    TooLarge,
    /// Its manifest alone is more than can be saved.
    #[error("the pod is too large to be elected: {0}")]
    TooLargeToSave(ManifestError),
    /// In targets it would take more memory of everybody's than one pod may.
    #[error("the pod is too large to be elected: {0}")]
    TooHeavy(#[from] TooHeavy),
    /// It is too large to be looked at.
    #[error(
        "the pod is too large to be elected: it may have {OBJECT_LIMIT} bytes, and {FIELDS_LIMIT} fields and list \
         entries"
    )]
    TooManyFields,
    /// One of its annotations is longer than it may be.
    #[error("annotation {key}: {error}")]
    Annotation {
        /// Which one.
        key: &'static str,
        /// By how much.
        error: TooLong,
    },
}

impl Denial {
    /// One word for metrics and for the status' reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NodeName(_) => "NodeName",
            Self::ManifestForged => "ManifestForged",
            Self::RecordForged => "RecordForged",
            Self::ManifestDamaged(_) => "ManifestDamaged",
            Self::NoPod(_) => "NoPod",
            Self::SchedulerTaken => "SchedulerTaken",
            Self::Constraints(_) => "Constraints",
            Self::LabelRegexp(_) => "LabelRegexp",
            Self::LostPolicy(_) => "LostPolicy",
            Self::WhatIf => "WhatIf",
            Self::TooLarge | Self::TooLargeToSave(_) | Self::TooHeavy(_) => "TooLarge",
            Self::TooManyFields => "TooManyFields",
            Self::Annotation { .. } => "Annotation",
        }
    }

    /// HTTP status and Kubernetes reason of the answer: 422 for what its author can mend in the pod's own fields, 403
    /// for what nobody may do.
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Self::NodeName(_)
            | Self::NoPod(_)
            | Self::SchedulerTaken
            | Self::Constraints(_)
            | Self::LabelRegexp(_)
            | Self::LostPolicy(_)
            | Self::WhatIf
            | Self::TooLarge
            | Self::TooLargeToSave(_)
            | Self::TooHeavy(_)
            | Self::TooManyFields
            | Self::Annotation { .. } => (422, "Invalid"),
            Self::ManifestForged | Self::RecordForged | Self::ManifestDamaged(_) => {
                (403, "Forbidden")
            }
        }
    }
}
