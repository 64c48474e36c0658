//! A record that stands: grant, wait, bind the proxy, or give the choice up.

use std::time::Duration;

use pilotage_api::record::Record;

use super::{Observed, choosing, delete, failed_choice};
use crate::{
    class::Class,
    plan::{Action, GrantForm, Note, Plan},
    settings::LONGEST_BUSY,
    unfit,
    view::ChaperonView,
};

/// The record stands: grant, wait, bind, or give up.
pub(super) fn standing(
    observed: &Observed<'_>,
    record: &Record,
    chaperon: Option<&ChaperonView>,
) -> Plan {
    let mut plan = Plan::closed(Note::Granted(record.node.clone()));
    if !observed.targets.is_reachable(&record.node) {
        let plan = Plan::closed(Note::Held(record.node.clone()));
        return failed_choice(plan, "the target can't be reached");
    }
    let Some(chaperon) = chaperon else {
        // Not in the store, which may be older than the record: only a live read proves anything.
        plan.actions.push(Action::ConfirmGone {
            node: record.node.clone(),
            name: observed.proxy.chaperon_name(),
            uid: record.chaperon_uid.clone(),
            plain: record.attempt.is_none(),
        });
        return plan;
    };
    match &chaperon.class {
        Class::Bound => {
            plan.actions.push(Action::BindProxy {
                node: record.node.clone(),
                resource_version: observed.proxy.resource_version.clone(),
            });
            // The winner is bound: all others let their nodes go at once.
            plan.actions.extend(
                observed
                    .chaperons
                    .iter()
                    .filter(|c| !record.spares(&c.uid) && c.class != Class::Ending)
                    .filter(|c| c.marks.allowed == 0 && !c.marks.is_allowed)
                    .filter(|c| observed.targets.is_reachable(&c.node))
                    .map(|loser| delete(loser, None)),
            );
            return plan;
        }
        Class::Ending => return plan,
        // Its Target goes, and the pod isn't bound there yet.
        _ if observed.targets.is_leaving(&record.node) => {
            plan.actions.extend(give_up(record, chaperon));
            return plan;
        }
        Class::Missing | Class::VoidRefused(_) => {
            plan.actions.extend(give_up(record, chaperon));
            return plan;
        }
        // Others may have room, or evict at a lower cost: they are compared once the record is nobody's.
        Class::VoidReserved(attempt)
            if chaperon.marks.preempts.is_some() && Some(*attempt) > record.attempt =>
        {
            plan.actions.extend(give_up(record, chaperon));
            return plan;
        }
        Class::Reserved(attempt) | Class::VoidReserved(attempt) => match record.attempt {
            Some(recorded) if *attempt == recorded => {
                plan.actions
                    .push(grant(chaperon, GrantForm::Attempt(*attempt)));
            }
            // A grant of Admiralty's scheduler is bound as it is, or deleted: a number would bring the rules of those
            // whose name and finalizer are known.
            None if chaperon.is_of_plain_source() => {}
            recorded if Some(*attempt) > recorded => plan.actions.push(Action::Record {
                record: Record {
                    attempt: Some(*attempt),
                    ..record.clone()
                },
                resource_version: observed.proxy.resource_version.clone(),
            }),
            // Our view of one of the two is old.
            _ => {}
        },
        Class::PlainReserved if record.attempt.is_none() => {
            plan.actions.push(grant(chaperon, GrantForm::Plain));
        }
        Class::Asked if observed.proxy.no_reservation => {
            if chaperon.marks.allowed == 0 && record.attempt.is_some() {
                plan.actions.push(grant(chaperon, GrantForm::Unreserved));
            }
            if chaperon.names_its_pod() {
                // The pod's own scheduler takes as long as it takes.
                return match unfit::says(chaperon) {
                    Some(why) => unfit_there(observed, record, chaperon, why),
                    None => plan,
                };
            }
        }
        Class::Refused(_) if observed.proxy.no_reservation => {
            plan.actions.extend(give_up(record, chaperon));
            return plan;
        }
        Class::Granted(_)
        | Class::Refused(_)
        | Class::Asked
        | Class::PlainReserved
        | Class::PlainGranted => {}
    }
    let since = observed.memory.recorded_since().unwrap_or(observed.now);
    let since = (observed.targets).silent_since(&record.node, since, LONGEST_BUSY);
    let room = chaperon.marks.preempts.map(|preempts| preempts.grace);
    let room = room.map_or(Duration::ZERO, |grace| {
        grace.saturating_add(observed.settings.make_room)
    });
    let give_up_at = since
        .saturating_add(observed.settings.give_up)
        .saturating_add(room);
    if observed.now >= give_up_at {
        plan.actions = give_up(record, chaperon).into_iter().collect();
    } else {
        plan.wake(give_up_at);
    }
    plan
}

/// The pod's own scheduler has no node for it there: it goes to a target that may have one, and else waits where it is.
fn unfit_there(
    observed: &Observed<'_>,
    record: &Record,
    chaperon: &ChaperonView,
    why: &str,
) -> Plan {
    let elsewhere = choosing::elsewhere(observed, &record.node);
    if elsewhere.is_some_and(|at| at <= observed.now) {
        let mut plan = Plan::closed(Note::Granted(record.node.clone()));
        plan.actions.extend(give_up(record, chaperon));
        return plan;
    }
    let node = record.node.clone();
    let plan = Plan::closed(Note::Unfit(node, why.to_owned()));
    let mut plan = failed_choice(plan, "the target's scheduler has no node for the pod");
    if let Some(at) = elsewhere {
        plan.wake(at);
    }
    plan
}

/// The next step out of a grant that led nowhere. Its pod may have been bound a moment ago, and only its own API server
/// knows: the target is asked to end it unless it is bound. When the target says that it is missing, the chaperon goes.
pub(super) fn give_up(record: &Record, chaperon: &ChaperonView) -> Option<Action> {
    // What numbers no attempts has no controller of ours.
    if chaperon.class == Class::Missing || record.attempt.is_none() {
        let judged_on = chaperon.resource_version.clone();
        return Some(delete(chaperon, Some(judged_on)));
    }
    (!chaperon.marks.gives_up).then(|| Action::GiveUp {
        node: chaperon.node.clone(),
        name: chaperon.name.clone(),
        uid: chaperon.uid.clone(),
        resource_version: chaperon.resource_version.clone(),
    })
}

fn grant(chaperon: &ChaperonView, form: GrantForm) -> Action {
    Action::Grant {
        node: chaperon.node.clone(),
        name: chaperon.name.clone(),
        uid: chaperon.uid.clone(),
        resource_version: chaperon.resource_version.clone(),
        foreign_finalizers: chaperon.foreign_finalizers,
        form,
    }
}
