//! What a scheduler keeps of a cluster: bytes a node, an assigned pod, and a pod that waits, as resident memory grows.
//! Objects look like those of real clusters: labels, conditions, images, environments, statuses.
//!
//! `make bench-sched` runs it. It fails if one of them is more than it may be.

// What can't be set up ends the bench.
#![allow(clippy::expect_used)]

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{Moment, NodeName, PodInfo, Scheduler, SchedulerConfig};
use serde_json::{Value, json};

const SCHEDULER: &str = "bench";
const NODES: usize = 5_000;
const PODS: usize = 150_000;
/// Pods that wait for a node. They are kept whole.
const PENDING: usize = 10_000;
/// Bytes that a node may take, an assigned pod, and one that waits.
const MOST: [usize; 3] = [6_000, 3_000, 20_000];
/// Pods of one workload: they share their template.
const REPLICAS: usize = 30;
/// Images of the whole cluster, and of each node.
const IMAGES: (usize, usize) = (400, 50);
/// Pages of this many bytes are counted.
const PAGE: usize = 4096;

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

fn main() -> ExitCode {
    let profile = stock_profile(SCHEDULER, Arc::new(Never)).build();
    let config = SchedulerConfig::default();
    let mut scheduler = Scheduler::new([profile.expect("a profile")], config).expect("a scheduler");
    let empty = resident();
    for number in 0..NODES {
        let node: Node = serde_json::from_value(node(number)).expect("a node");
        let applied = scheduler.node_applied(&node, Moment::ZERO);
        applied.expect("a node with a name");
    }
    let with_nodes = resident();
    for number in 0..PODS {
        let pod: Pod = serde_json::from_value(pod(number)).expect("a pod");
        let applied = scheduler.pod_applied(Arc::new(pod), Moment::ZERO);
        applied.expect("a pod with an identity");
    }
    let with_pods = resident();
    for number in PODS..PODS + PENDING {
        let pod: Pod = serde_json::from_value(pending(number)).expect("a pod");
        let applied = scheduler.pod_applied(Arc::new(pod), Moment::ZERO);
        applied.expect("a pod with an identity");
    }
    assert_eq!(scheduler.queue_size().active, PENDING);
    let with_pending = resident();
    let node = with_nodes.saturating_sub(empty) / NODES;
    let pod = with_pods.saturating_sub(with_nodes) / PODS;
    let pending = with_pending.saturating_sub(with_pods) / PENDING;
    let all = [
        ("a node", node),
        ("a pod", pod),
        ("a pod that waits", pending),
    ];
    for ((what, bytes), most) in all.into_iter().zip(MOST) {
        println!("bytes {what}: {bytes}, of {most} at most");
    }
    println!("all, in MiB: {}", with_pending >> 20);
    let mut failed = false;
    for ((what, bytes), most) in all.into_iter().zip(MOST) {
        if bytes > most {
            eprintln!("failed: {what} takes {bytes} bytes; {most} are the most");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|it| it.parse::<usize>().ok());
    pages.expect("a number of pages") * PAGE
}

fn image(number: usize) -> Value {
    let digest = format!("{number:064x}");
    json!({
        "names": [
            format!("registry.example.com/team/application-{number}@sha256:{digest}"),
            format!("registry.example.com/team/application-{number}:v1.2.{number}"),
        ],
        "sizeBytes": 80_000_000 + number,
    })
}

fn node(number: usize) -> Value {
    let (all, each) = IMAGES;
    let images: Vec<_> = (0..each)
        .map(|at| image((number * 7 + at * 8) % all))
        .collect();
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": "KubeletHasEnough", "message": "kubelet has enough of it",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    let quantities = json!({
        "cpu": "32", "memory": "131072Mi", "pods": "110", "ephemeral-storage": "95551679124", "hugepages-2Mi": "0",
    });
    json!({
        "metadata": {
            "name": format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250),
            "uid": format!("{number:08x}-0000-4000-8000-000000000000"),
            "labels": {
                "kubernetes.io/hostname": format!("ip-10-0-{}-{}", number / 250, number % 250),
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "m5.8xlarge",
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": format!("eu-central-1{}", ["a", "b", "c"][number % 3]),
                "example.com/pool": format!("pool-{}", number % 20),
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": format!("{{\"ebs.csi.aws.com\":\"i-{number:017x}\"}}"),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": { "podCIDR": format!("10.{}.{}.0/24", number / 250, number % 250) },
        "status": {
            "capacity": quantities.clone(), "allocatable": quantities, "conditions": conditions, "images": images,
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
        },
    })
}

fn pod(number: usize) -> Value {
    let application = number / REPLICAS;
    let variables: Vec<_> = (0..10)
        .map(|at| json!({ "name": format!("VARIABLE_{at}"), "value": "some value of a variable" }))
        .collect();
    let node = number % NODES;
    json!({
        "metadata": {
            "name": format!("application-{application}-7d4b9c6f8d-{number:05x}"),
            "namespace": format!("team-{}", application % 200),
            "uid": format!("{number:08x}-1111-4111-8111-111111111111"),
            "labels": {
                "app.kubernetes.io/name": format!("application-{application}"),
                "app.kubernetes.io/part-of": format!("product-{}", application % 50),
                "pod-template-hash": "7d4b9c6f8d",
            },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": format!("{number:064x}") },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "application", "controller": true,
                "uid": format!("{application:08x}-2222-4222-8222-222222222222"),
            }],
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "nodeName": format!("ip-10-0-{}-{}.eu-central-1.compute.internal", node / 250, node % 250),
            "containers": [{
                "name": "main",
                "image": format!("registry.example.com/team/application-{}:v1.2.3", application % 400),
                "env": variables,
                "resources": { "requests": { "cpu": "100m", "memory": "200Mi" }, "limits": { "memory": "400Mi" } },
                "volumeMounts": [{ "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }],
            }],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300 },
            ],
            "volumes": [{ "name": "token",
            "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "containerStatuses": [{
                "name": "main", "ready": true, "restartCount": 0,
                "image": "registry.example.com/team/application:v1.2.3",
                "imageID": format!("registry.example.com/team/application@sha256:{number:064x}"),
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            }],
        },
    })
}

/// A pod that waits for a node, as its controller made it.
fn pending(number: usize) -> Value {
    let mut pod = pod(number);
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    pod["spec"]["schedulerName"] = SCHEDULER.into();
    pod["status"] = json!({ "phase": "Pending" });
    pod
}
