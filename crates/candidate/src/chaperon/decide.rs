//! The rules of the chaperon controller, one for each pair of a chaperon's and its pod's state: which request comes
//! next for one name.

mod note;

use std::time::Duration;

use pilotage_api::keys;
use serde_json::{Value, json};

pub use self::note::Note;
use super::{
    change::{self, Step},
    copy::{self, Urgency},
    kept::LeftOut,
    observe::{Chaperon, Monotonic, Observed, Owner, is_bound, owner, uid},
    raw_pod::RawPod,
};

/// A missing pod is made again after this long, if its restart policy says so.
const MISSING_FOR: Duration = Duration::from_mins(1);
/// Changes of a status are gathered for this long, unless the source waits for them.
const GATHER: Duration = Duration::from_millis(150);
/// A pod that was bound is told together with its kubelet's first word, if that comes within this time.
const FIRST_WORD: Duration = Duration::from_millis(50);
/// The garbage collector has this long for an unbound pod whose chaperon went: where it is quick, nobody asks twice.
/// Shorter than the time after which the candidate scheduler tells of a pod without chaperon (`Settings::tell_after`).
const COLLECTION: Duration = Duration::from_secs(1);

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST the chaperon's pod.
    CreatePod,
    /// DELETE the pod with this UID.
    DeletePod {
        /// Its UID, which is the precondition.
        uid: String,
    },
    /// DELETE the pod with this UID and version, at which it was bound to no node.
    EndUnbound {
        /// Its UID.
        uid: String,
        /// Its version.
        resource_version: String,
    },
    /// PATCH the pod with this merge patch, which takes our gate away.
    Ungate(Value),
    /// PATCH the pod by one of its subresources: a change that its proxy has had.
    Change(Step),
    /// Live GET of the pod of that name.
    LookAtPod {
        /// The UID that is in question, if it is known.
        expected: Option<String>,
    },
    /// PATCH the chaperon's metadata with this merge patch.
    Mark(Value),
    /// PATCH the chaperon's annotations with those of its pod.
    CopyAnnotations(Value),
    /// PATCH the chaperon's status with that of its pod.
    CopyStatus(Value),
    /// PATCH the chaperon's status: the pod is refused.
    SayRefused(Value),
    /// Tell the chaperon's owner, by an event.
    Tell(Note),
}

/// Kinds of requests; each backs off by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Create,
    Delete,
    Ungate,
    Change,
    Look,
    Mark,
    Annotations,
    Status,
    Tell,
}

impl Action {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::CreatePod => Kind::Create,
            Self::DeletePod { .. } | Self::EndUnbound { .. } => Kind::Delete,
            Self::Ungate(_) => Kind::Ungate,
            Self::Change(_) => Kind::Change,
            Self::LookAtPod { .. } => Kind::Look,
            Self::Mark(_) => Kind::Mark,
            Self::CopyAnnotations(_) => Kind::Annotations,
            Self::CopyStatus(_) | Self::SayRefused(_) => Kind::Status,
            Self::Tell(_) => Kind::Tell,
        }
    }
}

/// What one decision asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Do this, note how it ended, and decide again.
    pub action: Option<Action>,
    /// Something waits to be written with what else may come.
    pub dirty: bool,
    /// The chaperon says that its pod is missing, and waits for another one.
    pub missing: bool,
    /// The chaperon is to be read whole, and decided for again.
    pub reads: bool,
    /// Decide again then at the latest.
    pub wake_at: Option<Monotonic>,
}

/// The next request.
pub fn decide(seen: &Observed<'_>) -> Plan {
    let chaperon = seen.chaperon.map(Chaperon);
    match chaperon {
        None => orphan(seen),
        Some(chaperon) if chaperon.is_ending() => ending(seen, chaperon),
        Some(chaperon) => living(seen, chaperon),
    }
}

