//! Our scheduler as one of the two sides. All that the test knows of `pilotage_sched` is here and below.

#[cfg(test)]
pub(crate) mod deaf;
mod foresight;
mod profile;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1::{self as core, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pilotage_sched::{
    Attempt, Coming, Evaluation, Failure, Gate, Kind, Moment, NodeName, Object, ObjectKey, PodInfo,
    PodUid, Profile, QueueConfig, Rejection, Room, Scheduler, SchedulerConfig, SeededTies, Stored,
    TieBreaker,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::profile::profile;
pub use self::profile::stock;
pub use self::turns::Waiting;
use crate::configuration::{Configuration, PROFILE};
use crate::object;
use crate::side::{Side, SideError};
use crate::verdict::{Refusal, Verdict};

/// The gate of a nominated pod until its turn comes.
pub(crate) const HELD: &str = "example.com/held";

/// How long a pod waits for an event before it is tried without one: longer than any case takes, since events alone are
/// to bring it back.
const NEVER: Duration = Duration::from_secs(1 << 40);

/// Makes the profile that a configuration describes.
type Build = fn(&Configuration) -> Result<Arc<Profile>, SideError>;

/// What became of a pod that our scheduler tried to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has this node.
    Placed(String),
    /// It has none.
    Failed(Unplaced),
    /// It isn't tried at all.
    Gated(Refusal),
}

/// What is said of a pod that has no node, and what preemption does for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unplaced {
    /// What users read.
    pub message: String,
    /// Where it is expected from now on.
    pub nominated: Option<String>,
    /// Who is evicted, by namespace and name.
    pub victims: Vec<String>,
    /// Who isn't expected there any more.
    pub cleared: Vec<String>,
}

/// Our scheduler.
#[derive(Debug)]
pub struct Subject {
    build: Build,
    scheduler: Option<Scheduler>,
    now: Moment,
    // Pods that were nominated, with their nodes, by namespace and name.
    nominated: BTreeMap<String, (Value, String)>,
    nodes: BTreeMap<String, Node>,
    // How preemption is configured; `None` without it.
    preemption: Option<Value>,
}

impl Default for Subject {
    fn default() -> Self {
        Self::built_by(profile)
    }
}

impl Subject {
    fn built_by(build: Build) -> Self {
        Self {
            build,
            scheduler: None,
            now: Moment::ZERO,
            nominated: BTreeMap::new(),
            nodes: BTreeMap::new(),
            preemption: None,
        }
    }

    fn scheduler(&mut self) -> Result<&mut Scheduler, SideError> {
        let closed = || SideError::refused("open", &"no world is open");
        self.scheduler.as_mut().ok_or_else(closed)
    }

    /// Tries to place the pod, as a driver would: ties are decided by the seed.
    ///
    /// A pod that stays without a node has left the queue then, or it would come back with the next event, in place of
    /// the next pod; victims are still there, and have to be taken away like all pods.
    pub fn schedule(&mut self, pod: &Value, seed: u64) -> Result<Outcome, SideError> {
        self.attempt(pod, &mut SeededTies::new(seed))
    }

    fn attempt(&mut self, pod: &Value, ties: &mut dyn TieBreaker) -> Result<Outcome, SideError> {
        let mut pod = pod.clone();
        if let Some((held, node)) = self.nominated.remove(&object::key(&pod)) {
            if !object::list(&pod, "/spec/schedulingGates").is_empty() {
                // Other gates instead of that one are no reason to be asked again.
                self.delete(&held)?;
            }
            // It stays nominated: what the watch shows is the same pod without its gate.
            pod["status"]["nominatedNodeName"] = node.into();
        }
        let pod = read::<Pod>("schedule", &pod)?;
        let uid = PodUid::from(pod.metadata.uid.clone().unwrap_or_default());
        let now = self.now;
        let scheduler = self.scheduler()?;
        let refused = |text: String| SideError::refused("schedule", &text);
        scheduler
            .pod_applied(Arc::new(pod), now)
            .map_err(|error| refused(error.to_string()))?;
        scheduler.take_orders();
        let outcome = match scheduler.schedule_next(now, ties) {
            Some(Attempt::Assumed(assumed)) if *assumed.uid() == uid => {
                let node = assumed.node().to_string();
                scheduler
                    .start_binding(&uid)
                    .map_err(|status| refused(status.to_string()))?;
                scheduler.bound(*assumed, now);
                return Ok(Outcome::Placed(node));
            }
            Some(Attempt::Failed(failure)) if failure.pod.uid == uid => {
                Outcome::Failed(unplaced(scheduler, &failure, now))
            }
            None => match scheduler.gate(&uid) {
                Some(gate) => Outcome::Gated(gated(gate)),
                None => return Err(refused("the pod isn't in the queue".to_owned())),
            },
            Some(other) => return Err(refused(format!("it tried {}", other.pod().key))),
        };
        scheduler.pod_deleted(&uid, now);
        Ok(outcome)
    }

