//! What the profiles are made of, and what spreading and affinity of proxies mean over virtual nodes.

mod burst;
mod constraints;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_sched::{Moment, Scheduler, SchedulerConfig};
use serde_json::{Value, json};

use super::*;
use crate::plugins::GrantFailure;

const REGION: &str = "topology.kubernetes.io/region";

struct Nobody;

impl Grants for Nobody {
    fn grant<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
        Box::pin(async { Err(GrantFailure::Ending) })
    }
}

/// A scheduler of proxies that reads this board.
fn scheduler(board: &Arc<Board>) -> Scheduler {
    let profiles = profiles(board, Arc::new(Nobody)).unwrap();
    Scheduler::new(profiles, SchedulerConfig::default()).unwrap()
}

/// The virtual node of a namespace's Target, or of a `ClusterTarget`, with these labels beside.
fn virtual_node(name: &str, namespace: Option<&str>, labels: Value) -> Node {
    let mut all = labels;
    all[keys::PROVIDER] = keys::PROVIDER_VALUE.into();
    all["kubernetes.io/hostname"] = name.into();
    match namespace {
        Some(namespace) => all[keys::TARGET_NAMESPACE] = namespace.into(),
        None => all[keys::CLUSTER_TARGET_NAME] = name.into(),
    }
    let mut node = real_node(name, &all);
    let taint = json!({
        "key": keys::PROVIDER, "value": keys::PROVIDER_VALUE, "effect": "NoSchedule",
    });
    node.spec = serde_json::from_value(json!({ "taints": [taint] })).unwrap();
    node
}

/// A machine of the source.
fn real_node(name: &str, labels: &Value) -> Node {
    let node = json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "allocatable": { "cpu": "64", "memory": "64Gi", "pods": "500" } },
    });
    serde_json::from_value(node).unwrap()
}

/// A proxy as the webhook makes one, with these labels and constraints; on a node, if one is given.
fn proxy(key: &str, labels: &Value, constraints: &Value, node: Option<&str>) -> Pod {
    let (namespace, name) = key.split_once('/').unwrap();
    let mut spec = constraints.clone();
    spec["schedulerName"] = keys::PROXY_SCHEDULER.into();
    spec["containers"] = json!([{ "name": "c" }]);
    spec["nodeSelector"] = json!({ keys::PROVIDER: keys::PROVIDER_VALUE });
    spec["tolerations"] = json!([{ "key": keys::PROVIDER, "operator": "Exists" }]);
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    let meta = json!({ "namespace": namespace, "name": name, "uid": key, "labels": labels });
    serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap()
}

/// A constraint over regions for pods of the application `web`.
fn over_regions(when: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": REGION,
        "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": "web" } },
    })
}

/// A cluster with these nodes.
fn with_nodes(board: &Arc<Board>, nodes: impl IntoIterator<Item = Node>) -> Scheduler {
    let mut scheduler = scheduler(board);
    for node in nodes {
        scheduler.node_applied(&node, Moment::ZERO).unwrap();
    }
    scheduler
}

#[test]
fn the_guard_runs_first_and_only_the_scheduling_profile_reads_answers() {
    let [scheduling, ranking] = profiles(&Arc::default(), Arc::new(Nobody)).unwrap();
    let filters = |profile: &Profile| {
        profile
            .filters()
            .iter()
            .map(|filter| filter.name())
            .collect::<Vec<_>>()
    };
    let guarded = filters(&scheduling);
    assert_eq!(guarded.last(), Some(&"CandidateAnswers"));
    assert_eq!(
        guarded.iter().position(|name| *name == "VirtualNode"),
        Some(1)
    );
    assert!(!filters(&ranking).contains(&"CandidateAnswers"));
}

#[test]
fn a_better_class_outweighs_all_other_scores_together() {
    for profile in profiles(&Arc::default(), Arc::new(Nobody)).unwrap() {
        let scores = profile.scores().iter();
        let others = scores.filter(|score| score.plugin.name() != "PlacementOrder");
        let others: i64 = others.map(|score| score.weight).sum();
        // By one of a hundred points.
        assert!(
            others * 100 <= i64::from(PlacementOrder::WEIGHT),
            "{others}"
        );
    }
}

#[test]
fn no_configuration_switches_the_guard_off() {
    let builder = ProfileBuilder::new("p")
        .queue_sort(Arc::new(PrioritySort))
        .mandatory_filter(Arc::new(VirtualNode))
        .bind(Arc::new(GrantBind::new(Arc::new(Nobody))));
    let error = builder.disable("VirtualNode").build().unwrap_err();
    assert!(matches!(error, ProfileError::Mandatory { .. }));
}
