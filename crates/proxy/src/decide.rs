//! The proxy scheduler's state machine for one proxy pod, while it is *open* or *recorded*.
//!
//! State is a function of the pod and its chaperons; [`Memory`] only holds timers, requests under way and proofs. Any
//! number of processes may run this on any stale view: what makes each action safe is its precondition.

mod choosing;
mod standing;
mod unrecorded;

use std::time::Duration;

use pilotage_api::record::Record;

use crate::{
    class::Class,
    kept::LeftOut,
    lost::{Waits, Worth, due, worth},
    memory::Memory,
    plan::{Action, ChoiceFate, Gate, Note, Plan},
    record::{Evidence, Rule, is_dead, is_offer},
    released::Released,
    requests::Readiness,
    settings::{LONGEST_BUSY, Settings},
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView, RecordState},
    wave::{Asking, Ranked},
    window::Windows,
};
use standing::{give_up, standing};

/// Everything a decision may look at.
pub struct Observed<'a> {
    /// The proxy pod.
    pub proxy: &'a ProxyView,
    /// Its chaperons in all targets, by `parent-uid`.
    pub chaperons: &'a [ChaperonView],
    /// Every target.
    pub targets: &'a Targets,
    /// Targets that suit the pod, best first.
    pub ranking: &'a [Ranked],
    /// The virtual node that a scheduling cycle chose and waits for.
    pub choice: Option<&'a str>,
    /// What this process remembers of the pod.
    pub memory: &'a Memory,
    /// Whether there is room for one more condition to be written.
    pub may_say: bool,
    /// How many pods are on their way to each target.
    pub windows: &'a Windows,
    /// Numbers.
    pub settings: &'a Settings,
    /// Now.
    pub now: Monotonic,
}

/// Starts and stops the clocks of `memory` by what is seen; to be called before each [`decide`].
pub fn see(
    memory: &mut Memory,
    proxy: &ProxyView,
    chaperons: &[ChaperonView],
    targets: &Targets,
    ranking: &[Ranked],
    now: Monotonic,
) {
    let asked: Vec<&str> = chaperons.iter().map(|c| c.node.as_str()).collect();
    memory.see(proxy.record.record(), &asked, now);
    memory.keep_targets(|node| targets.serves(node).is_some());
    let unplaced = proxy.record.record().filter(|_| proxy.node_name.is_none());
    let recorded = unplaced.and_then(|it| named_by(it, chaperons));
    unrecorded::see(memory, proxy, chaperons);
    // While it can't be reached, its Pilotage couldn't have answered either.
    let recorded = recorded.filter(|c| targets.is_reachable(&c.node));
    if let Some(granted) = recorded.filter(|_| proxy.no_reservation) {
        memory.see_unreserved(granted, now);
    }
    memory.see_recorded(recorded, now);
    if let Some(record) = proxy.record.record()
        && memory.is_over(record)
    {
        memory.leave(&record.node);
    }
    let record = proxy.record.record();
    let stands = record.is_some_and(|record| {
        let evidence = judge(record, proxy, chaperons, targets, memory, now);
        is_dead(record, evidence).is_none()
    });
    let holds = chaperons
        .iter()
        .filter(|c| is_offer(c, record) && c.marks.preempts.is_none())
        .any(|c| ranking.iter().any(|ranked| ranked.node == c.node));
    memory.see_holds(stands, holds, now);
    let kept_away = ranking.iter().filter(|ranked| ranked.kept_away);
    let mut kept_away: Vec<_> = kept_away.map(|ranked| ranked.node.clone()).collect();
    kept_away.sort_unstable();
    memory.see_kept_away(kept_away, now);
}

