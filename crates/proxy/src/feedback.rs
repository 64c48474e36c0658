//! The feedback controller's state machine: a proxy that is *placed*, *ending*, or *no such pod*.

mod action;
pub mod book;
mod change;
mod hold;
mod left;
mod memory;
mod orphans;

pub use action::{Action, Key};
pub use book::Book;
pub use change::Refused;
pub use memory::Memory;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{
    keys, limits,
    parent::{ClusterUid, ParentLink},
    record::Record,
};
use serde_json::Value;

use crate::{
    annotations,
    class::Class,
    kept::{FINALIZERS, LeftOut},
    lost::{Waits, Worth, due, own_grace, worth},
    released::Released,
    requests::Readiness,
    slim::is_slim,
    status,
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView, RecordState},
};

/// The proxy scheduler releases losers as soon as the winner is bound; what is still there after this is a leftover.
const LEFTOVER_AFTER: Duration = Duration::from_secs(2);
/// Between two copies of one pod's status, and of its annotations, so that a burst of changes is one write.
const COPY_EVERY: Duration = Duration::from_millis(150);

/// Everything a decision may look at.
pub struct Observed<'a> {
    /// The proxy pod, and the object that the view was read from.
    pub proxy: Option<(&'a ProxyView, &'a Arc<Pod>)>,
    /// Namespace and name of the pod, if it is gone and this process knew it.
    pub was: Option<(&'a str, &'a str)>,
    /// All chaperons with this parent UID, in all targets.
    pub chaperons: &'a [ChaperonView],
    /// Every target.
    pub targets: &'a Targets,
    /// Who we are: other sources' objects are left alone.
    pub cluster: &'a ClusterUid,
    /// What this process remembers.
    pub memory: &'a Memory,
    /// Now.
    pub now: Monotonic,
}

/// Everything that one decision asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Requests to send now; they don't depend on each other.
    pub actions: Vec<Action>,
    /// Chaperons that aren't the placed pod's delegate, by virtual node and UID.
    pub leftovers: BTreeSet<(String, String)>,
    /// Version of the proxy pod that it was judged on.
    pub judged_on: Option<String>,
    /// The delegate's status differs from the proxy's.
    pub differs: bool,
    /// What of the delegate's words isn't copied with the rest.
    pub withheld: Vec<String>,
    /// What its author should know, if anything.
    pub tell: Option<String>,
    /// The pod isn't its target's any more, and goes.
    pub released: Option<Released>,
    /// Which changes of the pod its delegate doesn't have, and why, if any.
    pub refused: Option<Refused>,
    /// Decide again then at the latest.
    pub wake_at: Option<Monotonic>,
}

/// What to do now for one proxy pod, or for chaperons whose parent isn't in our store.
pub fn decide(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    match observed.proxy {
        None => orphans(observed, &mut plan),
        Some((proxy, _)) if proxy.ending => ending(observed, proxy, &mut plan),
        Some((proxy, pod)) if proxy.node_name.is_some() => placed(observed, proxy, pod, &mut plan),
        // It ended without a place: nobody will choose for it any more.
        Some((proxy, _)) if proxy.terminal => release_all(observed, &mut plan),
        // Not placed yet: the proxy scheduler's affair.
        Some(_) => {}
    }
    plan.judged_on = observed
        .proxy
        .map(|(proxy, _)| proxy.resource_version.clone());
    let judged_on = plan.judged_on.as_deref();
    let mut wake_at = None::<Monotonic>;
    plan.actions.retain(|action| {
        let key = action.key();
        let judged_on = judged_on.filter(|_| key.is_the_pods());
        match observed
            .memory
            .requests
            .readiness(&key, judged_on, observed.now)
        {
            Readiness::Now => true,
            Readiness::UnderWay => false,
            Readiness::At(at) => {
                wake_at = Some(wake_at.map_or(at, |other| other.min(at)));
                false
            }
        }
    });
    plan.wake_at = plan.wake_at.into_iter().chain(wake_at).min();
    // What else is written meanwhile makes the version old that annotations are written over.
    let is_written = |rival: &Key| {
        let planned = plan.actions.iter().any(|a| a.key() == *rival);
        planned || observed.memory.requests.is_under_way(rival)
    };
    if [Key::Status, Key::Tolerations].iter().any(is_written) {
        plan.actions.retain(|a| a.key() != Key::Annotations);
    }
    plan
}

