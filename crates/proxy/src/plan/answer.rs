//! What targets say to the question whether they take a pod, and how its author is told.

use pilotage_api::{keys, preempts::Preempts, refusal::Word};

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
pub(super) fn short(reason: &str) -> &str {
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
