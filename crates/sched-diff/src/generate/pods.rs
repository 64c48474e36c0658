//! Draws pods that look for a node.

use serde_json::{Map, Value, json};

use super::affinity::{affinity, node_selector};
use super::amounts::put;
use super::companions::{NAMESPACES, companions};
use super::containers::{apps, image, inits};
use super::nodes::{EFFECTS, TAINT_VALUES, TAINTS};
use super::preemption::rank;
use super::spread::spread;
use super::swarm::Swarm;
use crate::configuration::PROFILE;
use crate::draw::Draw;
use crate::object;

/// A pod of this name.
pub(super) fn pod(draw: &mut Draw, swarm: &Swarm, name: &str) -> Value {
    let namespace = draw.word(NAMESPACES);
    let mut spec = json!({
        "schedulerName": PROFILE,
        "containers": apps(draw, swarm),
        "tolerations": tolerations(draw, swarm),
    });
    let inits = inits(draw, swarm);
    if !inits.is_empty() {
        spec["initContainers"] = inits.into();
    }
    if draw.percent(swarm.whole) {
        spec["resources"] = whole(draw, swarm);
    }
    if draw.percent(swarm.overhead) {
        let mut overhead = Map::new();
        for resource in ["cpu", "memory", "example.com/gpu"] {
            if draw.percent(50) {
                put(draw, swarm, &mut overhead, resource);
            }
        }
        spec["overhead"] = overhead.into();
    }
    if let Some(affinity) = affinity(draw, swarm) {
        spec["affinity"] = json!({"nodeAffinity": affinity});
    }
    if let Some(selector) = node_selector(draw, swarm) {
        spec["nodeSelector"] = selector;
    }
    if draw.percent(swarm.features / 3) {
        spec["hostNetwork"] = true.into();
        spec["hostUsers"] = draw.percent(30).into();
    }
    if draw.percent(swarm.images / 4) {
        let reference = image(draw);
        spec["volumes"] = json!([{"name": "v", "image": {"reference": reference}}]);
    }
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": format!("pod-{name}"),
            "labels": {"app": draw.word(&["a", "b"])},
        },
        "spec": spec,
    });
    spread(draw, swarm, &mut pod);
    companions(draw, swarm, &mut pod);
    rank(draw, swarm, &mut pod);
    pod
}

/// Gives a pod other labels.
pub(super) fn relabel(draw: &mut Draw, pod: &mut Value) {
    let mut labels = json!({"app": draw.word(&["a", "b"])});
    if draw.percent(60) {
        labels["hash"] = draw.word(&["1", "2"]).into();
    }
    object::replace(pod, "/metadata/labels", labels);
}

/// Requests of the pod as a whole. Sometimes only limits, which don't count.
fn whole(draw: &mut Draw, swarm: &Swarm) -> Value {
    let mut list = Map::new();
    for resource in ["cpu", "memory", "hugepages-2Mi"] {
        if draw.percent(60) {
            put(draw, swarm, &mut list, resource);
        }
    }
    let kind = draw.word(&["requests", "requests", "requests", "limits"]);
    json!({ kind: list })
}

/// Tolerations, also of taints that nobody has.
fn tolerations(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    if !draw.percent(swarm.tolerations) {
        return Vec::new();
    }
    let count = draw.within(1, 4);
    (0..count).map(|_| toleration(draw)).collect()
}

fn toleration(draw: &mut Draw) -> Value {
    let mut toleration = Map::new();
    // Without a key only Exists is allowed; the comparisons need a gate that is off mostly.
    let operator = draw.word(&[
        "", "Equal", "Equal", "Exists", "Exists", "Exists", "Gt", "Lt",
    ]);
    let any = operator == "Exists" && draw.percent(15);
    if !any {
        toleration.insert("key".to_owned(), draw.word(TAINTS).into());
    }
    if operator != "Exists" && draw.percent(80) {
        let value = match &*operator {
            "Gt" | "Lt" => draw.word(&["4", "7", "-2"]),
            _ => draw.word(TAINT_VALUES),
        };
        toleration.insert("value".to_owned(), value.into());
    }
    if !operator.is_empty() {
        toleration.insert("operator".to_owned(), operator.into());
    }
    if draw.percent(60) {
        toleration.insert("effect".to_owned(), draw.word(EFFECTS).into());
    }
    toleration.into()
}