/// The chaperon was seen going: an unbound pod of its own goes without the garbage collector, if that has much to do.
fn orphan(seen: &Observed<'_>) -> Plan {
    let Some(pod) = seen.pod.filter(|pod| is_left_over(seen, pod)) else {
        return Plan::default();
    };
    let due = seen.memory.orphaned_at().unwrap_or_default();
    let due = due.saturating_add(COLLECTION);
    if seen.now < due {
        return Plan {
            wake_at: Some(due),
            ..Plan::default()
        };
    }
    delete(seen, pod)
}

/// Whether nobody has bound the pod, and its chaperon was seen going.
fn is_left_over(seen: &Observed<'_>, pod: &RawPod) -> bool {
    let is_owner_gone = match owner(pod) {
        Owner::Chaperon(owner) => seen.memory.is_chaperon_gone(owner),
        Owner::Other => false,
    };
    is_owner_gone && pod.node().is_none()
}

fn ending(seen: &Observed<'_>, chaperon: Chaperon<'_>) -> Plan {
    let own = seen
        .pod
        .filter(|pod| owner(pod) == Owner::Chaperon(chaperon.uid()));
    if let Some(pod) = own
        && pod.metadata.deletion_timestamp.is_none()
    {
        return delete(seen, pod);
    }
    if !chaperon.has_our_finalizer() {
        return Plan::default();
    }
    let reserved = chaperon.reserved_pod();
    let gone = match reserved {
        Some(reserved) => seen.memory.is_pod_gone(reserved),
        None => own.is_none() && seen.memory.is_absent(),
    };
    if gone {
        if seen.memory.was_marked(chaperon.resource_version()) {
            return Plan::default();
        }
        // They are written as a whole.
        if chaperon.left_out() == LeftOut::Finalizers {
            return told(seen, Note::TooHeavy);
        }
        return act(seen, Action::Mark(without_finalizer(chaperon)));
    }
    // As long as the store shows it, its end will be an event.
    let shown = match reserved {
        Some(reserved) => seen.pod.is_some_and(|pod| uid(pod) == reserved),
        None => own.is_some(),
    };
    if shown {
        // Nobody waits long for the end of what isn't known to be bound.
        return match own {
            Some(pod) if is_bound(Some(&pod.status)) && !is_bound(chaperon.status()) => {
                copied(seen, chaperon, pod)
            }
            _ => Plan::default(),
        };
    }
    act(
        seen,
        Action::LookAtPod {
            expected: reserved.map(str::to_owned),
        },
    )
}

fn living(seen: &Observed<'_>, chaperon: Chaperon<'_>) -> Plan {
    let Some(pod) = seen.pod else {
        return podless(seen, chaperon);
    };
    match owner(pod) {
        // The name is wanted.
        Owner::Chaperon(owner) if owner != chaperon.uid() && is_left_over(seen, pod) => {
            delete(seen, pod)
        }
        // One of the two is old news: the garbage collector removes a pod whose owner is gone.
        Owner::Chaperon(owner) if owner != chaperon.uid() => Plan::default(),
        Owner::Chaperon(_) if chaperon.is_given_up() && pod.node().is_none() => end(seen, pod),
        Owner::Chaperon(_) => match pod.other_gates() {
            Some(others) if pod.metadata.deletion_timestamp.is_none() => {
                gated(seen, chaperon, pod, &others)
            }
            _ => change::with_copy(seen, chaperon, pod, copied(seen, chaperon, pod)),
        },
        Owner::Other => refused(seen, chaperon, Note::NameTaken),
    }
}

