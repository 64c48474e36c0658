//! What a target has answered about a pod, in a few words that can be counted: whoever wrote the chaperon, there are no
//! others. It decides nothing.

use pilotage_api::refusal::Word;

use crate::{class::Class, view::ChaperonView};

/// What a target says now that it didn't say before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It holds a node.
    Reserved,
    /// It would evict others.
    Evicts,
    /// It holds nothing.
    Refused(RefusalKind),
    /// The delegate is bound.
    Bound,
    /// The pod that it had made vanished.
    Missing,
}

/// Why a target holds nothing, by the words that begin a refusal; what follows them is anybody's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// No node takes the pod.
    Unschedulable,
    /// The pod needs something that its scheduler doesn't know.
    UnknownConstraint,
    /// The target's own admission holds the pod back.
    Gated,
    /// The reservation wasn't granted in time.
    Expired,
    /// Somebody else took the room in between.
    NoLongerFits,
    /// The pod that the node was reserved for is gone.
    PodGone,
    /// The target's API server refuses the pod.
    CandidateRefused,
    /// Its API server refuses the question itself.
    NotAsked,
    /// Any other words.
    Other,
}

impl RefusalKind {
    /// Each of them.
    pub const ALL: [Self; 9] = [
        Self::Unschedulable,
        Self::UnknownConstraint,
        Self::Gated,
        Self::Expired,
        Self::NoLongerFits,
        Self::PodGone,
        Self::CandidateRefused,
        Self::NotAsked,
        Self::Other,
    ];

    fn of(refusal: &str) -> Self {
        let Some((word, _)) = Word::of(refusal) else {
            return Self::Other;
        };
        match word {
            Word::Unschedulable => Self::Unschedulable,
            Word::UnknownConstraint => Self::UnknownConstraint,
            Word::Gated => Self::Gated,
            Word::Expired => Self::Expired,
            Word::NoLongerFits => Self::NoLongerFits,
            Word::PodGone => Self::PodGone,
            Word::CandidateRefused => Self::CandidateRefused,
        }
    }

    /// In one word, for a metric.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unschedulable => "unschedulable",
            Self::UnknownConstraint => "unknown_constraint",
            Self::Gated => "gated",
            Self::Expired => "expired",
            Self::NoLongerFits => "no_longer_fits",
            Self::PodGone => "pod_gone",
            Self::CandidateRefused => "candidate_refused",
            Self::NotAsked => "not_asked",
            Self::Other => "other",
        }
    }
}

impl Reaction {
    /// What a chaperon says by now; nothing, if it says nothing.
    pub(crate) fn of(chaperon: &ChaperonView) -> Option<Self> {
        match &chaperon.class {
            Class::Reserved(_) | Class::VoidReserved(_) | Class::PlainReserved => {
                let evicts = chaperon.marks.preempts.is_some();
                Some(if evicts { Self::Evicts } else { Self::Reserved })
            }
            Class::Refused(why) | Class::VoidRefused(why) => {
                Some(Self::Refused(RefusalKind::of(why)))
            }
            Class::Bound => Some(Self::Bound),
            Class::Missing => Some(Self::Missing),
            Class::Ending | Class::Granted(_) | Class::Asked | Class::PlainGranted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chaperon;

    #[test]
    fn each_answer_has_its_word_and_free_text_none() {
        let of = |builder: crate::testing::ChaperonBuilder| Reaction::of(&builder.build());
        let new = || chaperon("a", "u");
        for (chaperon, want) in [
            (new(), None),
            (new().reserved(1), Some(Reaction::Reserved)),
            (new().reserved(1).evicting(2), Some(Reaction::Evicts)),
            (new().granted(1), None),
            (new().bound(), Some(Reaction::Bound)),
            (new().missing(), Some(Reaction::Missing)),
            (new().reserved(1).ending(), None),
        ] {
            assert_eq!(of(chaperon), want);
        }
        for (text, want) in [
            ("Unschedulable: 0/3 nodes are available", "unschedulable"),
            ("refused: claimed volumes", "unknown_constraint"),
            ("Gated: by example.com/queue", "gated"),
            ("Expired", "expired"),
            ("NoLongerFits", "no_longer_fits"),
            ("PodGone", "pod_gone"),
            ("CandidateRefused: exceeded quota", "candidate_refused"),
            ("Expired\"} 1\nmine{x=\"", "other"),
            ("", "other"),
        ] {
            assert_eq!(RefusalKind::of(text).word(), want, "{text}");
        }
    }
}
