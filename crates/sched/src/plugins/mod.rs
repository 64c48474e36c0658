//! The plugins, one a file, each with its reasons, its events and its hints, as in kube-scheduler 1.36.
//! Knows nothing of the profiles that use them, except for the stock one.

mod balanced_allocation;
mod by_set;
mod default_binder;
mod image_locality;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod priority_sort;
mod resource_load;
mod scheduling_gates;
mod scoring_strategy;
mod taint_toleration;
mod unknown_constraints;
mod well_formed;

use std::sync::Arc;

pub use self::balanced_allocation::{ListedTwice, NodeResourcesBalancedAllocation};
pub use self::default_binder::{Binder, DefaultBinder};
pub use self::image_locality::ImageLocality;
pub use self::node_affinity::NodeAffinity;
pub use self::node_declared_features::NodeDeclaredFeatures;
pub use self::node_name::NodeName;
pub use self::node_ports::NodePorts;
pub use self::node_resources_fit::{FitArgs, FitReason, NodeResourcesFit};
pub use self::node_unschedulable::NodeUnschedulable;
pub use self::priority_sort::PrioritySort;
pub use self::scheduling_gates::SchedulingGates;
pub use self::scoring_strategy::{
    ScoringResource, ScoringStrategy, ShapePoint, StrategyError, StrategyKind,
};
pub use self::taint_toleration::TaintToleration;
pub use self::unknown_constraints::{UNKNOWN_CONSTRAINTS, UnknownConstraints};
pub use self::well_formed::WellFormed;
use crate::profile::ProfileBuilder;

/// A profile with the stock plugins, in kube-scheduler's order and with its weights. Add to it, or
/// [disable](ProfileBuilder::disable) some of it.
pub fn stock_profile(scheduler_name: &str, binder: Arc<dyn Binder>) -> ProfileBuilder {
    let taints = Arc::new(TaintToleration::default());
    let affinity = Arc::new(NodeAffinity::default());
    let ports = Arc::new(NodePorts);
    let fit = Arc::new(NodeResourcesFit::default());
    let images = Arc::new(ImageLocality);
    let balance = Arc::new(NodeResourcesBalancedAllocation::default());
    let features = Arc::new(NodeDeclaredFeatures);
    ProfileBuilder::new(scheduler_name)
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
        .score(fit, 1)
        .pre_score(balance.clone())
        .score(balance, 1)
        .pre_score(images.clone())
        .score(images, 1)
        .pre_filter(features.clone())
        .filter(features)
        .bind(Arc::new(DefaultBinder::new(binder)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::stock_profile;
    use crate::test_objects::NeverBinds;

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
                "NodeDeclaredFeatures"
            ]
        );
        let pre_scores: Vec<_> = (profile.pre_scores().iter()).map(|it| it.name()).collect();
        assert_eq!(
            pre_scores,
            [
                "NodeAffinity",
                "NodeResourcesBalancedAllocation",
                "ImageLocality"
            ]
        );
    }
}
