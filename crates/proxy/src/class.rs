//! What the source reads from a chaperon: one class, the first that applies.
//!
//! A class is a hint for what to do next. What makes an action safe is its precondition, never the class.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use pilotage_api::{
    PodChaperon,
    bounds::{MOST_ATTEMPTS, cut},
    keys,
    preempts::Preempts,
    refusal::Word,
};

/// As many bytes of a refusal are kept: all candidates' of one pod have to fit into an event.
const LONGEST_REFUSAL: usize = 512;

/// State of a candidate, as its chaperon tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// Deletion has begun.
    Ending,
    /// Its pod vanished.
    Missing,
    /// Its pod is bound to a node.
    Bound,
    /// The newest attempt holds a node and is granted.
    Granted(u64),
    /// An older attempt is granted; the newest one holds a node.
    VoidReserved(u64),
    /// An older attempt is granted; the newest one holds nothing, for this reason.
    VoidRefused(String),
    /// The newest attempt holds a node and waits for a grant.
    Reserved(u64),
    /// The newest attempt holds nothing, or the target refused the pod, for this reason.
    Refused(String),
    /// Asked, not yet answered.
    Asked,
    /// A target that numbers no attempts holds a node.
    PlainReserved,
    /// A target that numbers no attempts holds a node and was granted.
    PlainGranted,
}

/// The numbers and marks on a chaperon; one with a number that doesn't parse counts as refused.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an annotation of its own"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The candidate's newest attempt; 0 = none yet, or a target that numbers none.
    pub attempt: u64,
    /// The granted attempt; 0 = none.
    pub allowed: u64,
    /// The newest attempt holds a node.
    pub reserved: bool,
    /// Granted, in the form that plain candidates understand.
    pub is_allowed: bool,
    /// Whom it evicts once it is granted; `None`: the node has room.
    pub preempts: Option<Preempts>,
    /// Why the newest attempt holds nothing.
    pub refusal: Option<String>,
    /// The pod vanished.
    pub missing: bool,
    /// The source has asked the target to end the pod unless it is bound.
    pub gives_up: bool,
    /// Keys whose value doesn't parse.
    pub damaged: Vec<&'static str>,
}

impl Marks {
    /// Granted in the form that carries no finalizer of ours: its end proves nothing of its pod.
    pub fn is_plainly_granted(&self) -> bool {
        self.is_allowed && self.allowed == 0
    }

    /// Reads the marks of a chaperon.
    pub fn of(chaperon: &PodChaperon) -> Self {
        let annotation = |key: &str| {
            chaperon
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(key))
        };
        let mut damaged = Vec::new();
        let mut number = |key: &'static str| match annotation(key).map(|text| text.parse::<u64>()) {
            None => 0,
            Some(Ok(number)) if number <= MOST_ATTEMPTS => number,
            Some(_) => {
                damaged.push(key);
                0
            }
        };
        let (attempt, allowed) = (number(keys::ATTEMPT), number(keys::ALLOWED_ATTEMPT));
        let preempts = annotation(keys::PREEMPTS).and_then(|text| {
            let preempts = text.parse().ok();
            if preempts.is_none() {
                damaged.push(keys::PREEMPTS);
            }
            preempts
        });
        let is_true = |key: &str| annotation(key).is_some_and(|value| value == keys::TRUE);
        Self {
            attempt,
            allowed,
            reserved: is_true(keys::IS_RESERVED),
            is_allowed: is_true(keys::IS_ALLOWED),
            preempts,
            refusal: annotation(keys::REFUSAL).map(|text| cut(text, LONGEST_REFUSAL).to_owned()),
            missing: annotation(keys::POD_MISSING_SINCE).is_some(),
            gives_up: is_true(keys::GIVE_UP),
            damaged,
        }
    }
}

fn scheduled(status: Option<&PodStatus>) -> Option<&PodCondition> {
    let conditions = status?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "PodScheduled")
}

/// Whether a status says that its pod is bound.
pub fn is_bound(status: Option<&PodStatus>) -> bool {
    scheduled(status).is_some_and(|condition| condition.status == "True")
}

/// What a status says of a pod that isn't scheduled for this reason.
fn unscheduled<'a>(status: Option<&'a PodStatus>, reason: &str) -> Option<&'a str> {
    let condition = scheduled(status).filter(|condition| {
        condition.status == "False" && condition.reason.as_deref() == Some(reason)
    })?;
    let message = condition.message.as_deref().unwrap_or_default();
    Some(cut(message, LONGEST_REFUSAL))
}

/// Why a scheduler found no node, if a status says so.
pub fn unschedulable(status: Option<&PodStatus>) -> Option<String> {
    unscheduled(status, "Unschedulable").map(str::to_owned)
}

