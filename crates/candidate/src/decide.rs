//! The rules: what one chaperon and its pod, and what is remembered of them, ask for next.
//!
//! This is the table of the protocol's candidate side, row by row. What makes a step safe is its own precondition (the
//! chaperon's version, the pod's UID), never the freshness of what is read here.

use std::time::Duration;

use pilotage_api::preempts::Preempts;

use crate::{
    memory::{Memory, Readiness},
    plan::{Answer, Dropped, Gate, Leave, Monotonic, Note, Plan, Step, Write},
    refusal::Refusal,
    seat::{Debt, Room, Seat, SeatState, Stage},
    settings::Settings,
    view::{ChaperonView, PodView},
};

/// What is seen of one name at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The pod of that name, if there is one.
    pub pod: Option<&'a PodView>,
    /// The chaperon of that name, if there is one.
    pub chaperon: Option<&'a ChaperonView>,
    /// What is remembered; [`Memory::see`] has been called with the chaperon.
    pub memory: &'a Memory,
    /// The times to keep.
    pub settings: &'a Settings,
    /// Now.
    pub now: Monotonic,
}

/// The next step.
pub fn decide(seen: &Observed<'_>) -> Plan {
    let plan = match seen.memory.seat() {
        Some(seat) => seated(seen, seat),
        None => unseated(seen),
    };
    tell(seen, plan)
}

// ---- with a node ------------------------------------------------------------------------------------------------

fn seated(seen: &Observed<'_>, seat: &Seat) -> Plan {
    let attempt = seat.attempt();
    let Some(pod) = seen.pod.filter(|pod| pod.uid == seat.pod_uid) else {
        let attempt = attempt.or(seen.memory.tried());
        return drop(
            Dropped::PodLeft,
            attempt.map(|n| (n, Refusal::PodGone)),
            None,
        );
    };
    let binding = matches!(seat.state, SeatState::Binding { .. });
    if let Some(node) = &pod.node {
        return if binding && *node == seat.node {
            Plan::step(Step::Confirm, Note::Settled)
        } else {
            drop(Dropped::PodLeft, None, None)
        };
    }
    if let SeatState::Binding {
        stage: Stage::Done, ..
    } = seat.state
    {
        return Plan::step(Step::Confirm, Note::Settled);
    }
    if pod.ending || pod.finished {
        return drop(Dropped::PodLeft, None, None);
    }
    if let Some(gates) = &pod.gates {
        let attempt = attempt.or(seen.memory.tried());
        let debt = attempt.map(|n| (n, Refusal::Gated(gates.clone())));
        return drop(Dropped::NotNow, debt, None);
    }
    let owned = |chaperon: &&ChaperonView| pod.owner.as_ref() == Some(&chaperon.uid);
    let Some(chaperon) = seen.chaperon.filter(|c| !c.ending).filter(owned) else {
        return drop(Dropped::ChaperonLeft, None, None);
    };
    match &seat.state {
        SeatState::Taken { since } => taken(seen, seat, chaperon, *since),
        SeatState::Held { attempt, deadline } => held(seen, seat, chaperon, *attempt, *deadline),
        SeatState::Making {
            attempt,
            until,
            room,
        } => making(seen, seat, chaperon, (*attempt, *until), room),
        SeatState::Binding {
            attempt,
            until,
            stage,
        } => binding_stage(seen, seat, chaperon, *attempt, *until, stage),
    }
}

/// The scheduler has a node; nothing is said yet.
fn taken(seen: &Observed<'_>, seat: &Seat, chaperon: &ChaperonView, since: Monotonic) -> Plan {
    if is_granted_for(chaperon, &seat.pod_uid) && !is_foreign(seen, chaperon, &seat.pod_uid) {
        if seat.preempts.is_some() {
            // The source was told of no evictions, or of fewer.
            let why = Dropped::NoLongerFits("evictions would be needed".to_owned());
            return drop(why, Some((chaperon.attempt, Refusal::NoLongerFits)), None);
        }
        return Plan::step(
            Step::Recheck {
                attempt: chaperon.attempt,
            },
            Note::Seated,
        );
    }
    let deadline = since.saturating_add(hold(seen.settings, chaperon));
    if seen.now >= deadline {
        // A write of unknown outcome may have landed: then it has to be taken back.
        let debt = seen.memory.tried().map(|n| (n, Refusal::Expired));
        return drop(Dropped::Unanswered, debt, None);
    }
    let in_debt = owed(seen, chaperon).is_some();
    if in_debt || is_foreign(seen, chaperon, &seat.pod_uid) || pausing(seen).is_some() {
        return drop(Dropped::NotNow, None, None);
    }
    write(
        seen,
        chaperon,
        Answer::Reserved {
            pod: seat.pod_uid.clone(),
            preempts: seat.preempts,
        },
        Note::Seated,
    )
    .wake(deadline)
}

