//! Specs of pods as large as an object may be, and with as many rules as a scheduler takes: each is full of one thing.

use serde_json::{Value, json};

/// So many bytes of one thing: an object has 1.5 MiB at most, its JSON included.
const FULL: usize = 1_000_000;
/// So many short names fit.
const MANY: usize = 100_000;
/// Numbers of 64 bits end here.
const MOST: &str = "9223372036854775807";

/// As many as fit.
pub fn full(each: impl Fn(usize) -> Value) -> Value {
    let mut bytes = 0;
    let fitting = (0..).map(each).take_while(|it| {
        bytes += it.to_string().len();
        bytes < FULL
    });
    fitting.collect()
}

/// A name as long as a label's may be.
pub fn long_key(number: usize) -> String {
    format!("{}/{number:063}", "d".repeat(253))
}

fn container(number: usize, resources: &Value) -> Value {
    json!({ "name": format!("c{number}"), "image": format!("i{number}"), "resources": resources })
}

fn on(number: usize) -> Value {
    json!({ "matchExpressions": [{ "key": format!("k{number}"), "operator": "Exists" }] })
}

/// A term about one application's pods in one topology.
pub fn near(number: usize, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "app": format!("web-{number}") } }, "topologyKey": key })
}

/// A constraint that spreads one application's pods.
pub fn spread(number: usize, key: &str, when: &str) -> Value {
    json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": format!("web-{number}") } },
    })
}

/// The label that no two nodes share.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Labels that no two nodes share.
const NAMES: [&str; 2] = [HOSTNAME, "number"];
/// Where a spec says what pods it wants to be near.
pub const NEAR: &str = "podAffinity";
/// Where it says from what pods it wants to be away.
pub const AWAY: &str = "podAntiAffinity";
/// What it must have of that.
pub const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What nodes have as a taint, with another value.
fn other_value(number: usize) -> Value {
    let key = format!("soft-{}", number % 100);
    json!({ "key": key, "operator": "Equal", "value": format!("w{number}") })
}

/// How much of a pod a scheduler takes.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Resources and rules about nodes and other pods.
    pub rules: usize,
    /// Values of one expression, if the pod has no other rule.
    pub values: usize,
    /// Tolerations, if it has no rule.
    pub tolerations: usize,
}

/// What is said of each, and its spec beside an ordinary container, for a scheduler that takes so much.
pub fn specs(most: Most) -> Vec<(&'static str, Value)> {
    let most_rules = most.rules;
    let few = |each: &dyn Fn(usize) -> Value| -> Value { (0..most_rules).map(each).collect() };
    let affinity = |kind: &str, rules: Value| json!({ "affinity": { kind: rules } });
    let preferred = |term: &str, value: Value| json!({ "weight": 100, term: value });
    let valued = |operator: &str, values: usize| {
        let values: Value = (0..values).map(|n| json!(format!("w{n}"))).collect();
        json!({
            "labelSelector": { "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] },
            "namespaceSelector": {}, "topologyKey": HOSTNAME,
        })
    };
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
            "many tolerations of other values",
            json!({ "tolerations": full(other_value) }),
        ),
        (
            "as many tolerations of other values as it may have",
            json!({ "tolerations": (0..most.tolerations).map(other_value).collect::<Value>() }),
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
                "matchExpressions": [{ "key": HOSTNAME, "operator": "NotIn", "values": names(MANY) }],
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
                "labelSelector": {}, "namespaces": names(MANY), "topologyKey": HOSTNAME,
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
            "a term about pods near with many values",
            affinity(NEAR, json!({ REQUIRED: [valued("NotIn", MANY)] })),
        ),
        (
            "a term about pods away with many values",
            affinity(AWAY, json!({ REQUIRED: [valued("In", MANY)] })),
        ),
        (
            "a wish about pods with many values",
            affinity(
                NEAR,
                json!({ PREFERRED: [preferred("podAffinityTerm", valued("NotIn", MANY))] }),
            ),
        ),
        (
            "a spread constraint with many values",
            json!({ "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": valued("NotIn", MANY)["labelSelector"],
            }] }),
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
            "a term about nodes with as many values as it may have",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": HOSTNAME, "operator": "NotIn", "values": names(most.values) }],
            }] } }),
            ),
        ),
        (
            "a term about pods near with as many values as it may have",
            affinity(NEAR, json!({ REQUIRED: [valued("NotIn", most.values)] })),
        ),
        (
            "a term about pods away with as many values as it may have",
            affinity(AWAY, json!({ REQUIRED: [valued("In", most.values)] })),
        ),
        (
            "as many resources as it may have",
            json!({ "containers": [container(0, &json!({
                "requests": (0..most_rules).map(|n| (format!("example.com/r{n}"), json!(MOST)))
                    .collect::<serde_json::Map<_, _>>(),
            }))] }),
        ),
        (
            "as many terms about nodes as it may have",
            affinity(
                "nodeAffinity",
                json!({ REQUIRED: { "nodeSelectorTerms": few(&|n| json!({
                "matchExpressions": [{ "key": long_key(n), "operator": "Exists" }],
            })) } }),
            ),
        ),
        (
            "as many wishes about nodes as it may have",
            affinity(
                "nodeAffinity",
                json!({ PREFERRED: few(&|n| preferred("preference", on(n))) }),
            ),
        ),
        (
            "as many terms about pods near as it may have",
            affinity(
                NEAR,
                json!({ REQUIRED: few(&|n| json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": NAMES[n % 2],
            })) }),
            ),
        ),
        (
            "as many terms about pods away as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: few(&|n| near(n, &format!("k{n}"))) }),
            ),
        ),
        (
            "as many terms about all pods away as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: few(&|n| json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": format!("none-{n}"),
            })) }),
            ),
        ),
        (
            "as many wishes about all pods as it may have",
            affinity(
                NEAR,
                json!({ PREFERRED: few(&|n| preferred("podAffinityTerm", json!({
                "labelSelector": {}, "namespaceSelector": {}, "topologyKey": NAMES[n % 2],
            }))) }),
            ),
        ),
        (
            "a term about all pods with as many expressions as it may have",
            affinity(
                AWAY,
                json!({ REQUIRED: [{
                "labelSelector": { "matchExpressions": few(&|n| json!({
                    "key": format!("k{n}"), "operator": "DoesNotExist",
                })) },
                "namespaces": ["ns1"], "topologyKey": "none",
            }] }),
            ),
        ),
        (
            "as many spread constraints as it may have",
            json!({ "topologySpreadConstraints": few(&|n| spread(n, &format!("k{n}"), "DoNotSchedule")) }),
        ),
        (
            "as many spread constraints over nodes as it may have",
            json!({ "topologySpreadConstraints": few(&|n| spread(n, NAMES[n % 2], "DoNotSchedule")) }),
        ),
        (
            "as many spread wishes as it may have",
            json!({ "topologySpreadConstraints": few(&|n| spread(n, NAMES[n % 2], "ScheduleAnyway")) }),
        ),
        (
            "a high priority, and no room",
            json!({ "priority": 1_000_000, "containers": [container(0, &json!({ "requests": { "cpu": "30" } }))] }),
        ),
    ]
}
