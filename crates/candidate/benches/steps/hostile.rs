//! Specs of candidates as large as an object may be: each is full of one thing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use pilotage_sched::plugins::MOST_RULES;
use serde_json::{Value, json};

/// So many bytes of one thing: an object has 1.5 MiB at most, its JSON included.
const FULL: usize = 1_000_000;
/// Numbers of 64 bits end here.
const MOST: &str = "9223372036854775807";

/// As many as fit.
pub(crate) fn full(each: impl Fn(usize) -> Value) -> Value {
    let mut bytes = 0;
    let fitting = (0..).map(each).take_while(|it| {
        bytes += it.to_string().len();
        bytes < FULL
    });
    fitting.collect()
}

/// As many as a candidate may have.
fn few(each: impl Fn(usize) -> Value) -> Value {
    (0..MOST_RULES).map(each).collect()
}

/// A name as long as a label's may be.
pub(crate) fn long_key(number: usize) -> String {
    format!("{}/{number:063}", "d".repeat(253))
}

fn container(number: usize, resources: &Value) -> Value {
    json!({ "name": format!("c{number}"), "image": format!("i{number}"), "resources": resources })
}

fn on(number: usize) -> Value {
    json!({ "matchExpressions": [{ "key": format!("k{number}"), "operator": "Exists" }] })
}

pub(crate) fn near(number: usize, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "app": format!("web-{number}") } }, "topologyKey": key })
}

