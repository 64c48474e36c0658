//! What tenants and their servers write into objects: forged, extreme, too long, or planted on other people's. Tests
//! and the measurement write the same. How it is taken is their affair.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use pilotage_api::{GROUP, VERSION, keys};
use pilotage_testkit::build;
use serde_json::{Map, Value, json};

/// An address that only forged chaperons tell.
const FORGED_IP: &str = "10.6.6.6";
/// Written by kubectl: whoever changes it decides what the next `kubectl apply` takes off.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Chaperons of a pod that the server which shows them was never asked for, each granted and running: as its source
/// makes them, the same in a tenant's own namespace, and as plain Admiralty would.
pub fn forged(victim: &Pod, source: &str, own: &str) -> [Value; 3] {
    let granted = |source: Option<&str>, uid: &str| {
        let chaperon = build::chaperon_of(victim, source).uid(uid).granted(1);
        chaperon.running(FORGED_IP).value()
    };
    let as_it_is = granted(Some(source), "forged");
    let mut moved = granted(Some(source), "moved");
    moved["metadata"]["namespace"] = own.into();
    let mut plain = granted(None, "plain");
    plain["metadata"]["name"] = format!("{}-x7k2p", victim.name_any()).into();
    [as_it_is, moved, plain]
}

/// Two pods, `small` and `large`: the times of both are as long as they can be written, and so are the amounts of the
/// second one.
pub fn extreme_pods() -> [Value; 2] {
    let most = i64::MAX;
    let amounts = json!({ "cpu": most.to_string(), "memory": "8Ei" });
    [("small", json!({ "cpu": "1m" })), ("large", amounts)].map(|(name, requests)| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "annotations": {
                keys::ELECT: "", keys::REPLACE_AFTER: format!("{most}s"),
            } },
            "spec": {
                "terminationGracePeriodSeconds": most,
                "tolerations": [{
                    "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": most,
                }],
                "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }],
            },
        })
    })
}

/// What a server writes over its answers: an attempt after which no number is left.
pub fn extreme_attempt() -> Value {
    json!({ "metadata": { "annotations": { keys::ATTEMPT: u64::MAX.to_string() } } })
}

/// The summary of a cluster of this UID with room for everything, and with more labels than anybody needs.
pub fn extreme_summary(cluster_uid: &str) -> Value {
    let most = i64::MAX.to_string();
    let amounts = json!({ "cpu": most, "memory": "7Ei", "pods": most, "example.com/gpu": "-1", "a/b/c": "1" });
    let shape = json!({ "nodes": i64::MAX, "free": amounts });
    let labels: Map<String, Value> = (0..100)
        .map(|n| (format!("example.com/label-{n}"), "x".repeat(2_000).into()))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterSummary",
        "metadata": { "name": keys::CLUSTER_SUMMARY_NAME, "labels": labels },
        "clusterUid": cluster_uid,
        "capacity": amounts, "allocatable": amounts, "free": amounts,
        "freeShapes": vec![shape; 256],
    })
}

/// Name of a region, of 90,000 bytes.
pub fn long_region() -> String {
    "r".repeat(90_000)
}

/// What a target writes on a pod that runs there: annotations that aren't its own, and far more than anybody copies.
pub fn planted_annotations() -> Value {
    let mut said: Map<String, Value> = (0..1_000)
        .map(|number| (format!("evil.example/{number:04}"), "x".repeat(100).into()))
        .collect();
    for (key, value) in [
        (LAST_APPLIED, "forged".to_owned()),
        ("team", "forged".to_owned()),
        ("k8s.io/forged", String::new()),
        ("sub.Kubernetes.io/forged", String::new()),
        (keys::GRANTED_TO, "forged/u/1".to_owned()),
        (keys::REGION, "forged".to_owned()),
        ("evil.example/0000-large", "x".repeat(300 << 10)),
    ] {
        said.insert(key.to_owned(), value.into());
    }
    json!({ "metadata": { "annotations": said } })
}

/// A status with containers that the pod doesn't have, and longer texts than an API server takes. All of it is lighter
/// than what is kept of a chaperon; of a heavier one no status is copied.
pub fn planted_status() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": "i".repeat(10_000), "imageID": "", "ready": true, "started": true,
            "restartCount": i64::MAX,
            "state": { "waiting": { "reason": "r".repeat(10_000), "message": "m".repeat(20_000) } },
        })
    };
    let mut all = vec![container("evil"), container("main"), container("main")];
    all.extend((0..10).map(|number| container(&format!("evil-{number}"))));
    json!({ "status": {
        "message": "ä".repeat(50_000),
        "podIP": "nonsense",
        "podIPs": [{ "ip": "nonsense" }, { "ip": "127.0.0.1" }, { "ip": "10.66.1.7" }, { "ip": "10.66.1.8" }],
        "hostIP": "10.0.0.300",
        "containerStatuses": all,
        "initContainerStatuses": [container("main")],
        "evil": { "unknown": true },
    } })
}

/// A status whose fields have other types.
pub fn nonsense_status() -> Value {
    json!({ "status": {
        "phase": 7,
        "startTime": "never",
        "podIP": [],
        "podIPs": "10.66.1.1",
        "containerStatuses": { "main": "runs" },
        "resources": [1, 2],
        "qosClass": "Evil",
    } })
}
