//! What the owner of a chaperon is told.

use std::fmt;

use pilotage_api::keys;

/// What the owner of a chaperon is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// The name is taken by a pod that no chaperon of that name controls.
    NameTaken,
    /// The chaperon names no parent, so that nobody would ever look at its pod.
    NoParent,
    /// The API server refuses the pod.
    Refused(String),
    /// The chaperon is too heavy to be read.
    TooHeavy,
    /// It, or its pod, is too heavy to be kept whole.
    Heavy,
}

impl Note {
    /// Reason of the event, in camel case.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NameTaken => "PodNameTaken",
            Self::NoParent => "NoParent",
            Self::Refused(_) => keys::CANDIDATE_REFUSED,
            Self::TooHeavy | Self::Heavy => "TooHeavy",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str(
                "a pod of that name exists which this PodChaperon doesn't control; it is left alone",
            ),
            Self::NoParent => {
                write!(f, "the PodChaperon has no label {}: no pod is made for it", keys::PARENT_UID)
            }
            Self::Refused(message) => f.write_str(message),
            Self::TooHeavy => f.write_str(
                "the PodChaperon would take over 8 MiB of memory: no pod is made of it, and changes of it go nowhere",
            ),
            Self::Heavy => f.write_str(
                "the PodChaperon or its pod takes too much memory among the heavy ones of its namespace: of what the \
                 pod says only its phase and whether it has a place are copied",
            ),
        }
    }
}
