//! What a scheduling cycle's choice of a target leads to, and what a pod without reservation may choose at all: one
//! judgement for both, so that nothing is offered that would be refused once it is chosen.

use std::collections::BTreeMap;

use pilotage_api::record::Record;

use super::{Observed, asking, evidence, failed_choice};
use crate::{
    class::Class,
    plan::{Action, Answer, Gate, Note, Plan},
    record::{Evidence, may_change},
    requests::Readiness,
    view::{ChaperonView, Monotonic},
    wave::LEAVING,
};

/// What comes of choosing a target now.
enum Choice {
    /// There is no chaperon yet, and none is needed before the choice: it is asked.
    Ask,
    /// The choice is recorded.
    Record(Record),
    /// It can't be reached.
    Unreachable,
    /// It refuses the pod, for this reason; it may be asked again at that time, if one is known.
    Refuses(String, Option<Monotonic>),
    /// The target took its answer back, for this reason.
    TookBack(String),
    /// Something else has to happen first.
    NotYet(&'static str),
}

/// One candidate, made after the choice: every suitable target may be chosen unasked.
pub(super) fn unreserved(observed: &Observed<'_>, current: Option<&Record>) -> Plan {
    let mut answers = BTreeMap::new();
    let mut plan = Plan::closed(Note::Settled);
    plan.gate = Gate::Open;
    for ranked in observed.ranking {
        let answer = match choice(observed, current, &ranked.node) {
            Choice::Ask | Choice::Record(_) => Answer::Unasked,
            Choice::Unreachable => Answer::Unreachable,
            Choice::Refuses(reason, again) => {
                if let Some(at) = again {
                    plan.wake(at);
                }
                Answer::Refused(reason)
            }
            Choice::TookBack(reason) => Answer::Refused(reason),
            Choice::NotYet(_) => Answer::Waiting,
        };
        answers.insert(ranked.node.clone(), answer);
    }
    Plan { answers, ..plan }
}

/// A cycle chose `node`: record it, if that is still what its chaperon says.
pub(super) fn carry_out(observed: &Observed<'_>, current: Option<&Record>, node: &str) -> Plan {
    let mut plan = Plan::closed(Note::Granted(node.to_owned()));
    let action = match choice(observed, current, node) {
        Choice::Ask => Action::Ask {
            node: node.to_owned(),
        },
        Choice::Record(record) => Action::Record {
            record,
            resource_version: observed.proxy.resource_version.clone(),
        },
        Choice::Unreachable => return failed_choice(plan, "the target can't be reached"),
        Choice::Refuses(reason, _) => return failed_choice(plan, &reason),
        Choice::TookBack(reason) => {
            return failed_choice(plan, &format!("the target took its answer back: {reason}"));
        }
        Choice::NotYet(why) => return failed_choice(plan, why),
    };
    plan.actions.push(action);
    plan
}

fn choice(observed: &Observed<'_>, current: Option<&Record>, node: &str) -> Choice {
    if !observed.targets.is_reachable(node) {
        return Choice::Unreachable;
    }
    if observed.targets.is_leaving(node) {
        return Choice::Refuses(LEAVING.to_owned(), None);
    }
    let Some(chaperon) = observed.chaperons.iter().find(|c| c.node == node) else {
        return if observed.proxy.no_reservation {
            unasked(observed, node)
        } else {
            Choice::NotYet("the chaperon is gone")
        };
    };
    if chaperon.is_of_plain_source() {
        return Choice::NotYet("what Admiralty asked for there has to go first");
    }
    let attempt = match &chaperon.class {
        Class::Reserved(attempt) => Some(*attempt),
        Class::PlainReserved => None,
        Class::Asked if observed.proxy.no_reservation => Some(1),
        Class::Refused(reason) => return Choice::TookBack(reason.clone()),
        _ => return Choice::NotYet("the target holds no node for the pod any more"),
    };
    if chaperon.marks.preempts.is_some() && !may_evict(observed, current, node) {
        return Choice::NotYet("the target would evict others now, and another one may have room");
    }
    record(observed, current, chaperon, attempt)
}

/// Whether a target that would evict may be chosen: its answer may be another one than the cycle knew that chose it.
fn may_evict(observed: &Observed<'_>, current: Option<&Record>, node: &str) -> bool {
    let wave = asking(observed, current).decide();
    wave.gate == Gate::Open && wave.answers.get(node).is_some_and(Answer::is_choosable)
}

fn record(
    observed: &Observed<'_>,
    current: Option<&Record>,
    chaperon: &ChaperonView,
    attempt: Option<u64>,
) -> Choice {
    let record = Record {
        node: chaperon.node.clone(),
        chaperon_uid: chaperon.uid.clone(),
        attempt,
    };
    let evidence = current.map_or_else(Evidence::default, |current| evidence(observed, current));
    match may_change(current, &record, evidence) {
        Some(_) => Choice::Record(record),
        // The record already says so, or may not change.
        None => Choice::NotYet("the pod is recorded elsewhere"),
    }
}

/// When another target may be chosen for a pod without reservation than the one that it is granted to: now at the
/// earliest; `None`: none that is known of.
pub(super) fn elsewhere(observed: &Observed<'_>, granted: &str) -> Option<Monotonic> {
    let others = observed.ranking.iter().map(|ranked| ranked.node.as_str());
    let others = others.filter(|node| *node != granted);
    // A question that was thought lost, and has landed, may be chosen as it is.
    let choosable = |class: &Class| {
        matches!(
            class,
            Class::Asked | Class::Reserved(_) | Class::PlainReserved
        )
    };
    let others = others.filter(|node| {
        let mut there = observed.chaperons.iter().filter(|c| c.node == *node);
        observed.targets.is_reachable(node)
            && !observed.targets.is_leaving(node)
            && there.all(|c| choosable(&c.class))
    });
    let times = others.filter_map(|node| match unasked(observed, node) {
        Choice::Ask => Some(observed.now),
        Choice::Refuses(_, again) => again,
        _ => None,
    });
    times.min()
}

/// What comes of choosing a target that was granted nothing, for a pod without reservation.
fn unasked(observed: &Observed<'_>, node: &str) -> Choice {
    if let Some((why, until)) = observed.memory.unfit(node, observed.now) {
        return Choice::Refuses(why.to_owned(), Some(until));
    }
    refused_until(observed, node).unwrap_or(Choice::Ask)
}

/// Why asking this target failed, and until when it isn't asked again.
fn refused_until(observed: &Observed<'_>, node: &str) -> Option<Choice> {
    let reason = observed.memory.ask_refusal(node)?;
    let ask = Action::Ask {
        node: node.to_owned(),
    };
    match observed.memory.may_send(&ask, observed.now) {
        Readiness::At(at) => Some(Choice::Refuses(reason.to_owned(), Some(at))),
        Readiness::Now | Readiness::UnderWay => None,
    }
}
