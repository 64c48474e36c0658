//! Draws pods that are on nodes: with what the kubelet tells of their resources, being resized, being deleted.

use serde_json::{Map, Value, json};

use super::amounts::{put, requests};
use super::pods;
use super::swarm::Swarm;
use crate::draw::Draw;
use crate::object;

/// A pod on `node`.
pub(super) fn pod(draw: &mut Draw, swarm: &Swarm, number: usize, node: &Value) -> Value {
    let mut pod = pods::pod(draw, swarm, &format!("r{number}"));
    pod["spec"]["nodeName"] = object::name(node).into();
    pod["status"]["phase"] = "Running".into();
    // Who was there first is rather of little importance.
    if draw.percent(50)
        && let Some(spec) = pod["spec"].as_object_mut()
    {
        spec.remove("priority");
        spec.remove("preemptionPolicy");
    }
    if draw.percent(swarm.resize) {
        told(draw, swarm, &mut pod);
    }
    if draw.percent(5) {
        terminate(draw, &mut pod);
    }
    pod
}

/// Marks the pod as being deleted, sometimes for others' sake.
pub(super) fn terminate(draw: &mut Draw, pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    if draw.percent(30) {
        let reason = draw.word(&["PreemptionByScheduler", "EvictionByEvictionAPI"]);
        pod["status"]["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": reason}]);
    }
}

/// Has the kubelet tell what containers, and the pod as a whole, have by now.
pub(super) fn told(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    for (field, statuses) in [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ] {
        let containers = object::list(pod, &format!("/spec/{field}")).to_vec();
        let told: Vec<Value> = containers
            .iter()
            .filter_map(|container| status(draw, swarm, container))
            .collect();
        if !told.is_empty() {
            pod["status"][statuses] = told.into();
        }
    }
    if draw.percent(40) {
        pod["status"]["resources"] = json!({"requests": whole(draw, swarm)});
    }
    if draw.percent(40) {
        pod["status"]["allocatedResources"] = whole(draw, swarm).into();
    }
    if draw.percent(50) {
        let reason = draw.word(&["Infeasible", "Infeasible", "Deferred"]);
        let status = draw.word(&["True", "True", "False"]);
        let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
        conditions.push(json!({"type": "PodResizePending", "status": status, "reason": reason}));
        if draw.percent(20) {
            conditions.push(json!({"type": "PodResizeInProgress", "status": "True"}));
        }
        pod["status"]["conditions"] = conditions.into();
    }
}

fn whole(draw: &mut Draw, swarm: &Swarm) -> Map<String, Value> {
    let mut list = Map::new();
    for resource in ["cpu", "memory", "hugepages-2Mi"] {
        if draw.percent(70) {
            put(draw, swarm, &mut list, resource);
        }
    }
    list
}

fn status(draw: &mut Draw, swarm: &Swarm, container: &Value) -> Option<Value> {
    if draw.percent(15) {
        return None;
    }
    let mut status = json!({"name": object::text(container, "/name"), "ready": true});
    if draw.percent(80) {
        status["resources"] = json!({"requests": requests(draw, swarm)});
    }
    if draw.percent(60) {
        status["allocatedResources"] = requests(draw, swarm).into();
    }
    Some(status)
}

/// Changes what the pod's containers ask for, as a resize does.
pub(super) fn resize(draw: &mut Draw, swarm: &Swarm, pod: &mut Value) {
    if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
        for container in containers {
            if draw.percent(60) {
                container["resources"] = json!({"requests": requests(draw, swarm)});
            }
        }
    }
    if draw.percent(80) {
        told(draw, swarm, pod);
    }
}
