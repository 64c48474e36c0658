//! The target: nodes, pods that run on them, and a candidate scheduler.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use pilotage_candidate::Board;
use pilotage_candidate::plugins::candidate_profile;
use pilotage_sched::plugins::Binder;
use pilotage_sched::{Moment, NodeName, Object, PodInfo, Scheduler, SchedulerConfig};
use serde_json::json;

/// How many taints a node has.
const TAINTS: usize = 100;

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

/// A scheduler that knows so many nodes, so many pods on them, and 100 namespaces.
pub(crate) fn scheduler(nodes: usize, pods: usize, board: &Arc<Board>) -> Scheduler {
    let profile = candidate_profile(board.clone(), Arc::new(Never)).build();
    let profiles = [profile.expect("a profile")];
    let mut scheduler = Scheduler::new(profiles, SchedulerConfig::default()).expect("a scheduler");
    for number in 0..nodes {
        let applied = scheduler.node_applied(&node(number, "v"), Moment::ZERO);
        applied.expect("a name");
    }
    for number in 0..100 {
        let applied = scheduler.apply(namespace(number, "a"), Moment::ZERO);
        applied.expect("a name");
    }
    for number in 0..pods {
        let applied = scheduler.pod_applied(running(number, number % nodes), Moment::ZERO);
        applied.expect("a UID");
    }
    scheduler
}

pub(crate) fn node_name(number: usize) -> String {
    format!("{}{number:05}", "node-".repeat(49))
}

/// With a label of this value.
pub(crate) fn node(number: usize, value: &str) -> Node {
    let name = node_name(number);
    let node = json!({
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": format!("n{number}"), "topology.kubernetes.io/zone": format!("z{}", number % 3),
            "topology.kubernetes.io/region": "r", "k7": value, "number": number.to_string(),
        } },
        "spec": { "taints": (0..TAINTS).map(|n| json!({
            "key": format!("soft-{n}"), "value": format!("v{}", number % 50 + n), "effect": "PreferNoSchedule",
        })).collect::<Vec<_>>() },
        "status": {
            "allocatable": { "cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi" },
            "images": (0..50).map(|n| json!({
                "names": [format!("r.example/i{}", number + n)], "sizeBytes": 500_000_000,
            })).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(node).expect("a node")
}

pub(crate) fn namespace(number: usize, team: &str) -> Object {
    let namespace =
        json!({ "metadata": { "name": format!("ns{number}"), "labels": { "team": team } } });
    let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
    Object::Namespace(Arc::new(namespace))
}

/// A pod of many that run; every tenth keeps others of its kind away.
pub(crate) fn running(number: usize, on: usize) -> Arc<Pod> {
    let app = format!("web-{}", number % 1_000);
    let mut pod = json!({
        "metadata": {
            "name": format!("r{number}"), "namespace": format!("ns{}", number % 100), "uid": format!("r{number}"),
            "labels": { "app": app },
        },
        "spec": { "nodeName": node_name(on), "containers": [{
            "name": "c", "image": "i", "resources": { "requests": { "cpu": "2", "memory": "1Gi" } },
        }] },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" },
    });
    if number.is_multiple_of(10) {
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
            "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": { "matchLabels": { "team": "a" } },
        }]);
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}
