//! Why an attempt holds no node, as the chaperon says it in its `refusal` annotation.

use std::fmt;

use pilotage_api::refusal::Word;
use pilotage_sched::{Cause, plugins::UNKNOWN_CONSTRAINTS};

/// Longest text of a refusal; annotations are for reading, the whole report is in the pod's events.
const LONGEST: usize = 1024;

/// Why an attempt ended without a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No node takes the pod, for these reasons.
    Unschedulable(String),
    /// It needs what the scheduler doesn't know, in these words.
    Unknown(String),
    /// The cluster's own admission has put these scheduling gates on it.
    Gated(String),
    /// Nobody granted the answer in time, or it could not be bound in time.
    Expired,
    /// Somebody else took the room between answer and grant.
    NoLongerFits,
    /// The pod that the answer was for is gone.
    PodGone,
}

impl Refusal {
    /// How the chaperon is told of an attempt that found no node for this reason.
    pub fn of(cause: &Cause) -> Self {
        let Some(diagnosis) = cause.diagnosis() else {
            return Self::Unschedulable(cause.to_string());
        };
        let is_unknown = diagnosis.rejected_by.contains(UNKNOWN_CONSTRAINTS);
        match &diagnosis.pre_filter {
            Some(needs) if is_unknown => Self::Unknown(needs.clone()),
            // That nobody can be evicted, or not for this pod, is for its events.
            _ => Self::Unschedulable(diagnosis.of_nodes().to_string()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable(why) => f.write_str(&Word::Unschedulable.because(cut(why))),
            Self::Unknown(needs) => f.write_str(&Word::UnknownConstraint.because(cut(needs))),
            Self::Gated(gates) => {
                let why = format!("held there by the scheduling gates {gates}");
                f.write_str(&Word::Gated.because(cut(&why)))
            }
            Self::Expired => f.write_str(Word::Expired.text()),
            Self::NoLongerFits => f.write_str(Word::NoLongerFits.text()),
            Self::PodGone => f.write_str(Word::PodGone.text()),
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

#[cfg(test)]
mod tests;
