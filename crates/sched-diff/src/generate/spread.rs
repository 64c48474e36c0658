//! Draws topology spread constraints, of pods and of the configuration, and what pods without any are spread by.

use serde_json::{Value, json};

use super::swarm::Swarm;
use crate::draw::Draw;
use crate::object;

const KEYS: &[&str] = &[
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
    "disk",
    "topology.kubernetes.io/region",
];
const NAMESPACES: &[&str] = &["default", "shop"];
const APPS: &[&str] = &["a", "b"];
const HASHES: &[&str] = &["1", "2"];
/// Controllers whose pods are spread, and one that isn't read.
const CONTROLLERS: &[(&str, &str)] = &[
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
];

/// Gives a pod constraints, or an owner by which it is spread.
pub(super) fn spread(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    if swarm.spread == 0 {
        return;
    }
    if draw.percent(70) {
        pod["metadata"]["labels"]["hash"] = draw.word(HASHES).into();
    }
    if draw.percent(swarm.spread) {
        let count = draw.within(1, 3);
        let mut constraints: Vec<Value> = Vec::new();
        for _ in 0..count {
            let constraint = constraint(draw);
            // Key and action together are unique.
            let same = |other: &Value| {
                ["topologyKey", "whenUnsatisfiable"]
                    .iter()
                    .all(|field| other[field] == constraint[field])
            };
            if !constraints.iter().any(same) {
                constraints.push(constraint);
            }
        }
        pod["spec"]["topologySpreadConstraints"] = constraints.into();
    }
    if draw.percent(30) {
        let (version, kind) = *draw.one(CONTROLLERS);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": version, "kind": kind, "name": draw.word(APPS), "uid": "owner",
            "controller": draw.percent(80),
        }]);
    }
}

fn constraint(draw: &mut Draw) -> Value {
    let mut constraint = rule(draw);
    match draw.below(20) {
        0 => {}
        1 => constraint["labelSelector"] = json!({}),
        2..=4 => {
            let operator = draw.word(&["Exists", "DoesNotExist"]);
            constraint["labelSelector"] =
                json!({"matchExpressions": [{"key": "hash", "operator": operator}]});
        }
        5..=7 => {
            let operator = draw.word(&["In", "NotIn"]);
            let values = draw.some(HASHES, 1);
            constraint["labelSelector"] = json!({"matchLabels": {"app": draw.word(APPS)},
                "matchExpressions": [{"key": "hash", "operator": operator, "values": values}]});
        }
        _ => constraint["labelSelector"] = json!({"matchLabels": {"app": draw.word(APPS)}}),
    }
    if constraint.get("labelSelector").is_some() && draw.percent(20) {
        constraint["matchLabelKeys"] = json!([draw.word(&["hash", "hash", "absent"])]);
    }
    constraint
}

/// Without a selector.
fn rule(draw: &mut Draw) -> Value {
    let when = draw.word(&["DoNotSchedule", "ScheduleAnyway"]);
    let mut rule = json!({
        "maxSkew": *draw.one(&[1, 1, 2, 5]), "topologyKey": draw.word(KEYS), "whenUnsatisfiable": when,
    });
    if when == "DoNotSchedule" && draw.percent(20) {
        rule["minDomains"] = draw.within(1, 5).into();
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if draw.percent(30) {
            rule[field] = draw.word(&["Honor", "Ignore"]).into();
        }
    }
    rule
}

/// Constraints of the configuration.
pub(super) fn arguments(draw: &mut Draw, _: &Swarm) -> Value {
    if draw.percent(25) {
        return json!({"defaultingType": "System"});
    }
    let mut constraints: Vec<Value> = Vec::new();
    for _ in 0..draw.within(0, 3) {
        let rule = rule(draw);
        let same = |other: &Value| {
            ["topologyKey", "whenUnsatisfiable"]
                .iter()
                .all(|field| other[field] == rule[field])
        };
        if !constraints.iter().any(same) {
            constraints.push(rule);
        }
    }
    json!({"defaultingType": "List", "defaultConstraints": constraints})
}

/// Has a Service or a controller select other pods, if it selects any.
pub(super) fn reselect(draw: &mut Draw, object: &mut Value) {
    let mut pairs = json!({"app": draw.word(APPS)});
    if draw.percent(40) {
        pairs["hash"] = draw.word(HASHES).into();
    }
    let selector = match object::kind(object) {
        "Service" | "ReplicationController" => pairs,
        _ => json!({ "matchLabels": pairs }),
    };
    object::replace(object, "/spec/selector", selector);
}

/// Services and controllers of a case.
pub(super) fn objects(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    let mut objects = Vec::new();
    if swarm.spread == 0 || draw.percent(30) {
        return objects;
    }
    let mut new = |version: &str, kind: &str, (namespace, name): (&str, &str), spec: Value| {
        objects.push(json!({"apiVersion": version, "kind": kind,
            "metadata": {"namespace": namespace, "name": name, "uid": format!("{kind}-{namespace}-{name}")},
            "spec": spec}));
    };
    for namespace in NAMESPACES {
        for app in APPS {
            let key = (*namespace, *app);
            if draw.percent(60) {
                let mut selector = json!({"app": app});
                if draw.percent(20) {
                    selector["hash"] = draw.word(HASHES).into();
                }
                new("v1", "Service", key, json!({ "selector": selector }));
            }
            let hash = draw.word(HASHES);
            let labels = json!({"matchLabels": {"app": app, "hash": hash}});
            for (version, kind) in &CONTROLLERS[..3] {
                if draw.percent(60) {
                    let selector = if *kind == "ReplicationController" {
                        labels["matchLabels"].clone()
                    } else if draw.percent(20) {
                        json!({"matchExpressions": [{"key": "hash", "operator": "Exists"}]})
                    } else {
                        labels.clone()
                    };
                    new(version, kind, key, json!({ "selector": selector }));
                }
            }
        }
        if draw.percent(20) {
            new("v1", "Service", (namespace, "manual"), json!({}));
        }
    }
    objects
}
