//! Draws inter-pod affinity and anti-affinity, and namespaces with labels. Few values, so that terms mean somebody.

use serde_json::{Map, Value, json};

use super::swarm::Swarm;
use crate::draw::Draw;
use crate::label_keys;

const KEYS: &[&str] = &[
    "kubernetes.io/hostname",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "disk",
    "topology.kubernetes.io/region",
];
const APPS: &[&str] = &["a", "b"];
const HASHES: &[&str] = &["1", "2"];
const TEAMS: &[&str] = &["red", "blue"];

/// Namespaces of pods. What is said of `absent` is said of nobody.
pub(super) const NAMESPACES: &[&str] = &["default", "shop"];
const NAMED: &[&str] = &["default", "shop", "absent"];

/// Gives a pod terms about others.
pub(super) fn companions(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for (field, chance) in [
        ("podAffinity", swarm.near),
        ("podAntiAffinity", swarm.apart),
    ] {
        let mut terms = Map::new();
        // Required ones end the matter soon.
        if draw.percent(chance / 2) {
            let count = draw.within(1, 2);
            let required: Vec<Value> = (0..count).map(|_| term(draw, &labels)).collect();
            let name = "requiredDuringSchedulingIgnoredDuringExecution";
            terms.insert(name.to_owned(), required.into());
        }
        if draw.percent(chance) {
            let count = draw.within(1, 3);
            let one = |draw: &mut Draw| {
                let weight = *draw.one(&[1, 2, 10, 50, 100]);
                json!({"weight": weight, "podAffinityTerm": term(draw, &labels)})
            };
            let preferred: Vec<Value> = (0..count).map(|_| one(draw)).collect();
            let name = "preferredDuringSchedulingIgnoredDuringExecution";
            terms.insert(name.to_owned(), preferred.into());
        }
        if !terms.is_empty() {
            pod["spec"]["affinity"][field] = terms.into();
        }
    }
}

/// A term of a pod with these labels.
fn term(draw: &mut Draw, labels: &Value) -> Value {
    let mut term = json!({"topologyKey": draw.word(KEYS)});
    match draw.below(20) {
        // Without a selector it means nobody, with an empty one everybody.
        0 => {}
        1 | 2 => term["labelSelector"] = json!({}),
        3..=5 => {
            let operator = draw.word(&["Exists", "DoesNotExist"]);
            term["labelSelector"] =
                json!({"matchExpressions": [{"key": "hash", "operator": operator}]});
        }
        6..=8 => {
            let operator = draw.word(&["In", "NotIn"]);
            let values = draw.some(HASHES, 1);
            term["labelSelector"] = json!({"matchLabels": {"app": draw.word(APPS)},
                "matchExpressions": [{"key": "hash", "operator": operator, "values": values}]});
        }
        _ => term["labelSelector"] = json!({"matchLabels": {"app": draw.word(APPS)}}),
    }
    if draw.percent(20) {
        let count = draw.within(1, 2);
        term["namespaces"] = draw.some(NAMED, count).into();
    }
    if draw.percent(30) {
        term["namespaceSelector"] = match draw.below(4) {
            0 => json!({}),
            1 => {
                // By what isn't there kube-scheduler selects otherwise than it says.
                let absent = draw.percent(5);
                let operator = if absent { "DoesNotExist" } else { "Exists" };
                json!({"matchExpressions": [{"key": "team", "operator": operator}]})
            }
            _ => json!({"matchLabels": {"team": draw.word(TEAMS)}}),
        };
    }
    let selector = term.get("labelSelector");
    let may_have_keys = selector.is_some_and(|it| it.get("matchExpressions").is_none());
    if may_have_keys && draw.percent(15) {
        label_keys::add(&mut term, "hash", draw.percent(50), labels);
    }
    term
}

/// The namespaces of a case; who selects them by label may miss some.
pub(super) fn objects(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    if swarm.near + swarm.apart == 0 {
        return Vec::new();
    }
    let mut objects = Vec::new();
    for name in NAMESPACES {
        if draw.percent(80) {
            objects.push(namespace(draw, name));
        }
    }
    objects
}

/// A namespace with labels.
pub(super) fn namespace(draw: &mut Draw, name: &str) -> Value {
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if draw.percent(75) {
        labels["team"] = draw.word(TEAMS).into();
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "uid": format!("namespace-{name}"), "labels": labels}})
}
