//! Our scheduler as one of the two sides. All that the test knows of `pilotage_sched` is here.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{self as core, Node, Pod};
use pilotage_sched::plugins::{
    Binder, DefaultBinder, FitArgs, ImageLocality, NodeAffinity, NodeDeclaredFeatures,
    NodeName as NodeNamePlugin, NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit,
    NodeUnschedulable, PodTopologySpread, PrioritySort, SchedulingGates, ScoringResource,
    ScoringStrategy, ShapePoint, SpreadArgs, SpreadDefaults, StrategyKind, TaintToleration,
};
use pilotage_sched::resources::ResourceName;
use pilotage_sched::taints::Comparison;
use pilotage_sched::{
    Attempt, Coming, Evaluation, Gate, Kind, Moment, NodeName, Object, ObjectKey, PodInfo, PodUid,
    Profile, ProfileBuilder, Rejection, Scheduler, SchedulerConfig, SeededTies,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::configuration::{Configuration, Enabled, PROFILE};
use crate::object;
use crate::side::{Side, SideError};
use crate::verdict::{Refusal, Verdict};

/// The gate of a nominated pod until its turn comes.
const HELD: &str = "example.com/held";

/// What became of a pod that our scheduler tried to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has this node.
    Placed(String),
    /// It has none, for this reason.
    Failed(String),
    /// It isn't tried at all.
    Gated(Refusal),
}

/// Our scheduler.
#[derive(Debug, Default)]
pub struct Subject {
    scheduler: Option<Scheduler>,
    // Pods that were nominated, with their nodes.
    nominated: BTreeMap<String, String>,
    nodes: BTreeMap<String, Node>,
}

/// Nothing is bound here: the test says itself what became of a pod.
struct NoBinder;

impl Binder for NoBinder {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Ok(()) })
    }
}

impl Subject {
    fn scheduler(&mut self) -> Result<&mut Scheduler, SideError> {
        let closed = || SideError::refused("open", &"no world is open");
        self.scheduler.as_mut().ok_or_else(closed)
    }

    /// Tries to place the pod, as a driver would: ties are decided by the seed.
    pub fn schedule(&mut self, pod: &Value, seed: u64) -> Result<Outcome, SideError> {
        let mut pod = pod.clone();
        if let Some(node) = self.nominated.remove(&object::key(&pod)) {
            // It stays nominated: what the watch shows is the same pod without its gate.
            pod["status"]["nominatedNodeName"] = node.into();
        }
        let pod = read::<Pod>("schedule", &pod)?;
        let uid = PodUid::from(pod.metadata.uid.clone().unwrap_or_default());
        let now = Moment::ZERO;
        let scheduler = self.scheduler()?;
        let refused = |text: String| SideError::refused("schedule", &text);
        scheduler
            .pod_applied(Arc::new(pod), now)
            .map_err(|error| refused(error.to_string()))?;
        let outcome = match scheduler.schedule_next(now, &mut SeededTies::new(seed)) {
            Some(Attempt::Assumed(assumed)) if *assumed.uid() == uid => {
                let node = assumed.node().to_string();
                scheduler
                    .start_binding(&uid)
                    .map_err(|status| refused(status.to_string()))?;
                scheduler.bound(*assumed, now);
                return Ok(Outcome::Placed(node));
            }
            Some(Attempt::Failed(failure)) if failure.pod.uid == uid => {
                Outcome::Failed(failure.cause.to_string())
            }
            None => match scheduler.gate(&uid) {
                Some(gate) => Outcome::Gated(gated(gate)),
                None => return Err(refused("the pod isn't in the queue".to_owned())),
            },
            Some(other) => return Err(refused(format!("it tried {}", other.pod().key))),
        };
        // It would come back with the next event, and be tried in place of the next pod.
        scheduler.pod_deleted(&uid, now);
        Ok(outcome)
    }

    /// The oracle is told of all nodes, too, when one changes: who is the only one to have an image says its size anew.
    fn tell_again(&mut self) -> Result<(), SideError> {
        let closed = || SideError::refused("apply", &"no world is open");
        let scheduler = self.scheduler.as_mut().ok_or_else(closed)?;
        for node in self.nodes.values() {
            let told = scheduler.node_applied(node, Moment::ZERO);
            told.map_err(|error| SideError::refused("apply", &error))?;
        }
        Ok(())
    }

    fn pod_applied(&mut self, request: &'static str, pod: &Value) -> Result<(), SideError> {
        let pod = read::<Pod>(request, pod)?;
        self.scheduler()?
            .pod_applied(Arc::new(pod), Moment::ZERO)
            .map_err(|error| SideError::refused(request, &error))?;
        Ok(())
    }
}