pub(crate) fn spread(number: usize, key: &str, when: &str) -> Value {
    json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": format!("web-{number}") } },
    })
}

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Labels that no two nodes share.
const NAMES: [&str; 2] = [HOSTNAME, "number"];
pub(crate) const NEAR: &str = "podAffinity";
pub(crate) const AWAY: &str = "podAntiAffinity";
pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What is said of each, and its spec beside an ordinary container.
pub(crate) fn specs() -> Vec<(&'static str, Value)> {
    let affinity = |kind: &str, rules: Value| json!({ "affinity": { kind: rules } });
    let preferred = |term: &str, value: Value| json!({ "weight": 100, term: value });
    let names = |count: usize| -> Value { (0..count).map(|n| json!(format!("n{n}"))).collect() };
    vec![
        ("nothing special", json!({})),
        (
            "100 containers that ask for 2^63-1",
            json!({ "containers": (0..100).map(|n| container(n, &json!({
                "requests": { "cpu": MOST, "memory": MOST, "ephemeral-storage": MOST, "example.com/gpu": MOST },
                "limits": { "cpu": MOST, "memory": MOST },
            }))).collect::<Value>() }),
        ),
        (
            "many containers",
            json!({ "containers": full(|n| container(n, &json!({ "requests": { "cpu": "1n" } }))) }),
        ),
        (
            "many images",
            json!({ "containers": full(|n| json!({ "name": format!("c{n}"), "image": format!("r.example/i{n}") })) }),
        ),
        (
            "many resources",
            json!({ "containers": [container(0, &json!({
                "requests": (0..20_000).map(|n| (format!("example.com/r{n}"), json!(MOST)))
                    .collect::<serde_json::Map<_, _>>(),
            }))] }),
        ),
        (
            "many ports of its node",
            json!({ "containers": [{ "name": "c", "image": "i", "ports": full(|n| json!({
                "containerPort": 1 + n % 65_535, "hostPort": 1 + n % 65_535,
                "hostIP": format!("10.0.{}.{}", n / 250 % 250, n % 250),
            })) }] }),
        ),
        (
            "many tolerations",
            json!({ "tolerations": full(|n| json!({ "key": format!("k{n}"), "operator": "Exists" })) }),
        ),
        (
            "long tolerations",
            json!({ "tolerations": full(|n| json!({ "key": long_key(n), "value": "v".repeat(63) })) }),
        ),
        (
            "a large node selector",
            json!({ "nodeSelector": (0..20_000).map(|n| (format!("k{n}"), json!("v")))
                .collect::<serde_json::Map<_, _>>() }),
        ),
        (
            "many terms about nodes",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": full(on) } }),
            ),
        ),
        (
            "terms about nodes with long names",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": full(|n| json!({
                "matchExpressions": [{ "key": long_key(n), "operator": "NotIn", "values": ["v".repeat(63)] },
                    { "key": "none", "operator": "Exists" }],
            })) } }),
            ),
        ),
        (
            "a term about nodes with many names",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": HOSTNAME, "operator": "NotIn", "values": names(100_000) }],
            }] } }),
            ),
        ),
        (
            "a term about nodes with many numbers",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": [{
                "matchExpressions": full(|n| json!({ "key": "number", "operator": "Gt", "values": [n.to_string()] })),
            }] } }),
            ),
        ),
        (
            "many wishes about nodes",
            affinity(
                "nodeAffinity",
                json!({ PREFERRED: full(|n| preferred("preference", on(n))) }),
            ),
        ),
        (
            "many terms about pods near",
            affinity(NEAR, json!({ REQUIRED: full(|n| near(n, HOSTNAME)) })),
        ),
        (
            "many terms about pods away",
            affinity(AWAY, json!({ REQUIRED: full(|n| near(n, HOSTNAME)) })),
        ),
        (
            "many terms about pods away, with as many keys",
            affinity(
                AWAY,
                json!({ REQUIRED: full(|n| near(n, &format!("k{n}"))) }),
            ),
        ),
        (
            "many terms about all pods away in all namespaces",
            affinity(
                AWAY,
                json!({ REQUIRED: full(|n| json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": format!("k{n}"),
            })) }),
            ),
        ),
        (
            "many wishes about pods",
            affinity(
                NEAR,
                json!({ PREFERRED: full(|n| preferred("podAffinityTerm", near(n, HOSTNAME))) }),
            ),
        ),
        (
            "many wishes about all pods of all namespaces",
            affinity(
                NEAR,
                json!({ PREFERRED: full(|_| preferred("podAffinityTerm", json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": HOSTNAME,
            }))) }),
            ),
        ),
        (
            "a term about pods with many namespaces",
            affinity(
                AWAY,
                json!({ REQUIRED: [{
                "labelSelector": {}, "namespaces": names(100_000), "topologyKey": HOSTNAME,
            }] }),
            ),
        ),
        (
            "a term about pods with many expressions",
            affinity(
                AWAY,
                json!({ REQUIRED: [{
                "labelSelector": { "matchExpressions": full(|n| json!({
                    "key": format!("k{n}"), "operator": "DoesNotExist",
                })) },
                "topologyKey": HOSTNAME,
            }] }),
            ),
        ),
        (
            "many spread constraints that nodes lack",
            json!({ "topologySpreadConstraints": full(|n| spread(n, &format!("k{n}"), "DoNotSchedule")) }),
        ),
        (
            "many spread constraints over nodes",
            json!({ "topologySpreadConstraints": full(|n| spread(n, HOSTNAME, "DoNotSchedule")) }),
        ),
        (
            "many spread wishes",
            json!({ "topologySpreadConstraints": full(|n| spread(n, &format!("k{n}"), "ScheduleAnyway")) }),
        ),
        (
            "as many resources as it may have",
            json!({ "containers": [container(0, &json!({
                "requests": (0..MOST_RULES).map(|n| (format!("example.com/r{n}"), json!(MOST)))
                    .collect::<serde_json::Map<_, _>>(),
            }))] }),
        ),
        (
            "as many terms about nodes as it may have",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": few(|n| json!({
                "matchExpressions": [{ "key": long_key(n), "operator": "Exists" }],
            })) } }),
            ),
        ),
        (
            "as many wishes about nodes as it may have",
            affinity(
                "nodeAffinity",
                json!({ PREFERRED: few(|n| preferred("preference", on(n))) }),
            ),
        ),
        (
            "as many terms about pods near as it may have",
            affinity(
                NEAR,
                json!({ REQUIRED: few(|n| json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": NAMES[n % 2],
            })) }),
            ),
        ),
        (
            "as many terms about pods away as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: few(|n| near(n, &format!("k{n}"))) }),
            ),
        ),
        (
            "as many terms about all pods away as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: few(|n| json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": format!("none-{n}"),
            })) }),
            ),
        ),
        (
            "as many wishes about all pods as it may have",
            affinity(
                NEAR,
                json!({ PREFERRED: few(|n| preferred("podAffinityTerm", json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": NAMES[n % 2],
            }))) }),
            ),
        ),
        (
            "a term about all pods with as many expressions as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: [{
                "labelSelector": { "matchExpressions": few(|n| json!({
                    "key": format!("k{n}"), "operator": "DoesNotExist",
                })) },
                "namespaces": ["ns1"], "topologyKey": "none",
            }] }),
            ),
        ),
        (
            "as many spread constraints as it may have",
            json!({ "topologySpreadConstraints": few(|n| spread(n, &format!("k{n}"), "DoNotSchedule")) }),
        ),
        (
            "as many spread constraints over nodes as it may have",
            json!({ "topologySpreadConstraints": few(|n| spread(n, NAMES[n % 2], "DoNotSchedule")) }),
        ),
        (
            "as many spread wishes as it may have",
            json!({ "topologySpreadConstraints": few(|n| spread(n, NAMES[n % 2], "ScheduleAnyway")) }),
        ),
        (
            "a high priority, and no room",
            json!({ "priority": 1_000_000, "containers": [container(0, &json!({ "requests": { "cpu": "30" } }))] }),
        ),
    ]
}

/// A candidate with this in its spec.
pub(crate) fn pod(uid: &str, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": "p".repeat(253 - uid.len()) + uid, "namespace": "n".repeat(63), "uid": uid,
            "labels": { "app": "web-0" },
            "ownerReferences": [{
                "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon", "name": "p", "uid": uid,
                "controller": true,
            }],
        },
        "spec": { "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [container(0, &json!({}))] },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}