fn orphans(observed: &Observed<'_>, plan: &mut Plan) {
    for chaperon in reachable(observed).filter(|c| c.class != Class::Ending) {
        // One without a source's UID may be any plain source's: it is ours only if we knew its parent.
        let is_ours = |parent: &ParentLink| match &parent.cluster_uid {
            Some(cluster) => cluster == observed.cluster,
            None => observed.was == Some((parent.namespace.as_str(), parent.name.as_str())),
        };
        if let Some(parent) = chaperon.parent().filter(is_ours) {
            plan.actions.push(Action::DeleteIfOrphan {
                node: chaperon.node.clone(),
                name: chaperon.name.clone(),
                uid: chaperon.uid.clone(),
                parent,
            });
        }
    }
}

fn release_all(observed: &Observed<'_>, plan: &mut Plan) {
    let living = reachable(observed).filter(|c| c.class != Class::Ending);
    plan.actions.extend(living.map(delete));
}

fn ending(observed: &Observed<'_>, proxy: &ProxyView, plan: &mut Plan) {
    release_all(observed, plan);
    let may_go = match &proxy.record {
        // Who is placed by Pilotage has a record.
        RecordState::Absent if proxy.has_plain_finalizer() || proxy.node_name.is_some() => {
            left::is_left(observed, proxy, plan)
        }
        RecordState::Absent => true,
        RecordState::Damaged(error) => {
            plan.tell = Some(format!(
                "{error}: the pod may have a delegate, so its finalizer stays until the annotation is \
                 restored or the finalizer is removed by hand"
            ));
            false
        }
        RecordState::Is(record) => {
            observed.memory.is_over(record)
                || is_given_up(observed, proxy, &record.node, plan)
                || {
                    if observed.targets.is_reachable(&record.node) {
                        confirm_if_absent(observed, proxy, record, plan);
                        tell_if_stuck(observed, record, plan);
                    } else {
                        plan.tell = Some(format!(
                            "{} can't be reached: the pod goes when its delegate there is known to be gone",
                            record.node
                        ));
                    }
                    false
                }
        }
    };
    if may_go && proxy.deletion_grace_seconds > 0 {
        plan.actions.push(Action::EndGrace);
    } else if may_go && proxy.left_out >= LeftOut::Finalizers {
        plan.tell = Some(format!(
            "the pod may go, but has over {FINALIZERS} finalizers or long ones, which aren't kept: Pilotage's stays \
             until there are fewer"
        ));
    } else if may_go && (proxy.has_finalizer() || proxy.has_plain_finalizer()) {
        plan.actions.push(Action::RemoveFinalizer {
            remaining: proxy
                .finalizers
                .iter()
                .filter(|finalizer| !keys::is_ours(finalizer))
                .cloned()
                .collect(),
            resource_version: proxy.resource_version.clone(),
        });
    }
}

