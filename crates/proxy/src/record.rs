//! When the record on a proxy pod may change: rules R1–R5 of ARCHITECTURE.md, in one place.

use pilotage_api::record::Record;

use crate::{class::Class, view::ChaperonView};

/// The rule under which a record may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// R1: there is none.
    None,
    /// R2: the same chaperon, a higher attempt.
    HigherAttempt,
    /// R3: the recorded chaperon is confirmed gone.
    Gone,
    /// R4: the recorded chaperon moved past the recorded attempt without any grant: none has landed, and the recorded
    /// one never will.
    NeverLanded,
    /// R5: somebody said that the recorded target is to be given up: knowingly without *at most one*.
    GivenUp,
}

/// What is known of the record that stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// Any version that was seen of the recorded chaperon.
    pub seen: Option<&'a ChaperonView>,
    /// Its UID is proved to be gone.
    pub confirmed_gone: bool,
    /// Its target was given up.
    pub given_up: bool,
}

/// Which rule, if any, lets `new` replace `current`.
pub fn may_change(current: Option<&Record>, new: &Record, evidence: Evidence<'_>) -> Option<Rule> {
    let Some(current) = current else {
        return Some(Rule::None);
    };
    if current.names(&new.node, &new.chaperon_uid) {
        let more = !is_spent(current, new.attempt);
        return more.then_some(Rule::HigherAttempt);
    }
    is_dead(current, evidence)
}

/// Whether a chaperon's node is one that the record doesn't name already, and that may be chosen: what Admiralty asked
/// for has a name by which no end can be proved.
pub fn is_offer(chaperon: &ChaperonView, current: Option<&Record>) -> bool {
    if chaperon.is_of_plain_source() {
        return false;
    }
    let attempt = match chaperon.class {
        Class::Reserved(attempt) => Some(attempt),
        Class::PlainReserved => None,
        _ => return false,
    };
    !current.is_some_and(|current| {
        current.names(&chaperon.node, &chaperon.uid) && is_spent(current, attempt)
    })
}

/// Of the recorded chaperon.
fn is_spent(current: &Record, attempt: Option<u64>) -> bool {
    // A target that numbered nothing counts as attempt 0: it may have begun to.
    attempt <= current.attempt
}

/// Which rule, if any, says that the record binds nobody any more.
pub fn is_dead(current: &Record, evidence: Evidence<'_>) -> Option<Rule> {
    if evidence.confirmed_gone {
        return Some(Rule::Gone);
    }
    never_landed(current, evidence.seen).or(evidence.given_up.then_some(Rule::GivenUp))
}

fn never_landed(current: &Record, seen: Option<&ChaperonView>) -> Option<Rule> {
    let seen = seen.filter(|c| current.names(&c.node, &c.uid))?;
    let attempt = current.attempt?;
    // The mark itself is read, not the class: also an ending chaperon proves that no grant landed.
    let never_granted = seen.marks.allowed == 0 && !seen.marks.is_allowed;
    let moved_past = seen.marks.attempt > attempt;
    (never_granted && moved_past && !matches!(seen.class, Class::Bound))
        .then_some(Rule::NeverLanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chaperon;

    fn record(node: &str, uid: &str, attempt: u64) -> Record {
        Record {
            node: node.into(),
            chaperon_uid: uid.into(),
            attempt: (attempt > 0).then_some(attempt),
        }
    }

    #[test]
    fn the_record_changes_only_by_its_rules() {
        let a1 = record("a", "ua", 1);
        let b1 = record("b", "ub", 1);
        let seen =
            |attempt, allowed, reserved| chaperon("a", "ua").marks(attempt, allowed, reserved);
        let table = [
            ("R1: none yet", None, &a1, None, false, Some(Rule::None)),
            ("the same", Some(&a1), &a1, None, false, None),
            (
                "R2: upwards",
                Some(&a1),
                &record("a", "ua", 2),
                None,
                false,
                Some(Rule::HigherAttempt),
            ),
            (
                "never downwards",
                Some(&record("a", "ua", 2)),
                &a1,
                None,
                false,
                None,
            ),
            (
                "another chaperon in the same target is another",
                Some(&a1),
                &record("a", "ux", 2),
                None,
                false,
                None,
            ),
            ("R3: gone", Some(&a1), &b1, None, true, Some(Rule::Gone)),
            ("absence is no evidence", Some(&a1), &b1, None, false, None),
            (
                "R4: moved past, never granted",
                Some(&a1),
                &b1,
                Some(seen(2, 0, false)),
                false,
                Some(Rule::NeverLanded),
            ),
            (
                "R4 with a new reservation",
                Some(&a1),
                &b1,
                Some(seen(2, 0, true)),
                false,
                Some(Rule::NeverLanded),
            ),
            (
                "a landed grant, even void, is not left",
                Some(&a1),
                &b1,
                Some(seen(2, 1, false)),
                false,
                None,
            ),
            (
                "still at the recorded attempt",
                Some(&a1),
                &b1,
                Some(seen(1, 0, true)),
                false,
                None,
            ),
            (
                "a plain target is left only when gone",
                Some(&record("a", "ua", 0)),
                &b1,
                Some(seen(0, 0, false)),
                false,
                None,
            ),
        ];
        for (name, current, new, seen, gone, want) in table {
            let seen = seen.map(crate::testing::ChaperonBuilder::build);
            let evidence = Evidence {
                seen: seen.as_ref(),
                confirmed_gone: gone,
                given_up: false,
            };
            assert_eq!(may_change(current, new, evidence), want, "{name}");
            let given_up = Evidence {
                given_up: true,
                ..evidence
            };
            let same = current.is_some_and(|c| c.chaperon_uid == new.chaperon_uid);
            let want = want.or((!same).then_some(Rule::GivenUp));
            assert_eq!(may_change(current, new, given_up), want, "{name}, given up");
        }
    }
}