/// The hold.
fn held(
    seen: &Observed<'_>,
    seat: &Seat,
    chaperon: &ChaperonView,
    attempt: u64,
    deadline: Monotonic,
) -> Plan {
    let withdrawn = chaperon.attempt == attempt && !chaperon.reserved;
    if chaperon.attempt > attempt || withdrawn {
        return drop(Dropped::TakenOver, None, None);
    }
    // A lower number is a store that hasn't seen our own write yet.
    if chaperon.attempt == attempt && (chaperon.is_granted() || chaperon.was_bound) {
        let step = match seat.preempts {
            None => Step::Recheck { attempt },
            Some(preempts) => make_room(&seat.pod_uid, attempt, preempts),
        };
        return Plan::step(step, Note::Seated);
    }
    if seen.now >= deadline {
        let hold = hold(seen.settings, chaperon);
        let pause = (seen.settings).pause_after(hold, seen.memory.expiries());
        return drop(
            Dropped::Expired,
            Some((attempt, Refusal::Expired)),
            Some(pause),
        );
    }
    Plan::shut(Note::Seated).wake(deadline)
}

fn make_room(pod_uid: &str, attempt: u64, preempts: Preempts) -> Step {
    Step::MakeRoom {
        pod_uid: pod_uid.to_owned(),
        attempt,
        preempts,
    }
}

/// The grant is in: the scheduler may evict whom it said, once, and then tries the pod like any other.
fn making(
    seen: &Observed<'_>,
    seat: &Seat,
    chaperon: &ChaperonView,
    (attempt, until): (u64, Monotonic),
    room: &Room,
) -> Plan {
    let withdrawn = chaperon.attempt == attempt && !chaperon.reserved;
    if chaperon.attempt > attempt || withdrawn {
        return drop(Dropped::TakenOver, None, None);
    }
    if let Room::Failed(why) = room {
        let debt = (attempt, Refusal::NoLongerFits);
        return drop(Dropped::NoLongerFits(why.clone()), Some(debt), None);
    }
    if seen.now >= until {
        let hold = hold(seen.settings, chaperon);
        let pause = (seen.settings).pause_after(hold, seen.memory.expiries());
        let debt = (attempt, Refusal::Expired);
        return drop(Dropped::RoomNotMade, Some(debt), Some(pause));
    }
    let leave = match (room, seat.preempts) {
        (Room::Allowed, Some(preempts)) => Leave::UpTo(preempts),
        _ => Leave::Used,
    };
    let plan = Plan {
        leave,
        ..Plan::rest(Gate::Open)
    };
    plan.wake(until)
}

/// The grant is in.
fn binding_stage(
    seen: &Observed<'_>,
    seat: &Seat,
    chaperon: &ChaperonView,
    attempt: u64,
    until: Monotonic,
    stage: &Stage,
) -> Plan {
    if chaperon.attempt > attempt {
        return drop(Dropped::TakenOver, None, None);
    }
    let pause = || {
        let hold = hold(seen.settings, chaperon);
        Some(seen.settings.pause_after(hold, seen.memory.expiries()))
    };
    match stage {
        Stage::Misfit(why) => {
            let debt = (attempt, Refusal::NoLongerFits);
            return drop(Dropped::NoLongerFits(why.clone()), Some(debt), None);
        }
        Stage::Lost => return drop(Dropped::PodLeft, None, None),
        Stage::Refused(why) => {
            let refusal = Refusal::Unschedulable(format!("binding refused: {why}"));
            let why = Dropped::BindRefused(why.clone());
            return drop(why, Some((attempt, refusal)), pause());
        }
        // Nothing is sent yet: the grant may still be taken back.
        Stage::Leans { .. } if chaperon.attempt == attempt && !chaperon.reserved => {
            return drop(Dropped::TakenOver, None, None);
        }
        Stage::Leans { why, .. } if seen.now >= until => {
            let debt = (attempt, Refusal::NoLongerFits);
            return drop(Dropped::NoLongerFits(why.clone()), Some(debt), pause());
        }
        Stage::Fits
        | Stage::Leans { .. }
        | Stage::Permitted
        | Stage::Called { .. }
        | Stage::Done => {}
    }
    if seen.now >= until {
        return drop(
            Dropped::BindTimedOut,
            Some((attempt, Refusal::Expired)),
            pause(),
        );
    }
    let plan = match stage {
        Stage::Fits => Plan::step(Step::Permit, Note::Seated),
        Stage::Leans { next, .. } if *next <= seen.now => {
            Plan::step(Step::Recheck { attempt }, Note::Seated)
        }
        Stage::Called { next, .. } if *next <= seen.now => {
            let (pod_uid, node) = (seat.pod_uid.clone(), seat.node.clone());
            Plan::step(Step::Bind { pod_uid, node }, Note::Seated)
        }
        Stage::Leans { next, .. } | Stage::Called { next, .. } => {
            Plan::shut(Note::Seated).wake(*next)
        }
        _ => Plan::shut(Note::Seated),
    };
    plan.wake(until)
}