    /// What plugins say of a pod now, without preemption. Nothing is changed by it.
    pub fn judge(&mut self, pod: &Value) -> Result<Verdict, SideError> {
        let pod = read::<Pod>("evaluate", pod)?;
        let pod = PodInfo::parse(Arc::new(pod))
            .map_err(|error| SideError::refused("evaluate", &error))?;
        let scheduler = self.scheduler()?;
        let is_empty = scheduler.nodes().is_empty();
        Ok(
            match scheduler.evaluate(PROFILE, &pod, Arc::new(Coming::default())) {
                Ok(_) if is_empty => Verdict {
                    message: Some("no nodes available to schedule pods".to_owned()),
                    ..Verdict::default()
                },
                Ok(evaluation) => verdict(&evaluation),
                Err(error) => Verdict::failed(error.to_string()),
            },
        )
    }

    /// The oracle is told of all nodes, too, when one changes: who is the only one to have an image says its size anew.
    fn tell_again(&mut self) -> Result<(), SideError> {
        let closed = || SideError::refused("apply", &"no world is open");
        let scheduler = self.scheduler.as_mut().ok_or_else(closed)?;
        for node in self.nodes.values() {
            let told = scheduler.node_applied(node, self.now);
            told.map_err(|error| SideError::refused("apply", &error))?;
        }
        Ok(())
    }

    fn pod_applied(&mut self, request: &'static str, pod: &Value) -> Result<(), SideError> {
        let pod = read::<Pod>(request, pod)?;
        let now = self.now;
        self.scheduler()?
            .pod_applied(Arc::new(pod), now)
            .map_err(|error| SideError::refused(request, &error))?;
        Ok(())
    }
}