/// Classifies a chaperon by its marks, whether it is ending, and its status.
pub fn classify(marks: &Marks, ending: bool, status: Option<&PodStatus>) -> Class {
    let refusal = || {
        marks
            .refusal
            .clone()
            .unwrap_or_else(|| "no reason given".to_owned())
    };
    if ending {
        return Class::Ending;
    }
    if marks.missing {
        return Class::Missing;
    }
    if is_bound(status) {
        return Class::Bound;
    }
    if let Some(key) = marks.damaged.first() {
        return Class::Refused(format!("annotation {key} of its PodChaperon is damaged"));
    }
    let Marks {
        attempt,
        allowed,
        reserved,
        ..
    } = *marks;
    match (attempt, allowed, reserved) {
        (n, m, true) if n > 0 && n == m => return Class::Granted(n),
        (n, m, true) if m > 0 && m < n => return Class::VoidReserved(n),
        (n, m, false) if m > 0 && m < n => return Class::VoidRefused(refusal()),
        (n, 0, true) if n > 0 => return Class::Reserved(n),
        (n, _, false) if n > 0 => return Class::Refused(refusal()),
        _ => {}
    }
    if let Some(message) = unscheduled(status, keys::CANDIDATE_REFUSED) {
        return Class::Refused(Word::CandidateRefused.because(message));
    }
    // A target that numbers no attempts says nothing else of a pod that its own admission gates. One whose target was
    // chosen first is gated by us.
    if (attempt, allowed, reserved, marks.is_allowed) == (0, 0, false, false)
        && let Some(message) = unscheduled(status, "SchedulingGated")
    {
        return Class::Refused(Word::Gated.because(message));
    }
    match (attempt, reserved, marks.is_allowed) {
        (0, true, false) => Class::PlainReserved,
        (0, true, true) => Class::PlainGranted,
        _ => Class::Asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(attempt: u64, allowed: u64, reserved: bool) -> Marks {
        Marks {
            attempt,
            allowed,
            reserved,
            refusal: Some("full".into()),
            ..Marks::default()
        }
    }

    fn scheduled(status: &str, reason: &str) -> PodStatus {
        PodStatus {
            conditions: Some(vec![PodCondition {
                type_: "PodScheduled".into(),
                status: status.into(),
                reason: Some(reason.into()),
                message: Some("exceeded quota".into()),
                ..Default::default()
            }]),
            ..Default::default()
        }
    }

    #[test]
    fn the_first_condition_that_applies_wins() {
        let bound = scheduled("True", "");
        let table = [
            (
                "ending",
                marks(1, 1, true),
                true,
                Some(bound.clone()),
                Class::Ending,
            ),
            (
                "missing beats bound",
                Marks {
                    missing: true,
                    ..marks(1, 1, true)
                },
                false,
                Some(bound.clone()),
                Class::Missing,
            ),
            ("bound", marks(1, 1, true), false, Some(bound), Class::Bound),
            ("granted", marks(2, 2, true), false, None, Class::Granted(2)),
            (
                "reserved anew",
                marks(3, 2, true),
                false,
                None,
                Class::VoidReserved(3),
            ),
            (
                "refused anew",
                marks(3, 2, false),
                false,
                None,
                Class::VoidRefused("full".into()),
            ),
            (
                "reserved",
                marks(1, 0, true),
                false,
                None,
                Class::Reserved(1),
            ),
            (
                "refused",
                marks(1, 0, false),
                false,
                None,
                Class::Refused("full".into()),
            ),
            ("asked", marks(0, 0, false), false, None, Class::Asked),
            (
                "admission refused",
                marks(0, 0, false),
                false,
                Some(scheduled("False", "CandidateRefused")),
                Class::Refused("CandidateRefused: exceeded quota".into()),
            ),
            (
                "gated by a target without numbers",
                marks(0, 0, false),
                false,
                Some(scheduled("False", "SchedulingGated")),
                Class::Refused("Gated: exceeded quota".into()),
            ),
            (
                "gated by us until its chaperon names it",
                marks(0, 1, false),
                false,
                Some(scheduled("False", "SchedulingGated")),
                Class::Asked,
            ),
            (
                "a reservation beats gates that are gone",
                marks(0, 0, true),
                false,
                Some(scheduled("False", "SchedulingGated")),
                Class::PlainReserved,
            ),
            (
                "an ordinary PodScheduled=False is no answer",
                marks(0, 0, false),
                false,
                Some(scheduled("False", "Unschedulable")),
                Class::Asked,
            ),
            (
                "plain",
                marks(0, 0, true),
                false,
                None,
                Class::PlainReserved,
            ),
            (
                "plain, granted",
                Marks {
                    is_allowed: true,
                    ..marks(0, 0, true)
                },
                false,
                None,
                Class::PlainGranted,
            ),
        ];
        for (name, marks, ending, status, want) in table {
            assert_eq!(classify(&marks, ending, status.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn a_damaged_number_makes_no_plain_target_of_one_of_ours() {
        let mut chaperon = PodChaperon::default();
        let annotations = [(keys::ATTEMPT, "three"), (keys::IS_RESERVED, keys::TRUE)];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        chaperon.metadata.annotations = Some(annotations.into_iter().collect());
        let class = classify(&Marks::of(&chaperon), false, None);
        assert!(matches!(class, Class::Refused(why) if why.contains(keys::ATTEMPT)));
    }

    #[test]
    fn what_admission_says_is_cut_where_a_character_ends() {
        let mut status = scheduled("False", keys::CANDIDATE_REFUSED);
        if let Some(condition) = status.conditions.iter_mut().flatten().next() {
            condition.message = Some("é".repeat(100_000));
        }
        let class = classify(&marks(0, 0, false), false, Some(&status));
        let told = format!("{}: {}", keys::CANDIDATE_REFUSED, "é".repeat(256));
        assert_eq!(class, Class::Refused(told));
        if let Some(condition) = status.conditions.iter_mut().flatten().next() {
            condition.message = Some(format!("x{}", "é".repeat(100_000)));
        }
        let class = classify(&marks(0, 0, false), false, Some(&status));
        assert!(
            matches!(class, Class::Refused(why) if why.ends_with('é') && why.len() == 511 + 18)
        );
    }
}
