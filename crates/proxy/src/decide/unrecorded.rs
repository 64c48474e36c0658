//! Pods without a record that Admiralty may have granted: its scheduler, swapped for ours, wrote its choice on the
//! chaperon alone. What it chose is found out, and recorded, before anybody else is asked. Of pods that are recorded
//! first no target's word for a grant is believed.

use pilotage_api::record::Record;

use super::{Observed, clear_leftovers, delete, failed_choice};
use crate::{
    class::Class,
    kept::LeftOut,
    lost::{Waits, Worth, unlisted, worth},
    memory::Memory,
    plan::{Action, Note, Plan},
    view::{ChaperonView, ProxyView, RecordState},
};

/// Whether a target may run the pod by this chaperon.
pub(super) fn is_granted(proxy: &ProxyView, chaperon: &ChaperonView) -> bool {
    is_marked(chaperon) || (!proxy.is_recorded_first() && runs(proxy, chaperon))
}

fn is_marked(chaperon: &ChaperonView) -> bool {
    chaperon.marks.allowed > 0 || chaperon.marks.is_allowed
}

/// Whether it may run without a mark: the pod's own scheduler, that Admiralty leaves it to, waits for none.
fn runs(proxy: &ProxyView, chaperon: &ChaperonView) -> bool {
    chaperon.says_bound || (proxy.no_reservation && chaperon.is_of_plain_source())
}

/// Takes in what Admiralty granted: a chaperon that goes may leave a pod.
pub(super) fn see(memory: &mut Memory, proxy: &ProxyView, chaperons: &[ChaperonView]) {
    let is_open = proxy.record == RecordState::Absent && proxy.node_name.is_none();
    if !is_open || proxy.is_recorded_first() {
        memory.forget_plain();
        return;
    }
    let granted = chaperons.iter().filter(|c| is_granted(proxy, c));
    memory.see_plain(granted.filter(|c| c.marks.allowed == 0));
}

/// What to do first for a pod without record and place; `None`: nobody was granted it.
pub(super) fn unplaced(observed: &Observed<'_>) -> Option<Plan> {
    let proxy = observed.proxy;
    // Nobody was given it, whatever a target shows: a question is for nobody, and our finalizer comes with the record.
    // If this view of the pod is old, a record is refused for its version.
    if proxy.what_if || proxy.recorded && !proxy.has_finalizer() {
        return None;
    }
    let all = observed.chaperons.iter();
    let granted: Vec<_> = all.filter(|c| is_granted(proxy, c)).collect();
    if proxy.is_recorded_first() {
        return without_its_record(observed, &granted);
    }
    let ending = granted.iter().any(|c| c.class == Class::Ending);
    if granted.len() > 1 || ending {
        // Which of them may run is unknown: all go, and the choice is made anew when they are gone.
        let nodes = granted.iter().map(|c| c.node.clone()).collect();
        let mut plan = Plan::closed(Note::Asked(nodes));
        clear_leftovers(observed, None, &mut plan);
        return Some(failed_choice(plan, "several targets were granted the pod"));
    }
    let only = granted.first().copied();
    let first = unproved(observed, only).or_else(|| {
        // What is bound is no matter of choice any more.
        let open = only.is_none_or(|c| c.class != Class::Bound);
        open.then(|| waits_for_lists(observed)).flatten()
    });
    first.or_else(|| Some(adopt(observed, only?)))
}

/// Our finalizer says that there may have been a record, which somebody took away: what is shown as granted may run. It
/// isn't kept on a target's word, and ends before anybody else is asked.
fn without_its_record(observed: &Observed<'_>, granted: &[&ChaperonView]) -> Option<Plan> {
    let mut plan = Plan::closed(Note::Settled);
    let mut nodes = Vec::new();
    for chaperon in granted {
        if is_waited_for(observed, &chaperon.node, &mut plan) {
            nodes.push(chaperon.node.clone());
        }
        if chaperon.class == Class::Missing {
            plan.actions.push(delete(chaperon, None));
        }
    }
    if nodes.is_empty() {
        return None;
    }
    plan.gate = Plan::closed(Note::Asked(nodes)).gate;
    clear_leftovers(observed, None, &mut plan);
    Some(failed_choice(
        plan,
        "a target shows a grant without a record",
    ))
}