fn placed(observed: &Observed<'_>, proxy: &ProxyView, pod: &Arc<Pod>, plan: &mut Plan) {
    let Some(node) = &proxy.node_name else { return };
    if !proxy.terminal
        && let Some(patch) = hold::endless(&proxy.uid, pod)
    {
        plan.actions.push(Action::Endure { patch });
    }
    let record = proxy.record.record().filter(|record| record.node == *node);
    // A pod that a plain scheduler placed has no record until its chaperon is seen: that is the one in its node's
    // target.
    let is_delegate = |c: &ChaperonView| match record {
        Some(record) => record.names(&c.node, &c.uid),
        None => c.node == *node,
    };
    let is_spared = |c: &ChaperonView| is_delegate(c) || record.is_some_and(|it| it.spares(&c.uid));
    for leftover in reachable(observed).filter(|c| !is_spared(c) && c.class != Class::Ending) {
        let place = (leftover.node.clone(), leftover.uid.clone());
        let since = observed.memory.leftover_since.get(&place).copied();
        let since = since.unwrap_or(observed.now);
        plan.leftovers.insert(place);
        let over_at = since.saturating_add(LEFTOVER_AFTER);
        if observed.now >= over_at {
            plan.actions.push(delete(leftover));
        } else {
            wake(plan, over_at);
        }
    }
    // What has ended needs no other place.
    if !proxy.terminal && is_given_up(observed, proxy, node, plan) {
        replace(node, true, plan);
        return;
    }
    if !observed.targets.is_reachable(node) {
        return;
    }
    match observed.chaperons.iter().find(|c| is_delegate(c)) {
        // Its delegate was evicted there; no other one was made, or none that finds a node.
        Some(chaperon) if matches!(chaperon.class, Class::Missing | Class::VoidRefused(_)) => {
            plan.actions.push(give_up(chaperon));
        }
        // Nothing can be compared with what isn't known.
        Some(_) if proxy.left_out > LeftOut::Nothing => {
            plan.tell = Some(format!(
                "the pod takes too much memory, as one of over 8 MiB or among many heavy ones of its namespace: what \
                 {node} says of its delegate isn't copied, and its own changes don't go there"
            ));
        }
        Some(chaperon) => {
            copy(observed, proxy, pod, chaperon, plan);
            if !proxy.terminal {
                change::carry(pod, chaperon, observed.memory.carried.as_ref(), plan);
            }
        }
        None => match record {
            Some(record) if observed.memory.is_over(record) => replace(node, false, plan),
            Some(record) => confirm_if_absent(observed, proxy, record, plan),
            // Without a record there is no UID whose end could be proved.
            None => {
                plan.tell = Some(format!(
                    "the pod's delegate behind {node} is gone, or was never known; delete the pod to replace it"
                ));
            }
        },
    }
}

/// The pod's controller makes another one.
fn replace(node: &str, given_up: bool, plan: &mut Plan) {
    plan.actions.push(Action::DeleteProxy);
    plan.released = Some(Released {
        node: node.to_owned(),
        given_up,
        placed: true,
    });
}

fn copy(
    observed: &Observed<'_>,
    proxy: &ProxyView,
    pod: &Pod,
    chaperon: &ChaperonView,
    plan: &mut Plan,
) {
    if is_slim(&chaperon.object) {
        plan.tell = Some(format!(
            "what {} says of the pod's delegate takes more than {} KiB of memory: its status and annotations aren't \
             copied",
            chaperon.node,
            limits::CHAPERON_KEPT >> 10
        ));
        return;
    }
    let memory = observed.memory;
    let authored = || memory.authored.get_or_init(|| annotations::authored(pod));
    if let Some(change) = annotations::change(pod, &chaperon.object, authored) {
        let annotations::Change { patch, withheld } = change;
        plan.withheld.extend(withheld);
        let next = memory.annotated_at.map(|at| at.saturating_add(COPY_EVERY));
        match next.filter(|next| observed.now < *next) {
            Some(next) => wake(plan, next),
            None => plan.actions.push(Action::CopyAnnotations { patch }),
        }
    }
    // Only a bound delegate has a status that says something of the pod; and pods don't come back from the dead.
    let readable = matches!(chaperon.class, Class::Bound | Class::Ending);
    if !readable || (proxy.terminal && !is_terminal(chaperon)) {
        return;
    }
    let Some(status::Change { patch, withheld }) = status::change(pod, &chaperon.object) else {
        return;
    };
    plan.withheld
        .extend(withheld.into_iter().map(str::to_owned));
    plan.differs = true;
    // That it is bound the proxy says already by itself; what comes next is usually near.
    let memory = observed.memory;
    let after = if phase(chaperon) == "Pending" {
        Some(memory.differs_since.unwrap_or(observed.now))
    } else {
        memory.copied_at
    };
    let next = after.map_or(observed.now, |at| at.saturating_add(COPY_EVERY));
    if observed.now < next {
        wake(plan, next);
    } else {
        plan.actions.push(Action::CopyStatus { patch });
    }
}