// ---- without a node ---------------------------------------------------------------------------------------------

fn unseated(seen: &Observed<'_>) -> Plan {
    let Some(pod) = seen.pod else {
        return podless(seen);
    };
    if pod.node.is_some() || pod.ending || pod.finished || seen.memory.has_bound(&pod.uid) {
        return Plan::shut(Note::Settled);
    }
    let Some(owner) = &pod.owner else {
        return Plan::shut(Note::NotACandidate);
    };
    let Some(chaperon) = seen.chaperon else {
        return Plan::shut(Note::NoChaperon);
    };
    if *owner != chaperon.uid {
        return Plan::shut(Note::OtherChaperon);
    }
    if chaperon.ending {
        return Plan::shut(Note::ChaperonEnding);
    }
    open(seen, pod, chaperon)
}

/// No pod of that name: an answer that nobody backs must not stand.
fn podless(seen: &Observed<'_>) -> Plan {
    let rest = Plan::shut(Note::Settled);
    let Some(chaperon) = seen.chaperon.filter(|c| c.reserved && !c.ending) else {
        return rest;
    };
    // Of a pod that had been bound the controller speaks (missing, was-bound).
    if chaperon.bound || chaperon.was_bound {
        return rest;
    }
    if owed(seen, chaperon).is_none()
        && let Some(until) = foreign_until(seen, chaperon, None)
    {
        return rest.wake(until);
    }
    write(
        seen,
        chaperon,
        Answer::Refused(Refusal::PodGone),
        Note::InDebt,
    )
}

fn open(seen: &Observed<'_>, pod: &PodView, chaperon: &ChaperonView) -> Plan {
    if let Some(until) = foreign_until(seen, chaperon, Some(&pod.uid)) {
        return Plan::shut(Note::OtherLeader).wake(until);
    }
    let granted = is_granted_for(chaperon, &pod.uid);
    // A grant that came before the hold's end was written is honoured; not one that had its chance.
    let due = owed(seen, chaperon).filter(|debt| debt.firm || !granted);
    if let Some(debt) = due {
        return write(
            seen,
            chaperon,
            Answer::Refused(debt.refusal.clone()),
            Note::InDebt,
        );
    }
    // The queue would keep it without a word for as long: the source shall ask elsewhere meanwhile.
    if let Some(gates) = &pod.gates {
        let refusal = Refusal::Gated(gates.clone());
        let said = !chaperon.reserved && chaperon.refusal.as_deref() == Some(&refusal.to_string());
        return if said {
            Plan::shut(Note::Gated)
        } else {
            write(seen, chaperon, Answer::Refused(refusal), Note::Gated)
        };
    }
    // Others were evicted for this grant, and the room went to somebody else.
    if granted && seen.memory.has_made_room(chaperon.attempt) {
        let answer = Answer::Refused(Refusal::NoLongerFits);
        return write(seen, chaperon, answer, Note::InDebt);
    }
    // Granted for a promise that another process made: it is kept, or taken back, here.
    if let Some(preempts) = chaperon.preempts.filter(|_| granted) {
        let step = make_room(&pod.uid, chaperon.attempt, preempts);
        return Plan::step(step, Note::Seated);
    }
    let gate = |plan: Plan| -> Plan {
        if seen.memory.is_in_cycle(&pod.uid) {
            return Plan {
                gate: Gate::Shut(Note::Settling),
                ..plan
            };
        }
        let firm = seen.memory.settle().filter(|until| seen.now < *until);
        match (firm, pausing(seen).filter(|_| !granted)) {
            (Some(until), _) => Plan {
                gate: Gate::Shut(Note::Settling),
                ..plan
            }
            .wake(until),
            (None, Some(until)) => Plan {
                gate: Gate::Shut(Note::Pausing),
                ..plan
            }
            .wake(until),
            (None, None) => plan,
        }
    };
    if let Some(refusal) = seen.memory.no_fit(&pod.uid)
        && (chaperon.reserved || chaperon.refusal.as_deref() != Some(&refusal.to_string()))
    {
        let answer = Answer::Refused(refusal.clone());
        let plan = write(seen, chaperon, answer, Note::InDebt);
        // The queue knows which events may help, so the pod may be tried meanwhile.
        return gate(Plan {
            gate: Gate::Open,
            ..plan
        });
    }
    gate(Plan::rest(Gate::Open))
}