/// What to do now for one proxy pod.
pub fn decide(observed: &Observed<'_>) -> Plan {
    let proxy = observed.proxy;
    let mut plan = if proxy.ending || proxy.terminal {
        let mut plan = failed_choice(Plan::closed(Note::Settled), "the pod is ending");
        plan.actions.extend(unrecorded::placed(observed));
        plan
    } else if !proxy.has_manifest {
        Plan {
            tell: Some(Note::NoManifest),
            ..Plan::closed(Note::NoManifest)
        }
    } else if let Some(node) = &proxy.node_name {
        placed(observed, node)
    } else {
        match &proxy.record {
            RecordState::Damaged(error) => damaged(&error.to_string()),
            RecordState::Absent => {
                unrecorded::unplaced(observed).unwrap_or_else(|| open(observed, None))
            }
            RecordState::Is(record) => recorded(observed, record),
        }
    };
    if observed.choice.is_none() {
        plan.choice = ChoiceFate::Undecided;
    }
    if let Some(reason) = observed.memory.write_refusal()
        && plan.actions.iter().any(Action::writes_proxy)
    {
        plan.tell = Some(Note::WriteRefused(reason.to_owned()));
    }
    hold_back(observed, &mut plan);
    say(observed, &mut plan);
    tell(observed, &mut plan);
    plan
}

/// The condition is written when nothing else is: each write of ours makes the version old that another one names.
fn say(observed: &Observed<'_>, plan: &mut Plan) {
    let proxy = observed.proxy;
    let waits = proxy.node_name.is_none() && !proxy.ending && !proxy.terminal;
    let Some(words) = observed.memory.words().filter(|_| waits) else {
        return;
    };
    if plan.actions.iter().any(Action::writes_proxy) {
        return;
    }
    let say = Action::Say {
        words: words.clone(),
        resource_version: proxy.resource_version.clone(),
    };
    match observed.memory.may_send(&say, observed.now) {
        // The book calls it when there is room.
        Readiness::Now if !observed.may_say => {}
        Readiness::Now => plan.actions.push(say),
        Readiness::UnderWay => {}
        Readiness::At(at) => plan.wake(at),
    }
}

fn failed_choice(mut plan: Plan, why: &str) -> Plan {
    plan.choice = ChoiceFate::Failed(why.to_owned());
    plan
}

fn damaged(error: &str) -> Plan {
    let note = Note::DamagedRecord(error.to_owned());
    let plan = Plan {
        tell: Some(note.clone()),
        ..Plan::closed(note)
    };
    failed_choice(plan, "the record is damaged")
}

/// Bound to a virtual node: the feedback controller's affair from here on.
fn placed(observed: &Observed<'_>, node: &str) -> Plan {
    let mut plan = Plan::closed(Note::Settled);
    plan.actions.extend(unrecorded::placed(observed));
    plan.choice = match observed.choice {
        Some(chosen) if chosen == node => ChoiceFate::Done,
        _ => ChoiceFate::Failed(format!("the pod was bound to {node}")),
    };
    plan
}

/// No choice stands: ask, gate, and carry out the cycle's choice once there is one.
fn open(observed: &Observed<'_>, record: Option<&Record>) -> Plan {
    if observed.proxy.gated {
        return failed_choice(Plan::closed(Note::Gated), "the pod is gated");
    }
    if observed.proxy.left_out >= LeftOut::Rules {
        let plan = Plan {
            tell: Some(Note::TooHeavy),
            ..Plan::closed(Note::TooHeavy)
        };
        return failed_choice(plan, "the pod is too heavy");
    }
    let mut plan = if observed.proxy.what_if {
        failed_choice(
            asking(observed, record).question().into(),
            "the pod is a question only",
        )
    } else if let Some(node) = observed.choice {
        choosing::carry_out(observed, record, node)
    } else if observed.proxy.no_reservation {
        choosing::unreserved(observed, record)
    } else {
        asking(observed, record).decide().into()
    };
    // A chaperon whose pod vanished answers nobody: make room for a new one.
    for chaperon in observed
        .chaperons
        .iter()
        .filter(|c| c.class == Class::Missing)
    {
        plan.actions.push(delete(chaperon, None));
    }
    clear_leftovers(observed, record, &mut plan);
    plan
}

fn asking<'a>(observed: &Observed<'a>, record: Option<&'a Record>) -> Asking<'a> {
    Asking {
        proxy: observed.proxy,
        record,
        windows: observed.windows,
        ranking: observed.ranking,
        chaperons: observed.chaperons,
        targets: observed.targets,
        memory: observed.memory,
        settings: observed.settings,
        now: observed.now,
    }
}

