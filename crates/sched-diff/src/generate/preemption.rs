//! Draws what preemption looks at: priorities, when pods started, disruption budgets, arguments.

use serde_json::{Map, Value, json};

use super::companions::NAMESPACES;
use super::swarm::Swarm;
use crate::draw::Draw;

const APPS: &[&str] = &["a", "b"];
const HASHES: &[&str] = &["1", "2"];
const PRIORITIES: &[i64] = &[0, 10, 10, 1000, -10, 2_000_000_000];

/// Gives a pod a priority, and the time when it started, as it will be once it has a node.
pub(super) fn rank(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    if draw.percent(swarm.priorities) {
        pod["spec"]["priority"] = (*draw.one(PRIORITIES)).into();
        match draw.below(10) {
            0 => pod["spec"]["preemptionPolicy"] = "Never".into(),
            1 => pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority".into(),
            _ => {}
        }
    }
    start(draw, swarm, pod);
}

/// Gives a pod another time when it started. Pods that started together, or haven't, are rare: which of them is spared
/// depends on their order.
pub(super) fn start(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    if draw.percent(swarm.unstarted) {
        return;
    }
    let seconds = draw.below(24 * 3600);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let time = format!("2026-01-01T{hour:02}:{minute:02}:{second:02}Z");
    pod["status"]["startTime"] = time.into();
}

/// Disruption budgets of a case.
pub(super) fn objects(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    let mut objects = Vec::new();
    for number in 0..4 {
        if draw.percent(swarm.budgets) {
            objects.push(budget(draw, number));
        }
    }
    objects
}

/// The budget of this number.
pub(super) fn budget(draw: &mut Draw, number: usize) -> Value {
    let selector = match draw.below(12) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        2 => json!({"matchLabels": {"app": draw.word(APPS), "hash": draw.word(HASHES)}}),
        3 => {
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [draw.word(APPS)]}]})
        }
        _ => json!({"matchLabels": {"app": draw.word(APPS)}}),
    };
    let mut status = json!({"disruptionsAllowed": *draw.one(&[0, 0, 1, 1, 2, 5]),
        "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    if draw.percent(40) {
        let mut disrupted = Map::new();
        for _ in 0..draw.within(1, 6) {
            let kind = draw.word(&["r", "p"]);
            let name = format!("{kind}{}", draw.below(24));
            disrupted.insert(name, "2026-01-01T00:00:00Z".into());
        }
        status["disruptedPods"] = disrupted.into();
    }
    let mut spec = json!({ "selector": selector });
    if draw.percent(5) {
        spec = json!({});
    }
    let metadata = json!({"namespace": NAMESPACES[number % 2], "name": format!("b{number}"),
        "uid": format!("budget-{number}")});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
        "spec": spec, "status": status})
}

/// How many nodes are tried at least.
pub(super) fn arguments(draw: &mut Draw, _: &Swarm) -> Value {
    let percentage = *draw.one(&[0, 1, 10, 50, 100]);
    let least = usize::from(percentage == 0);
    json!({"minCandidateNodesPercentage": percentage,
        "minCandidateNodesAbsolute": (*draw.one(&[0, 1, 3, 100])).max(least)})
}