impl Side for Subject {
    fn open(&mut self, configuration: &Configuration, objects: &[Value]) -> Result<(), SideError> {
        let config = SchedulerConfig {
            percentage_of_nodes_to_score: 100,
            ..SchedulerConfig::default()
        };
        let profile = profile(configuration)?;
        let scheduler = Scheduler::new([profile], config)
            .map_err(|error| SideError::refused("open", &error))?;
        self.scheduler = Some(scheduler);
        self.nominated.clear();
        self.nodes.clear();
        // As an API server lists them; the first node that has an image says its size.
        let mut listed: Vec<_> = objects.iter().collect();
        listed.sort_by_key(|object| object::key(object));
        listed.into_iter().try_for_each(|object| self.apply(object))
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        match object::kind(object) {
            "Node" => {
                let node = read::<Node>("apply", object)?;
                self.scheduler()?
                    .node_applied(&node, Moment::ZERO)
                    .map_err(|error| SideError::refused("apply", &error))?;
                self.nodes.insert(object::name(object).to_owned(), node);
                self.tell_again()
            }
            "Pod" => self.pod_applied("apply", object),
            kind => match other(kind, object)? {
                Some(other) => {
                    let applied = self.scheduler()?.apply(other, Moment::ZERO);
                    applied.map_err(|error| SideError::refused("apply", &error))?;
                    Ok(())
                }
                // No plugin reads it yet.
                None => Ok(()),
            },
        }
    }

    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        let scheduler = self.scheduler()?;
        match object::kind(object) {
            "Node" => {
                let name = NodeName::from(object::name(object));
                scheduler.node_deleted(&name, Moment::ZERO);
                self.nodes.remove(object::name(object));
                self.tell_again()?;
            }
            "Pod" => {
                let uid = PodUid::from(object::text(object, "/metadata/uid"));
                scheduler.pod_deleted(&uid, Moment::ZERO);
                self.nominated.remove(&object::key(object));
            }
            kind => {
                if let Some(kind) = READ.into_iter().find(|read| read.name() == kind) {
                    let key = ObjectKey {
                        namespace: object::text(object, "/metadata/namespace").into(),
                        name: object::name(object).into(),
                    };
                    scheduler.remove(kind, &key, Moment::ZERO);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, pod: &Value) -> Result<Verdict, SideError> {
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

    fn assume(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.nominated.remove(&object::key(pod));
        self.pod_applied("assume", &object::on_node(pod, node))
    }

    fn nominate(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        let mut nominated = pod.clone();
        nominated["spec"]["schedulingGates"] = serde_json::json!([{"name": HELD}]);
        nominated["status"]["nominatedNodeName"] = node.into();
        self.pod_applied("nominate", &nominated)?;
        self.nominated.insert(object::key(pod), node.to_owned());
        Ok(())
    }
}

/// The kinds beside nodes and pods that plugins read.
const READ: [Kind; 4] = [
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
];

/// An object of one of these kinds.
fn other(kind: &str, object: &Value) -> Result<Option<Object>, SideError> {
    let kind = READ.into_iter().find(|read| read.name() == kind);
    Ok(match kind {
        Some(Kind::Service) => Some(Object::Service(Arc::new(read("apply", object)?))),
        Some(Kind::ReplicationController) => Some(Object::ReplicationController(Arc::new(read(
            "apply", object,
        )?))),
        Some(Kind::ReplicaSet) => Some(Object::ReplicaSet(Arc::new(read("apply", object)?))),
        Some(Kind::StatefulSet) => Some(Object::StatefulSet(Arc::new(read("apply", object)?))),
        _ => None,
    })
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

/// The profile that a configuration describes.
fn profile(configuration: &Configuration) -> Result<Arc<Profile>, SideError> {
    let mut builder = ProfileBuilder::new(PROFILE);
    for plugin in &configuration.plugins {
        let arguments = configuration.arguments(&plugin.name);
        builder = add(builder, plugin, arguments.unwrap_or(&Value::Null))?;
    }
    builder
        .build()
        .map_err(|error| SideError::refused("open", &error))
}

/// Adds a plugin at all its points.
fn add(
    builder: ProfileBuilder,
    plugin: &Enabled,
    arguments: &Value,
) -> Result<ProfileBuilder, SideError> {
    let weight = plugin.weight.unwrap_or(1);
    Ok(match plugin.name.as_str() {
        "SchedulingGates" => builder.pre_enqueue(Arc::new(SchedulingGates)),
        "PrioritySort" => builder.queue_sort(Arc::new(PrioritySort)),
        "NodeUnschedulable" => builder.filter(Arc::new(NodeUnschedulable)),
        "NodeName" => builder.filter(Arc::new(NodeNamePlugin)),
        "TaintToleration" => {
            let taints = Arc::new(TaintToleration::default());
            builder.filter(taints.clone()).score(taints, weight)
        }
        "NodeAffinity" => {
            let affinity = Arc::new(node_affinity(arguments)?);
            builder
                .pre_filter(affinity.clone())
                .filter(affinity.clone())
                .pre_score(affinity.clone())
                .score(affinity, weight)
        }
        "NodeResourcesFit" => {
            let fit = Arc::new(NodeResourcesFit::new(fit_args(arguments)?));
            builder.filter(fit.clone()).score(fit, weight)
        }
        "PodTopologySpread" => {
            let spread = Arc::new(topology_spread(arguments)?);
            builder
                .pre_filter(spread.clone())
                .filter(spread.clone())
                .pre_score(spread.clone())
                .score(spread, weight)
        }
        "NodePorts" => {
            let ports = Arc::new(NodePorts);
            builder.pre_filter(ports.clone()).filter(ports)
        }
        "NodeDeclaredFeatures" => {
            let features = Arc::new(NodeDeclaredFeatures);
            builder.pre_filter(features.clone()).filter(features)
        }
        "NodeResourcesBalancedAllocation" => {
            let balance = Arc::new(balanced_allocation(arguments)?);
            builder.pre_score(balance.clone()).score(balance, weight)
        }
        "ImageLocality" => {
            let images = Arc::new(ImageLocality);
            builder.pre_score(images.clone()).score(images, weight)
        }
        "DefaultBinder" => builder.bind(Arc::new(DefaultBinder::new(Arc::new(NoBinder)))),
        unknown => return Err(SideError::refused("open", &format!("no plugin {unknown}"))),
    })
}

fn node_affinity(arguments: &Value) -> Result<NodeAffinity, SideError> {
    match arguments.get("addedAffinity") {
        None | Some(Value::Null) => Ok(NodeAffinity::default()),
        Some(added) => {
            let added = read::<core::NodeAffinity>("open", added)?;
            NodeAffinity::with_added(&added).map_err(|error| SideError::refused("open", &error))
        }
    }
}

fn topology_spread(arguments: &Value) -> Result<PodTopologySpread, SideError> {
    let constraints = object::list(arguments, "/defaultConstraints");
    let constraints = constraints
        .iter()
        .map(|constraint| read::<core::TopologySpreadConstraint>("open", constraint))
        .collect::<Result<Vec<_>, _>>()?;
    let kind = arguments.get("defaultingType").and_then(Value::as_str);
    let made = SpreadDefaults::parse(kind, &constraints)
        .and_then(|defaults| PodTopologySpread::new(SpreadArgs { defaults }, Comparison::Off));
    made.map_err(|error| SideError::refused("open", &error))
}

fn balanced_allocation(arguments: &Value) -> Result<NodeResourcesBalancedAllocation, SideError> {
    let named = object::list(arguments, "/resources").iter();
    let named = named.map(|resource| ResourceName::parse(object::text(resource, "/name")));
    let named = named.collect::<Vec<_>>();
    if named.is_empty() {
        return Ok(NodeResourcesBalancedAllocation::default());
    }
    let made = NodeResourcesBalancedAllocation::new(named);
    made.map_err(|error| SideError::refused("open", &error))
}

fn fit_args(arguments: &Value) -> Result<FitArgs, SideError> {
    let words = |field: &str| -> BTreeSet<String> {
        let words = object::list(arguments, field).iter();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Ok(FitArgs {
        ignored_resources: words("/ignoredResources"),
        ignored_resource_groups: words("/ignoredResourceGroups"),
        scoring_strategy: match arguments.get("scoringStrategy") {
            None | Some(Value::Null) => ScoringStrategy::default(),
            Some(strategy) => scoring_strategy(strategy)?,
        },
    })
}

fn scoring_strategy(strategy: &Value) -> Result<ScoringStrategy, SideError> {
    let number = |value: &Value, field: &str| value[field].as_i64().unwrap_or(0);
    let kind = match object::text(strategy, "/type") {
        "MostAllocated" => StrategyKind::MostAllocated,
        "RequestedToCapacityRatio" => {
            let points = object::list(strategy, "/requestedToCapacityRatio/shape").iter();
            let point = |point: &Value| ShapePoint {
                utilization: number(point, "utilization"),
                score: number(point, "score"),
            };
            StrategyKind::RequestedToCapacityRatio(points.map(point).collect())
        }
        _ => StrategyKind::LeastAllocated,
    };
    let resources = object::list(strategy, "/resources").iter();
    let resource = |resource: &Value| ScoringResource {
        name: ResourceName::parse(object::text(resource, "/name")),
        weight: number(resource, "weight"),
    };
    let mut resources: Vec<_> = resources.map(resource).collect();
    if resources.is_empty() {
        // As kube-scheduler's own defaults do.
        let names = [ResourceName::Cpu, ResourceName::Memory];
        resources.extend(names.map(|name| ScoringResource { name, weight: 1 }));
    }
    ScoringStrategy::new(kind, resources).map_err(|error| SideError::refused("open", &error))
}

/// The plugins of our stock profile by name, with their weights if they score.
pub fn stock() -> Result<BTreeMap<String, Option<i64>>, SideError> {
    let builder = pilotage_sched::plugins::stock_profile(PROFILE, Arc::new(NoBinder));
    let profile = builder
        .build()
        .map_err(|error| SideError::refused("open", &error))?;
    let mut found = BTreeMap::new();
    for plugin in profile.filters() {
        found.insert(plugin.name().to_owned(), None);
    }
    for score in profile.scores() {
        found.insert(score.plugin.name().to_owned(), Some(score.weight));
    }
    // It guards against malformed objects, and has no counterpart.
    found.remove("WellFormed");
    Ok(found)
}

#[cfg(test)]
mod tests;