fn phase(chaperon: &ChaperonView) -> &str {
    let status = chaperon.object.status.as_ref();
    let phase = status.and_then(|status| status.0.get("phase"));
    phase.and_then(Value::as_str).unwrap_or_default()
}

fn is_terminal(chaperon: &ChaperonView) -> bool {
    matches!(phase(chaperon), "Succeeded" | "Failed")
}

/// Not in the store, which may be old: only a live read proves that the recorded chaperon is gone.
fn confirm_if_absent(observed: &Observed<'_>, proxy: &ProxyView, record: &Record, plan: &mut Plan) {
    if observed
        .chaperons
        .iter()
        .all(|c| !record.names(&c.node, &c.uid))
    {
        plan.actions.push(Action::ConfirmGone {
            node: record.node.clone(),
            name: proxy.chaperon_name(),
            uid: record.chaperon_uid.clone(),
            plain: record.attempt.is_none(),
        });
    }
}

/// Whose Pilotage is down may keep a pod for long.
fn tell_if_stuck(observed: &Observed<'_>, record: &Record, plan: &mut Plan) {
    let Some(wait) = observed.memory.stuck.of(record) else {
        return;
    };
    if observed.now < wait.over_at() {
        return wake(plan, wait.over_at());
    }
    plan.tell = Some(format!(
        "{} answers, but nobody there says that the delegate is gone: it doesn't end, or Pilotage doesn't run there; \
         the pod goes when that is said, or when its Target has the annotation {}=true",
        record.node,
        pilotage_api::keys::FORGET
    ));
}

fn reachable<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a ChaperonView> {
    observed
        .chaperons
        .iter()
        .filter(|c| observed.targets.is_reachable(&c.node))
}

/// Whether nobody is to wait any more for what may run behind `node`.
fn is_given_up(observed: &Observed<'_>, proxy: &ProxyView, node: &str, plan: &mut Plan) -> bool {
    let record = proxy.record.record().filter(|record| record.node == node);
    let waits = Waits {
        stuck: record.and_then(|it| observed.memory.stuck.of(it)),
        due: due_at(observed, node),
    };
    match worth(proxy, node, observed.targets, waits, observed.now) {
        Worth::Stands => false,
        Worth::Until(at) => {
            wake(plan, at);
            false
        }
        Worth::GivenUp => true,
    }
}

/// By when an ending pod's delegate behind `node` should have ended, if nobody is to wait longer.
fn due_at(observed: &Observed<'_>, node: &str) -> Option<Monotonic> {
    // A manifest takes its time to be read.
    if !observed.targets.is_forgotten(node) {
        return None;
    }
    let (_, pod) = observed.proxy?;
    let grace = *observed.memory.grace.get_or_init(|| own_grace(pod));
    Some(due(observed.memory.ending_since?, grace))
}

fn delete(chaperon: &ChaperonView) -> Action {
    delete_at(chaperon, None)
}

/// Deletes a chaperon unless it has moved on since.
fn give_up(chaperon: &ChaperonView) -> Action {
    delete_at(chaperon, Some(chaperon.resource_version.clone()))
}

fn delete_at(chaperon: &ChaperonView, resource_version: Option<String>) -> Action {
    Action::DeleteChaperon {
        node: chaperon.node.clone(),
        name: chaperon.name.clone(),
        uid: chaperon.uid.clone(),
        plain: chaperon.is_plainly_granted(),
        resource_version,
    }
}

fn wake(plan: &mut Plan, at: Monotonic) {
    plan.wake_at = Some(plan.wake_at.map_or(at, |other| other.min(at)));
}

#[cfg(test)]
mod tests;