/// Whether nobody has given this target up; when it will be, the plan looks again.
fn is_waited_for(observed: &Observed<'_>, node: &str, plan: &mut Plan) -> bool {
    let (proxy, targets) = (observed.proxy, observed.targets);
    match worth(proxy, node, targets, Waits::default(), observed.now) {
        Worth::GivenUp => return false,
        Worth::Until(at) => plan.wake(at),
        Worth::Stands => {}
    }
    true
}

/// A grant without a record is what a plain scheduler, swapped for ours, has left: it is kept.
fn adopt(observed: &Observed<'_>, chaperon: &ChaperonView) -> Plan {
    let mut plan = Plan::closed(Note::Granted(chaperon.node.clone()));
    plan.actions.push(record(observed, chaperon));
    failed_choice(plan, "a target was granted the pod before")
}

fn record(observed: &Observed<'_>, chaperon: &ChaperonView) -> Action {
    let allowed = chaperon.marks.allowed;
    Action::Record {
        record: Record {
            node: chaperon.node.clone(),
            chaperon_uid: chaperon.uid.clone(),
            attempt: (allowed > 0).then_some(allowed),
        },
        resource_version: observed.proxy.resource_version.clone(),
    }
}

/// Others that Admiralty granted are gone, and their pods may not be.
fn unproved(observed: &Observed<'_>, only: Option<&ChaperonView>) -> Option<Plan> {
    let is_only = |node: &str, uid: &str| only.is_some_and(|c| c.node == node && c.uid == uid);
    let mut plan = Plan::closed(Note::Settled);
    let mut nodes = Vec::new();
    for (node, uid, name) in observed.memory.plain() {
        if is_only(node, uid) || !is_waited_for(observed, node, &mut plan) {
            continue;
        }
        nodes.push(node.to_owned());
        if observed.targets.is_reachable(node) {
            plan.actions.push(Action::ConfirmGone {
                node: node.to_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
                plain: true,
            });
        }
    }
    if nodes.is_empty() {
        return None;
    }
    plan.gate = Plan::closed(Note::Asked(nodes)).gate;
    Some(failed_choice(
        plan,
        "a target that was granted the pod may still run it",
    ))
}

/// Not all targets have told whom Admiralty granted what.
fn waits_for_lists(observed: &Observed<'_>) -> Option<Plan> {
    let waits = |_: &str| Waits::default();
    let (node, until) = unlisted(observed.proxy, observed.targets, waits, observed.now)?;
    let mut plan = Plan::closed(Note::Unlisted(node.to_owned()));
    if let Some(at) = until {
        plan.wake(at);
    }
    Some(failed_choice(plan, "not all targets have been looked at"))
}

/// What to write on a pod that Admiralty placed: a record of its chaperon, and until that is known our finalizer, so
/// that it doesn't go before its delegate.
pub(super) fn placed(observed: &Observed<'_>) -> Option<Action> {
    let proxy = observed.proxy;
    let node = proxy.node_name.as_deref()?;
    if proxy.ending || !proxy.has_manifest || proxy.record != RecordState::Absent {
        return None;
    }
    if proxy.left_out >= LeftOut::Finalizers {
        return None;
    }
    let all = observed.chaperons.iter();
    let mut there = all.filter(|c| c.node == node && (is_marked(c) || runs(proxy, c)));
    match (there.next(), there.next()) {
        (Some(only), None) if observed.targets.is_reachable(node) => Some(record(observed, only)),
        _ if proxy.has_finalizer() => None,
        _ => Some(Action::Keep {
            resource_version: proxy.resource_version.clone(),
        }),
    }
}