/// A choice is recorded: see it through, or prove that it is dead.
fn recorded(observed: &Observed<'_>, record: &Record) -> Plan {
    let evidence = evidence(observed, record);
    let chaperon = evidence.seen;
    if let Some(rule) = is_dead(record, evidence) {
        // Who would evict now is compared with all others: the choice may have needed no eviction.
        let reserved_anew = chaperon
            .is_some_and(|c| matches!(c.class, Class::Reserved(_)) && c.marks.preempts.is_none())
            && !evidence.confirmed_gone
            && !evidence.given_up;
        if !reserved_anew {
            // The choice that made the dead record has to be made again. One that was made since then is for another
            // chaperon, maybe in the same target.
            if observed.choice == Some(record.node.as_str()) && !observed.memory.was_told_of(record)
            {
                let plan = Plan::closed(Note::Unseen);
                return failed_choice(plan, "the target took its answer back");
            }
            let mut plan = open(observed, Some(record));
            plan.released = released(observed, record, rule);
            if rule == Rule::GivenUp {
                plan.actions.extend(still_asked(observed, record, chaperon));
            }
            return plan;
        }
    }
    let mut plan = standing(observed, record, chaperon);
    let waits = waits(record, chaperon, observed.memory);
    let (proxy, targets) = (observed.proxy, observed.targets);
    if let Worth::Until(at) = worth(proxy, &record.node, targets, waits, observed.now) {
        plan.wake(at);
    }
    clear_leftovers(observed, Some(record), &mut plan);
    if observed.choice.is_some_and(|chosen| chosen != record.node) {
        plan.choice = ChoiceFate::Failed(format!("the pod was granted to {}", record.node));
    }
    plan
}

/// A target that is given up and answers is still asked to end what it was granted: it may be well again, and be the
/// only one that takes the pod.
fn still_asked(
    observed: &Observed<'_>,
    record: &Record,
    seen: Option<&ChaperonView>,
) -> Option<Action> {
    let open = |c: &&ChaperonView| !matches!(c.class, Class::Ending | Class::Missing);
    let seen = seen.filter(open)?;
    let reachable = observed.targets.is_reachable(&record.node);
    reachable.then(|| give_up(record, seen)).flatten()
}

/// What the author hears once of a record that binds nobody any more. A grant that never landed gave its target
/// nothing.
fn released(observed: &Observed<'_>, record: &Record, rule: Rule) -> Option<Released> {
    let given_up = match rule {
        Rule::Gone => false,
        Rule::GivenUp => true,
        Rule::None | Rule::HigherAttempt | Rule::NeverLanded => return None,
    };
    // Who reserves nothing learns only from a grant whether a target has a node.
    let untold = !observed.memory.was_released(record) && !observed.proxy.no_reservation;
    untold.then(|| Released {
        node: record.node.clone(),
        given_up,
        placed: false,
    })
}

/// What is known of the record.
fn judge<'a>(
    record: &Record,
    proxy: &ProxyView,
    chaperons: &'a [ChaperonView],
    targets: &Targets,
    memory: &Memory,
    now: Monotonic,
) -> Evidence<'a> {
    let seen = named_by(record, chaperons);
    let waits = waits(record, seen, memory);
    let worth = worth(proxy, &record.node, targets, waits, now);
    Evidence {
        seen,
        confirmed_gone: memory.is_over(record),
        given_up: worth == Worth::GivenUp,
    }
}

/// What is waited for in the recorded target. One that says that the delegate is bound gets the pod, and what is placed
/// there ends with the pod.
fn waits(record: &Record, seen: Option<&ChaperonView>, memory: &Memory) -> Waits {
    let asked = memory.end_asked_at(record);
    let asked = asked.filter(|_| seen.is_none_or(|c| c.class != Class::Bound));
    Waits {
        stuck: memory.stuck(record),
        // What isn't bound needs no grace to end.
        due: asked.map(|at| due(at, Duration::ZERO)),
    }
}

fn evidence<'a>(observed: &Observed<'a>, record: &Record) -> Evidence<'a> {
    let Observed {
        proxy,
        chaperons,
        targets,
        memory,
        now,
        ..
    } = *observed;
    judge(record, proxy, chaperons, targets, memory, now)
}