// ---- what rules are made of -------------------------------------------------------------------------------------

fn drop(why: Dropped, debt: Option<(u64, Refusal)>, pause: Option<Duration>) -> Plan {
    let firm = !matches!(why, Dropped::Expired | Dropped::Unanswered);
    let debt = debt.map(|(attempt, refusal)| Debt {
        attempt,
        refusal,
        firm,
    });
    Plan::step(Step::Drop { why, debt, pause }, Note::Settling)
}

fn write(seen: &Observed<'_>, chaperon: &ChaperonView, answer: Answer, note: Note) -> Plan {
    let write = Write {
        chaperon_uid: chaperon.uid.clone(),
        resource_version: chaperon.resource_version.clone(),
        attempt: chaperon.attempt.saturating_add(1),
        answer,
    };
    match seen.memory.may_write(&write, seen.now) {
        Readiness::Now => Plan::step(Step::Write(write), note),
        Readiness::At(at) => Plan::shut(note).wake(at),
        Readiness::OnNewVersion => Plan::shut(note),
    }
}

fn hold(settings: &Settings, chaperon: &ChaperonView) -> Duration {
    if chaperon.is_numbered() {
        settings.hold
    } else {
        settings.plain_hold
    }
}

/// A grant counts only for the pod that the reservation named.
fn is_granted_for(chaperon: &ChaperonView, pod_uid: &str) -> bool {
    chaperon.is_granted() && chaperon.reserved_pod_uid.as_deref() == Some(pod_uid)
}

/// The refusal that is still to be written for the answer that stands there.
fn owed<'a>(seen: &'a Observed<'_>, chaperon: &ChaperonView) -> Option<&'a Debt> {
    seen.memory
        .debt()
        .filter(|debt| chaperon.reserved && debt.attempt == chaperon.attempt)
}

fn pausing(seen: &Observed<'_>) -> Option<Monotonic> {
    seen.memory.pause().filter(|until| seen.now < *until)
}

/// Until when the answer that stands there may be backed by another, living leader. Not if it names another pod than
/// the one that is there: whoever held a node for that one drops it.
fn foreign_until(
    seen: &Observed<'_>,
    chaperon: &ChaperonView,
    pod_uid: Option<&str>,
) -> Option<Monotonic> {
    if pod_uid.is_some_and(|uid| chaperon.reserved_pod_uid.as_deref() != Some(uid)) {
        return None;
    }
    let until = (seen.memory.foreign_since()?).saturating_add(seen.settings.lease_duration);
    (chaperon.reserved && seen.now < until).then_some(until)
}

fn is_foreign(seen: &Observed<'_>, chaperon: &ChaperonView, pod_uid: &str) -> bool {
    foreign_until(seen, chaperon, Some(pod_uid)).is_some()
}

/// Adds what the pod's owner should hear.
fn tell(seen: &Observed<'_>, mut plan: Plan) -> Plan {
    let fault = seen
        .chaperon
        .into_iter()
        .flat_map(|c| &c.faults)
        .cloned()
        .map(Note::Unreadable);
    let refused = seen
        .memory
        .write_refused()
        .map(|why| Note::WriteRefused(why.to_owned()));
    let told = fault
        .chain(refused)
        .find(|note| !seen.memory.was_told(note));
    if told.is_some() {
        plan.tell = told;
        return plan;
    }
    if let Gate::Shut(note) = &plan.gate
        && note.is_trouble()
        && !seen.memory.was_told(note)
    {
        let since = seen.memory.shut_since(note, seen.now);
        let at = since.saturating_add(seen.settings.tell_after);
        if seen.now >= at {
            plan.tell = Some(note.clone());
        } else {
            plan = plan.wake(at);
        }
    }
    plan
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