impl Side for Subject {
    fn open(&mut self, configuration: &Configuration, objects: &[Value]) -> Result<(), SideError> {
        let config = SchedulerConfig {
            percentage_of_nodes_to_score: 100,
            queue: QueueConfig {
                max_unschedulable: NEVER,
                ..QueueConfig::default()
            },
        };
        let profile = (self.build)(configuration)?;
        let scheduler = Scheduler::new([profile], config)
            .map_err(|error| SideError::refused("open", &error))?;
        self.scheduler = Some(scheduler);
        self.now = Moment::ZERO;
        self.nominated.clear();
        self.nodes.clear();
        self.preemption = configuration.preemption().cloned();
        // As an API server lists them; the first node that has an image says its size.
        let mut listed: Vec<_> = objects.iter().collect();
        listed.sort_by_key(|object| object::key(object));
        listed.into_iter().try_for_each(|object| self.apply(object))
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        let now = self.now;
        match object::kind(object) {
            "Node" => {
                let node = read::<Node>("apply", object)?;
                self.scheduler()?
                    .node_applied(&node, now)
                    .map_err(|error| SideError::refused("apply", &error))?;
                self.nodes.insert(object::name(object).to_owned(), node);
                self.tell_again()
            }
            "Pod" => self.pod_applied("apply", object),
            kind => match other(kind, object)? {
                Some(other) => {
                    let applied = self.scheduler()?.apply(other, now);
                    applied.map_err(|error| SideError::refused("apply", &error))?;
                    Ok(())
                }
                // No plugin reads it yet.
                None => Ok(()),
            },
        }
    }

    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        let now = self.now;
        let scheduler = self.scheduler()?;
        match object::kind(object) {
            "Node" => {
                let name = NodeName::from(object::name(object));
                scheduler.node_deleted(&name, now);
                self.nodes.remove(object::name(object));
                self.tell_again()?;
            }
            "Pod" => {
                let uid = PodUid::from(object::text(object, "/metadata/uid"));
                scheduler.pod_deleted(&uid, now);
                self.nominated.remove(&object::key(object));
            }
            kind => {
                if let Some(kind) = READ.into_iter().find(|read| read.name() == kind) {
                    let key = ObjectKey {
                        namespace: object::text(object, "/metadata/namespace").into(),
                        name: object::name(object).into(),
                    };
                    scheduler.remove(kind, &key, now);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, pod: &Value) -> Result<Verdict, SideError> {
        let mut verdict = self.judge(pod)?;
        self.foresee(pod, &mut verdict)?;
        Ok(verdict)
    }

    fn assume(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.nominated.remove(&object::key(pod));
        self.pod_applied("assume", &object::on_node(pod, node))
    }

    fn nominate(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        let mut nominated = pod.clone();
        nominated["spec"]["schedulingGates"] = serde_json::json!([{"name": HELD}]);
        nominated["status"]["nominatedNodeName"] = node.into();
        self.pod_applied("nominate", &nominated)?;
        let nomination = (pod.clone(), node.to_owned());
        self.nominated.insert(object::key(pod), nomination);
        Ok(())
    }
}

/// The kinds beside nodes and pods that plugins read.
const READ: [Kind; 6] = [
    Kind::Namespace,
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::PodDisruptionBudget,
];

/// An object of one of these kinds.
fn other(kind: &str, object: &Value) -> Result<Option<Object>, SideError> {
    let kind = READ.into_iter().find(|read| read.name() == kind);
    Ok(match kind {
        Some(Kind::Namespace) => Some(stored::<core::Namespace>(object)?),
        Some(Kind::Service) => Some(stored::<core::Service>(object)?),
        Some(Kind::ReplicationController) => Some(stored::<core::ReplicationController>(object)?),
        Some(Kind::ReplicaSet) => Some(stored::<apps::ReplicaSet>(object)?),
        Some(Kind::StatefulSet) => Some(stored::<apps::StatefulSet>(object)?),
        Some(Kind::PodDisruptionBudget) => Some(stored::<PodDisruptionBudget>(object)?),
        _ => None,
    })
}

fn stored<T: DeserializeOwned + Stored>(object: &Value) -> Result<Object, SideError> {
    Ok(Arc::new(read::<T>("apply", object)?).object())
}

/// What became of a pod without a node. Whoever has to go for it counts as evicted.
fn unplaced(scheduler: &mut Scheduler, failure: &Failure, now: Moment) -> Unplaced {
    let mut told = Unplaced {
        message: failure.cause.to_string(),
        nominated: match &failure.room {
            Room::Awaited(node) => Some(node.to_string()),
            Room::Nowhere | Room::Offered(_) => None,
        },
        ..Unplaced::default()
    };
    loop {
        let orders = scheduler.take_orders();
        if orders.is_empty() {
            break;
        }
        let cleared = orders.cleared.iter().map(|pod| pod.key.to_string());
        told.cleared.extend(cleared);
        let preempted = orders.preempted.iter().map(|it| it.pod.key.to_string());
        told.victims.extend(preempted);
        for order in orders.evictions {
            told.victims.push(order.preempted.pod.key.to_string());
            scheduler.evicted(&order.id, true, now);
        }
    }
    told.victims.sort();
    told.cleared.sort();
    told
}

fn gated(gate: &Gate) -> Refusal {
    Refusal {
        plugin: gate.plugin.to_owned(),
        code: gate.status.code().as_str().to_owned(),
        reasons: vec![gate.status.to_string()],
    }
}

fn read<T: DeserializeOwned>(request: &'static str, object: &Value) -> Result<T, SideError> {
    T::deserialize(object).map_err(|error| SideError::refused(request, &error))
}

/// Our words in the oracle's form.
fn verdict(evaluation: &Evaluation) -> Verdict {
    let mut verdict = Verdict::default();
    let diagnosis = &evaluation.diagnosis;
    let statuses = &diagnosis.statuses;
    let listed =
        |(node, rejection): (&NodeName, &Rejection)| (node.to_string(), refusal(rejection));
    verdict.filter = statuses.rejected().map(listed).collect();
    for node in &evaluation.feasible {
        let parts = node.parts.iter();
        let parts = parts.map(|part| (part.plugin.to_owned(), part.weighted));
        verdict
            .scores
            .insert(node.node.to_string(), parts.collect());
    }
    verdict.sum();
    let narrowed = match (&diagnosis.pre_filter, statuses.others()) {
        (Some(_), others) => {
            verdict.pre_filter = others.map(refusal);
            false
        }
        (None, others) => others.is_some(),
    };
    if narrowed {
        let tried = verdict.filter.keys().chain(verdict.scores.keys());
        verdict.nodes = Some(
            tried
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        );
    }
    if evaluation.feasible.is_empty() {
        verdict.message = Some(diagnosis.to_string());
    }
    for node in &evaluation.feasible {
        // Its own sum counts, should it differ from that of the parts.
        verdict.totals.insert(node.node.to_string(), node.total);
    }
    verdict
}

fn refusal(rejection: &Rejection) -> Refusal {
    Refusal {
        plugin: rejection.plugin().unwrap_or_default().to_owned(),
        code: rejection.kind().code().as_str().to_owned(),
        reasons: rejection
            .reasons()
            .map(|reason| reason.as_str().to_owned())
            .collect(),
    }
}

#[cfg(test)]
mod tests;
