//! The plugins, one a file, each with its reasons, its events and its hints, as in kube-scheduler 1.36.
//! Knows nothing of the profiles that use them, except for the stock one.

mod balanced_allocation;
mod by_set;
mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod priority_sort;
mod resource_load;
mod rule_limit;
mod scheduling_gates;
mod scoring_strategy;
mod taint_toleration;
mod unknown_constraints;
mod well_formed;

use std::sync::Arc;

pub use self::balanced_allocation::{ListedTwice, NodeResourcesBalancedAllocation};
pub(crate) use self::by_set::BySet;
pub use self::default_binder::{Binder, DefaultBinder};
pub use self::default_preemption::{
    DEFAULT_PREEMPTION, DefaultPreemption, EvictionLeave, Leave, PreemptionArgs,
    PreemptionArgsError, PreemptionCost,
};
pub use self::dynamic_resources::{DYNAMIC_RESOURCES, DynamicResources};
pub use self::image_locality::ImageLocality;
pub use self::inter_pod_affinity::{
    HardPodAffinityWeightError, INTER_POD_AFFINITY, InterPodAffinity, InterPodAffinityArgs,
};
pub use self::node_affinity::NodeAffinity;
pub use self::node_declared_features::NodeDeclaredFeatures;
pub use self::node_name::NodeName;
pub use self::node_ports::NodePorts;
pub use self::node_resources_fit::{FitArgs, FitReason, NodeResourcesFit};
pub use self::node_unschedulable::NodeUnschedulable;
pub use self::pod_topology_spread::{
    DefaultConstraint, POD_TOPOLOGY_SPREAD, PodTopologySpread, SpreadArgs, SpreadArgsError,
    SpreadDefaults,
};
pub use self::priority_sort::PrioritySort;
pub(crate) use self::rule_limit::too_many;
pub use self::rule_limit::{FREE_TOLERATIONS, MOST_RULES, RULE_LIMIT, RuleLimit, VALUES_A_RULE};
pub use self::scheduling_gates::SchedulingGates;
pub use self::scoring_strategy::{
    ScoringResource, ScoringStrategy, ShapePoint, StrategyError, StrategyKind,
};
pub use self::taint_toleration::TaintToleration;
pub use self::unknown_constraints::{UNKNOWN_CONSTRAINTS, UnknownConstraints};
pub use self::well_formed::{WELL_FORMED, WellFormed};
use crate::profile::ProfileBuilder;

/// A profile with the stock plugins, in kube-scheduler's order and with its weights. Add to it, or
/// [disable](ProfileBuilder::disable) some of it. It evicts pods, unless it is told [not
/// to](ProfileBuilder::evicting_nobody).
pub fn stock_profile(scheduler_name: &str, binder: Arc<dyn Binder>) -> ProfileBuilder {
    stock_profile_with(scheduler_name, binder, DefaultPreemption::default())
}

/// The same with a preemption of one's own.
pub fn stock_profile_with(
    scheduler_name: &str,
    binder: Arc<dyn Binder>,
    preemption: DefaultPreemption,
) -> ProfileBuilder {
    let taints = Arc::new(TaintToleration::default());
    let affinity = Arc::new(NodeAffinity::default());
    let ports = Arc::new(NodePorts);
    let fit = Arc::new(NodeResourcesFit::default());
    let images = Arc::new(ImageLocality);
    let balance = Arc::new(NodeResourcesBalancedAllocation::default());
    let dynamic = Arc::new(DynamicResources);
    let preemption = Arc::new(preemption);
    let features = Arc::new(NodeDeclaredFeatures);
    let profile = ProfileBuilder::new(scheduler_name)
        .pre_enqueue(Arc::new(SchedulingGates))
        .queue_sort(Arc::new(PrioritySort))
        .filter(Arc::new(NodeUnschedulable))
        .filter(Arc::new(NodeName))
        .filter(taints.clone())
        .score(taints, 3)
        .pre_filter(affinity.clone())
        .filter(affinity.clone())
        .pre_score(affinity.clone())
        .score(affinity, 2)
        .pre_filter(ports.clone())
        .filter(ports)
        .filter(fit.clone())
        .score(fit, 1);
    looking_at_pods(profile, Arc::new(PodTopologySpread::default()))
        .pre_filter(dynamic.clone())
        .post_filter(dynamic)
        .pre_enqueue(preemption.clone())
        .post_filter(preemption)
        .pre_score(balance.clone())
        .score(balance, 1)
        .pre_score(images.clone())
        .score(images, 1)
        .pre_filter(features.clone())
        .filter(features)
        .bind(Arc::new(DefaultBinder::new(binder)))
}

