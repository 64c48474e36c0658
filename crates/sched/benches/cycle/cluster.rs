//! The cluster: equal nodes in three zones, and a scheduler with the profile of `pilotage scheduler`.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{Moment, NodeName, PodInfo, Scheduler, SchedulerConfig};
use serde_json::json;

/// Nothing is bound here.
struct Never;

impl Binder for Never {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async { Err("nothing is bound here".into()) })
    }
}

/// A scheduler with so many nodes.
pub(crate) fn cluster(nodes: usize, percentage: u8) -> Scheduler {
    let profile = stock_profile("bench", Arc::new(Never))
        .refusing_unknown_constraints("this scheduler")
        .build();
    let config = SchedulerConfig {
        percentage_of_nodes_to_score: percentage,
        ..SchedulerConfig::default()
    };
    let mut scheduler = Scheduler::new([profile.expect("a profile")], config).expect("a scheduler");
    for number in 0..nodes {
        let applied = scheduler.node_applied(&node(number), Moment::ZERO);
        applied.expect("a name");
    }
    scheduler
}

/// Its nodes' names.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// One of them.
pub(crate) fn node(number: usize) -> Node {
    let name = node_name(number);
    let zone = format!("z{}", number % 3);
    let node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r",
        }},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}},
    });
    serde_json::from_value(node).expect("a node")
}
