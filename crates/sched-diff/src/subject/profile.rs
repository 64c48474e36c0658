//! A profile of our scheduler as a configuration describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1 as core;
use pilotage_sched::plugins::{
    Binder, DefaultBinder, DefaultPreemption, DynamicResources, FitArgs, ImageLocality,
    InterPodAffinity, InterPodAffinityArgs, NodeAffinity, NodeDeclaredFeatures,
    NodeName as NodeNamePlugin, NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit,
    NodeUnschedulable, PodTopologySpread, PreemptionArgs, PrioritySort, SchedulingGates,
    ScoringResource, ScoringStrategy, ShapePoint, SpreadArgs, SpreadDefaults, StrategyKind,
    TaintToleration,
};
use pilotage_sched::resources::ResourceName;
use pilotage_sched::taints::Comparison;
use pilotage_sched::{NodeName, PodInfo, Profile, ProfileBuilder};
use serde_json::Value;

use super::read;
use crate::configuration::{COMPARES_TAINTS, Configuration, Enabled, PROFILE};
use crate::object;
use crate::side::SideError;

/// Nothing is bound here: the test says itself what became of a pod.
pub(super) struct NoBinder;

impl Binder for NoBinder {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Ok(()) })
    }
}

/// The profile that a configuration describes.
pub(super) fn profile(configuration: &Configuration) -> Result<Arc<Profile>, SideError> {
    let mut builder = ProfileBuilder::new(PROFILE);
    for plugin in &configuration.plugins {
        let arguments = configuration.arguments(&plugin.name);
        let comparison = if configuration.is_on(COMPARES_TAINTS) {
            Comparison::On
        } else {
            Comparison::Off
        };
        let arguments = arguments.unwrap_or(&Value::Null);
        builder = add(builder, plugin, arguments, comparison)?;
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
    comparison: Comparison,
) -> Result<ProfileBuilder, SideError> {
    let weight = plugin.weight.unwrap_or(1);
    Ok(match plugin.name.as_str() {
        "SchedulingGates" => builder.pre_enqueue(Arc::new(SchedulingGates)),
        "PrioritySort" => builder.queue_sort(Arc::new(PrioritySort)),
        "NodeUnschedulable" => builder.filter(Arc::new(NodeUnschedulable)),
        "NodeName" => builder.filter(Arc::new(NodeNamePlugin)),
        "TaintToleration" => {
            let taints = Arc::new(TaintToleration::new(comparison));
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
            let spread = Arc::new(topology_spread(arguments, comparison)?);
            builder
                .pre_filter(spread.clone())
                .filter(spread.clone())
                .pre_score(spread.clone())
                .score(spread, weight)
        }
        "InterPodAffinity" => {
            let pods = Arc::new(inter_pod_affinity(arguments)?);
            builder
                .pre_filter(pods.clone())
                .filter(pods.clone())
                .pre_score(pods.clone())
                .score(pods, weight)
        }
        "DynamicResources" => {
            let dynamic = Arc::new(DynamicResources);
            builder.pre_filter(dynamic.clone()).post_filter(dynamic)
        }
        "DefaultPreemption" => {
            let preemption = Arc::new(DefaultPreemption::new(preemption_args(arguments)?));
            builder
                .pre_enqueue(preemption.clone())
                .post_filter(preemption)
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

fn topology_spread(
    arguments: &Value,
    comparison: Comparison,
) -> Result<PodTopologySpread, SideError> {
    let constraints = object::list(arguments, "/defaultConstraints");
    let constraints = constraints
        .iter()
        .map(|constraint| read::<core::TopologySpreadConstraint>("open", constraint))
        .collect::<Result<Vec<_>, _>>()?;
    let kind = arguments.get("defaultingType").and_then(Value::as_str);
    let made = SpreadDefaults::parse(kind, &constraints)
        .and_then(|defaults| PodTopologySpread::new(SpreadArgs { defaults }, comparison));
    made.map_err(|error| SideError::refused("open", &error))
}

fn inter_pod_affinity(arguments: &Value) -> Result<InterPodAffinity, SideError> {
    let usual = InterPodAffinityArgs::default();
    let weight = arguments.get("hardPodAffinityWeight");
    let ignored = arguments.get("ignorePreferredTermsOfExistingPods");
    let made = InterPodAffinity::new(InterPodAffinityArgs {
        hard_pod_affinity_weight: weight
            .and_then(Value::as_i64)
            .unwrap_or(usual.hard_pod_affinity_weight),
        ignore_preferred_terms_of_existing_pods: ignored
            .and_then(Value::as_bool)
            .unwrap_or(usual.ignore_preferred_terms_of_existing_pods),
    });
    made.map_err(|error| SideError::refused("open", &error))
}

fn preemption_args(arguments: &Value) -> Result<PreemptionArgs, SideError> {
    let number = |field: &str, usual: i32| {
        let given = arguments.get(field).and_then(Value::as_i64);
        given
            .and_then(|given| i32::try_from(given).ok())
            .unwrap_or(usual)
    };
    let (percentage, absolute) = (
        number("minCandidateNodesPercentage", 10),
        number("minCandidateNodesAbsolute", 100),
    );
    PreemptionArgs::new(percentage, absolute).map_err(|error| SideError::refused("open", &error))
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
