//! How the text of a refusal begins: targets write it, and the source counts it and cuts it short. What follows the
//! word is for people, and anybody's.

use crate::keys;

/// Why a target holds no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// No node takes the pod.
    Unschedulable,
    /// The pod needs something that its scheduler doesn't know.
    UnknownConstraint,
    /// The target's own admission has put scheduling gates on the pod.
    Gated,
    /// The reservation wasn't granted, or not bound, in time.
    Expired,
    /// Somebody else took the room in between.
    NoLongerFits,
    /// The pod that the node was reserved for is gone.
    PodGone,
    /// The target's API server refuses the pod.
    CandidateRefused,
}

impl Word {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Unschedulable,
        Self::UnknownConstraint,
        Self::Gated,
        Self::Expired,
        Self::NoLongerFits,
        Self::PodGone,
        Self::CandidateRefused,
    ];

    /// As it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnknownConstraint => "refused",
            Self::Gated => "Gated",
            Self::Expired => "Expired",
            Self::NoLongerFits => "NoLongerFits",
            Self::PodGone => "PodGone",
            Self::CandidateRefused => keys::CANDIDATE_REFUSED,
        }
    }

    /// A refusal that begins with it.
    pub fn because(self, why: &str) -> String {
        format!("{}: {why}", self.text())
    }

    /// The word that a refusal begins with, and what follows it; nothing, if it begins with none.
    pub fn of(refusal: &str) -> Option<(Self, Option<&str>)> {
        let (text, why) = match refusal.split_once(':') {
            Some((text, why)) => (text, Some(why.trim_start())),
            None => (refusal, None),
        };
        let word = Self::ALL.into_iter().find(|word| word.text() == text)?;
        Some((word, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for word in Word::ALL {
            assert_eq!(Word::of(word.text()), Some((word, None)));
            let refusal = word.because("0/3 nodes: full");
            assert_eq!(Word::of(&refusal), Some((word, Some("0/3 nodes: full"))));
        }
        for text in [
            "",
            ":",
            "Expired ",
            "expired",
            "Expired\"} 1",
            "Other: Expired",
        ] {
            assert_eq!(Word::of(text), None, "{text:?}");
        }
    }
}