fn podless(seen: &Observed<'_>, chaperon: Chaperon<'_>) -> Plan {
    if !chaperon.has_parent() {
        return refused(seen, chaperon, Note::NoParent);
    }
    let given_up = chaperon.is_given_up();
    if chaperon.waits_for_choice() && !given_up {
        // What it was refused for, a label that was gone or a name that was taken, is over.
        return copy::unrefused(chaperon).map_or_else(Plan::default, |status| {
            act(seen, Action::CopyStatus(status_patch(chaperon, &status)))
        });
    }
    if chaperon.missing_since().is_some() {
        if !chaperon.restarts() || given_up {
            return Plan::default();
        }
        // By this process's own clock: another one may have written the mark.
        let passed = seen.memory.missing_for(seen.now);
        let plan = match MISSING_FOR.checked_sub(passed) {
            Some(left) if !left.is_zero() => Plan {
                wake_at: Some(seen.now.saturating_add(left)),
                ..Plan::default()
            },
            // First it isn't missing any more: whoever judged it to be must not end the new pod.
            _ => act(
                seen,
                Action::Mark(json!({ "metadata": {
                    "uid": chaperon.uid(),
                    "resourceVersion": chaperon.resource_version(),
                    "annotations": { keys::POD_MISSING_SINCE: null },
                } })),
            ),
        };
        return Plan {
            missing: true,
            ..plan
        };
    }
    if (!chaperon.had_pod() || seen.memory.remakes()) && !given_up {
        return create(seen, chaperon);
    }
    if !seen.memory.is_absent() {
        // The mark makes the source delete the chaperon: a store that lags is no reason for it.
        return act(seen, Action::LookAtPod { expected: None });
    }
    let mut annotations = json!({ keys::POD_MISSING_SINCE: seconds(seen.wall) });
    if is_bound(chaperon.status()) {
        annotations[keys::WAS_BOUND] = keys::TRUE.into();
    }
    act(
        seen,
        Action::Mark(json!({ "metadata": {
        "uid": chaperon.uid(),
        "resourceVersion": chaperon.resource_version(),
        "annotations": annotations,
    } })),
    )
}

/// POST, and say so while the API server refuses it.
fn create(seen: &Observed<'_>, chaperon: Chaperon<'_>) -> Plan {
    let left_out = chaperon.left_out();
    if left_out >= LeftOut::All {
        return refused(seen, chaperon, Note::TooHeavy);
    }
    let plan = post(seen, chaperon);
    if plan.action == Some(Action::CreatePod) && left_out != LeftOut::Nothing {
        return Plan {
            reads: true,
            ..Plan::default()
        };
    }
    plan
}

fn post(seen: &Observed<'_>, chaperon: Chaperon<'_>) -> Plan {
    match seen.memory.refused() {
        Some(message) => {
            let plan = refused(seen, chaperon, Note::Refused(message.to_owned()));
            if plan.action.is_some() || plan.wake_at.is_some() {
                plan
            } else {
                act(seen, Action::CreatePod)
            }
        }
        None => act(seen, Action::CreatePod),
    }
}

/// The chaperon's status and an event say why there is no pod.
fn refused(seen: &Observed<'_>, chaperon: Chaperon<'_>, note: Note) -> Plan {
    if let Some(status) = copy::refusal(chaperon, &note.to_string(), seen.wall) {
        return act(seen, Action::SayRefused(status_patch(chaperon, &status)));
    }
    told(seen, note)
}

/// An event, once.
pub(super) fn told(seen: &Observed<'_>, note: Note) -> Plan {
    if seen.memory.was_told(&note) {
        return Plan::default();
    }
    act(seen, Action::Tell(note))
}

/// A pod that keeps its own scheduler: a POST may land long after its chaperon has gone, so the pod is bound only when
/// the living chaperon names it. From then on our finalizer waits for the end of that very pod.
fn gated(seen: &Observed<'_>, chaperon: Chaperon<'_>, pod: &RawPod, others: &[&Value]) -> Plan {
    let action = if chaperon.reserved_pod() == Some(uid(pod)) {
        Action::Ungate(json!({
            "metadata": { "uid": uid(pod), "resourceVersion": pod.metadata.resource_version },
            "spec": { "schedulingGates": others },
        }))
    } else {
        Action::Mark(json!({ "metadata": {
            "uid": chaperon.uid(),
            "resourceVersion": chaperon.resource_version(),
            "annotations": { keys::RESERVED_POD_UID: uid(pod) },
        } }))
    };
    act(seen, action)
}