/// A granted chaperon that the record doesn't name is left over from another choice: judge it on a live record. One
/// that was never granted only has to go where its Target goes, or if Admiralty asked for it.
fn clear_leftovers(observed: &Observed<'_>, record: Option<&Record>, plan: &mut Plan) {
    // Whoever is given up behind one virtual node may still be reached behind another one.
    let given_up = record.is_some_and(|record| evidence(observed, record).given_up);
    let is_recorded = |c: &ChaperonView| {
        record.is_some_and(|it| it.names(&c.node, &c.uid) || !given_up && it.spares(&c.uid))
    };
    for chaperon in observed.chaperons {
        let granted = unrecorded::is_granted(observed.proxy, chaperon);
        if is_recorded(chaperon)
            || matches!(chaperon.class, Class::Ending | Class::Missing)
            || !observed.targets.is_reachable(&chaperon.node)
        {
            continue;
        }
        let leaving = observed.targets.is_leaving(&chaperon.node);
        // Its name, by which an end is proved, was made up: the target is asked anew.
        let plain = chaperon.is_of_plain_source();
        if !granted && (leaving || plain) {
            let judged_on = plain.then(|| chaperon.resource_version.clone());
            plan.actions.push(delete(chaperon, judged_on));
        }
        if granted && record.is_some_and(|record| record.spares(&chaperon.uid)) {
            plan.actions.push(delete(chaperon, None));
        } else if granted {
            plan.actions.push(Action::DeleteUnlessRecorded {
                node: chaperon.node.clone(),
                name: chaperon.name.clone(),
                uid: chaperon.uid.clone(),
                plain: chaperon.is_plainly_granted(),
            });
        }
    }
}

/// Keeps back what is under way or failed a moment ago.
fn hold_back(observed: &Observed<'_>, plan: &mut Plan) {
    let mut wake_at = None::<Monotonic>;
    plan.actions.retain(
        |action| match observed.memory.may_send(action, observed.now) {
            Readiness::Now => true,
            Readiness::UnderWay => false,
            Readiness::At(at) => {
                wake_at = Some(wake_at.map_or(at, |other| other.min(at)));
                false
            }
        },
    );
    if let Some(at) = wake_at {
        plan.wake(at);
    }
}

/// Tells the author once that the pod has been waiting for the same thing for long.
fn tell(observed: &Observed<'_>, plan: &mut Plan) {
    if let Some(note) = &plan.tell {
        if observed.memory.was_told(note) {
            plan.tell = None;
        }
        return;
    }
    let Gate::Closed(note) = plan.gate.clone() else {
        return;
    };
    let is_brief = matches!(
        note,
        Note::Settled | Note::Gated | Note::Queued | Note::Others
    );
    if is_brief || observed.memory.was_told(&note) {
        return;
    }
    let since = observed.memory.waiting_since(&note, observed.now);
    // A target that answers others is busy: that needs no words yet, each of which would be two writes.
    let owed_since = |node: &String| observed.targets.silent_since(node, since, LONGEST_BUSY);
    let since = match &note {
        Note::Granted(node) => owed_since(node),
        Note::Asked(nodes) => nodes.iter().map(owed_since).min().unwrap_or(since),
        _ => since,
    };
    let at = since.saturating_add(observed.settings.tell_after);
    if observed.now >= at {
        plan.tell = Some(note);
    } else {
        plan.wake(at);
    }
}

fn named_by<'a>(record: &Record, chaperons: &'a [ChaperonView]) -> Option<&'a ChaperonView> {
    chaperons.iter().find(|c| record.names(&c.node, &c.uid))
}

/// DELETE of a chaperon; with a version, unless it has moved on since.
fn delete(chaperon: &ChaperonView, resource_version: Option<String>) -> Action {
    Action::DeleteChaperon {
        node: chaperon.node.clone(),
        name: chaperon.name.clone(),
        uid: chaperon.uid.clone(),
        plain: chaperon.is_plainly_granted(),
        resource_version,
    }
}

#[cfg(test)]
mod tests;