/// Adds the plugins that look at other pods, at each of their points and with their stock weights.
pub fn looking_at_pods(profile: ProfileBuilder, spread: Arc<PodTopologySpread>) -> ProfileBuilder {
    let pods = Arc::new(InterPodAffinity::default());
    profile
        .pre_filter(spread.clone())
        .filter(spread.clone())
        .pre_score(spread.clone())
        .score(spread, 2)
        .pre_filter(pods.clone())
        .filter(pods.clone())
        .pre_score(pods.clone())
        .score(pods, 2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::stock_profile;
    use crate::event::{Actions, Event, EventResource};
    use crate::objects::Kind;
    use crate::test_objects::{NeverBinds, PodBuilder, node, pod};

    #[test]
    fn order_and_weights_are_the_stock_ones() {
        let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
        let scores = (profile.scores().iter()).map(|score| (score.plugin.name(), score.weight));
        let scores: Vec<_> = scores.collect();
        assert_eq!(
            scores,
            [
                ("TaintToleration", 3),
                ("NodeAffinity", 2),
                ("NodeResourcesFit", 1),
                ("PodTopologySpread", 2),
                ("InterPodAffinity", 2),
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
            ]
        );
        let filters: Vec<_> = (profile.filters().iter()).map(|it| it.name()).collect();
        assert_eq!(
            filters,
            [
                "WellFormed",
                "NodeUnschedulable",
                "NodeName",
                "TaintToleration",
                "NodeAffinity",
                "NodePorts",
                "NodeResourcesFit",
                "PodTopologySpread",
                "InterPodAffinity",
                "NodeDeclaredFeatures",
            ]
        );
        let pre_filters: Vec<_> = (profile.pre_filters().iter()).map(|it| it.name()).collect();
        assert_eq!(
            pre_filters,
            [
                "WellFormed",
                "NodeAffinity",
                "NodePorts",
                "PodTopologySpread",
                "InterPodAffinity",
                "DynamicResources",
                "NodeDeclaredFeatures"
            ]
        );
        let post_filters: Vec<_> = (profile.post_filters().iter())
            .map(|it| it.name())
            .collect();
        assert_eq!(post_filters, ["DynamicResources", "DefaultPreemption"]);
        let gates: Vec<_> = (profile.pre_enqueues().iter())
            .map(|it| it.name())
            .collect();
        assert_eq!(gates, ["SchedulingGates", "DefaultPreemption"]);
        assert!(profile.wants().contains(&Kind::PodDisruptionBudget));
        let pre_scores: Vec<_> = (profile.pre_scores().iter()).map(|it| it.name()).collect();
        assert_eq!(
            pre_scores,
            [
                "NodeAffinity",
                "PodTopologySpread",
                "InterPodAffinity",
                "NodeResourcesBalancedAllocation",
                "ImageLocality"
            ]
        );
    }

    #[test]
    fn a_profile_that_evicts_nobody_says_nothing_of_it() {
        let profile = stock_profile("test", Arc::new(NeverBinds)).evicting_nobody();
        let profile = profile.build().unwrap();
        assert!(profile.post_filters().is_empty());
        assert!(!profile.wants().contains(&crate::Kind::PodDisruptionBudget));
        assert_eq!(profile.pre_enqueues().len(), 1);
    }

    #[test]
    fn whose_hints_hold_for_all_pods_with_equal_needs() {
        let profile =
            stock_profile("test", Arc::new(NeverBinds)).refusing_unknown_constraints("us");
        let profile = profile.build().unwrap();
        let plugins = profile.enqueue_extensions().iter();
        let (by_class, each): (Vec<_>, Vec<_>) =
            plugins.partition(|it| it.hint_reads() == crate::HintReads::Needs);
        let names = |plugins: &[&Arc<dyn crate::EnqueueExtensions>]| {
            let names = plugins.iter().map(|plugin| plugin.name());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            names(&each),
            [
                "InterPodAffinity",
                "NodeName",
                "SchedulingGates",
                "UnknownConstraints"
            ]
        );
        assert_eq!(by_class.len(), 10, "{:?}", names(&by_class));

        let update = |action, new| Event::node(action, Some(node("n").object()), Some(new));
        let taint = || node("n").taint("t", "", "NoSchedule").object();
        let on = |cpu: &str| {
            Some(
                pod("other")
                    .on("n")
                    .request("cpu", cpu)
                    .host_port("", "TCP", 80)
                    .info(),
            )
        };
        let scaled = Actions::UPDATE_POD_SCALE_DOWN;
        let events = [
            Event::node(
                Actions::ADD,
                None,
                Some(node("n").allocatable("cpu", "4").object()),
            ),
            Event::node(Actions::ADD, None, Some(taint())),
            update(
                Actions::UPDATE_NODE_ALLOCATABLE,
                node("n").allocatable("cpu", "4").object(),
            ),
            update(Actions::UPDATE_NODE_TAINT, taint()),
            update(
                Actions::UPDATE_NODE_LABEL,
                node("n").label("disk", "ssd").object(),
            ),
            update(
                Actions::UPDATE_NODE_DECLARED_FEATURE,
                node("n")
                    .declares("UserNamespacesHostNetworkSupport")
                    .object(),
            ),
            Event::pod(EventResource::AssignedPod, scaled, on("2"), on("1")),
            Event::pod(EventResource::AssignedPod, Actions::DELETE, on("2"), None),
        ];
        let plain: fn(&str) -> PodBuilder = pod;
        let asking: [fn(&str) -> PodBuilder; 4] = [
            plain,
            |name| pod(name).request("cpu", "1").node_selector("disk", "ssd"),
            |name| {
                pod(name)
                    .host_port("", "TCP", 80)
                    .tolerate("t", "Exists", "", "")
            },
            |name| {
                pod(name).edit(|pod| {
                    let spec = pod.spec.get_or_insert_default();
                    (spec.host_network, spec.host_users) = (Some(true), Some(false));
                })
            },
        ];
        for asks in asking {
            let (one, other) = (asks("a").info(), asks("b").label("app", "web").priority(7));
            let other = other.edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()));
            let other = other.annotation("note", "x").nominated("n").info();
            assert_eq!(one.needs, other.needs);
            for (plugin, event) in by_class
                .iter()
                .flat_map(|it| events.iter().map(move |e| (it, e)))
            {
                let covers = |kind: &crate::EventKind| kind.covers(event.kind);
                if plugin.events().iter().any(covers) {
                    let hints = (plugin.hint(&one, event), plugin.hint(&other, event));
                    assert_eq!(hints.0, hints.1, "{} {event}", plugin.name());
                }
            }
        }
    }
}