fn copied(seen: &Observed<'_>, chaperon: Chaperon<'_>, pod: &RawPod) -> Plan {
    let pods = LeftOut::of(&pod.metadata);
    let whole = chaperon.left_out() <= LeftOut::Spec && pods == LeftOut::Nothing;
    let difference = if whole {
        copy::difference(chaperon, pod)
    } else {
        copy::essentials(chaperon, pod)
    };
    if difference.status.is_none() && difference.annotations.is_none() {
        return if whole {
            Plan::default()
        } else {
            told(seen, Note::Heavy)
        };
    }
    let gathered = match difference.urgency {
        Urgency::Gathered => GATHER,
        Urgency::Soon => FIRST_WORD,
        Urgency::Now => Duration::ZERO,
    };
    let gathered = (seen.memory.dirty_since(seen.now)).saturating_add(gathered);
    // Even what is urgent is written at most once in this time, so that no oddity of a target makes it a loop.
    let due = match seen.memory.copied_at() {
        Some(at) if difference.urgency != Urgency::Gathered => {
            gathered.max(at.saturating_add(GATHER))
        }
        _ => gathered,
    };
    if seen.now < due {
        return Plan {
            action: None,
            dirty: true,
            wake_at: Some(due),
            ..Plan::default()
        };
    }
    let action = match (difference.status, difference.annotations) {
        (Some(status), _) => Action::CopyStatus(status_patch(chaperon, &status)),
        (None, annotations) => Action::CopyAnnotations(json!({ "metadata": {
            "uid": chaperon.uid(),
            "annotations": annotations,
        } })),
    };
    Plan {
        dirty: true,
        ..act(seen, action)
    }
}

/// The fence of a grant that is given up: from here on no binding of this pod can land, or one has, and this fails.
fn end(seen: &Observed<'_>, pod: &RawPod) -> Plan {
    if pod.metadata.deletion_timestamp.is_some() || seen.memory.was_asked_to_go(uid(pod)) {
        return Plan::default();
    }
    act(
        seen,
        Action::EndUnbound {
            uid: uid(pod).to_owned(),
            resource_version: pod.metadata.resource_version.clone().unwrap_or_default(),
        },
    )
}

fn delete(seen: &Observed<'_>, pod: &RawPod) -> Plan {
    if pod.metadata.deletion_timestamp.is_some() || seen.memory.was_asked_to_go(uid(pod)) {
        return Plan::default();
    }
    act(
        seen,
        Action::DeletePod {
            uid: uid(pod).to_owned(),
        },
    )
}

/// The action now, or when its kind may be tried again.
pub(super) fn act(seen: &Observed<'_>, action: Action) -> Plan {
    match seen.memory.retry_at(action.kind(), seen.now) {
        Some(at) => Plan {
            wake_at: Some(at),
            ..Plan::default()
        },
        None => Plan {
            action: Some(action),
            ..Plan::default()
        },
    }
}

fn status_patch(chaperon: Chaperon<'_>, status: &Value) -> Value {
    json!({ "metadata": { "uid": chaperon.uid() }, "status": status })
}

/// Fails if the chaperon moved on: the finalizers are written as a whole.
fn without_finalizer(chaperon: Chaperon<'_>) -> Value {
    let others: Vec<&String> = chaperon
        .0
        .metadata
        .finalizers
        .iter()
        .flatten()
        .filter(|finalizer| *finalizer != keys::DELEGATE_GONE)
        .collect();
    json!({ "metadata": {
        "uid": chaperon.uid(),
        "resourceVersion": chaperon.resource_version(),
        "finalizers": others,
    } })
}

fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
