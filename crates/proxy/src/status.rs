//! What of a delegate's status and annotations goes to the proxy pod, as patches; nothing if nothing changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use pilotage_api::{PodChaperon, keys};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Fields of a pod's status that belong to the cluster where the pod object lives.
const LOCAL_FIELDS: [&str; 5] = [
    "observedGeneration",
    "nominatedNodeName",
    "qosClass",
    "resourceClaimStatuses",
    "resize",
];

/// Lists of container statuses, each with the names of the containers that the spec has for it.
fn container_lists(spec: &PodSpec) -> [(&'static str, Vec<&str>); 3] {
    let plain = spec.containers.iter().map(|c| &*c.name);
    let init = spec.init_containers.iter().flatten().map(|c| &*c.name);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    [
        ("containerStatuses", plain.collect()),
        ("initContainerStatuses", init.collect()),
        (
            "ephemeralContainerStatuses",
            ephemeral.map(|c| &*c.name).collect(),
        ),
    ]
}

/// The merge patch of `pods/status` that makes the proxy look like its delegate; `None` if it does already.
///
/// Statuses of containers that the proxy's spec doesn't have are left out, and conditions that only the proxy has
/// (readiness gates of the source, for instance) stay. It carries the UID, so that a pod of the same name stays alone.
pub fn status_patch(proxy: &Pod, chaperon: &PodChaperon) -> Option<Value> {
    let mut wanted = chaperon.status.as_ref()?.0.clone();
    for field in LOCAL_FIELDS {
        wanted.remove(field);
    }
    let spec = proxy.spec.as_ref();
    for (statuses, known) in spec.map(container_lists).unwrap_or_default() {
        if let Some(Value::Array(list)) = wanted.get_mut(statuses) {
            list.retain(|status| {
                status["name"]
                    .as_str()
                    .is_some_and(|name| known.contains(&name))
            });
        }
    }
    let current = match serde_json::to_value(&proxy.status).ok()? {
        Value::Object(current) => current,
        _ => Map::new(),
    };
    merge_conditions(&mut wanted, &current);
    if same_to_us(&wanted, &current) {
        return None;
    }
    for field in current.keys() {
        if !LOCAL_FIELDS.contains(&field.as_str()) && !wanted.contains_key(field) {
            wanted.insert(field.clone(), Value::Null);
        }
    }
    Some(json!({ "metadata": { "uid": proxy.metadata.uid }, "status": wanted }))
}

/// Puts the delegate's conditions first, then those that only the proxy has.
fn merge_conditions(wanted: &mut Map<String, Value>, current: &Map<String, Value>) {
    let mut conditions = match wanted.remove("conditions") {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    };
    for condition in &mut conditions {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("observedGeneration");
        }
    }
    if let Some(Value::Array(own)) = current.get("conditions") {
        for condition in own {
            if conditions.iter().all(|c| c["type"] != condition["type"]) {
                conditions.push(condition.clone());
            }
        }
    }
    wanted.insert("conditions".to_owned(), Value::Array(conditions));
}

/// Compares what our types know of the two: a field that they don't know, and so can't read back, mustn't be patched
/// for ever.
fn same_to_us(wanted: &Map<String, Value>, current: &Map<String, Value>) -> bool {
    let mut current = current.clone();
    for field in LOCAL_FIELDS {
        current.remove(field);
    }
    if let Some(Value::Array(conditions)) = current.get_mut("conditions") {
        for fields in conditions.iter_mut().filter_map(Value::as_object_mut) {
            fields.remove("observedGeneration");
        }
    }
    let typed = |map: Map<String, Value>| PodStatus::deserialize(Value::Object(map));
    match (typed(wanted.clone()), typed(current)) {
        (Ok(mut wanted), Ok(mut current)) => {
            for status in [&mut wanted, &mut current] {
                if let Some(conditions) = &mut status.conditions {
                    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
                }
            }
            wanted == current
        }
        // What isn't a PodStatus is not passed on.
        _ => true,
    }
}

/// The merge patch that brings the delegate's annotations (without ours) to the proxy; `None` if they are there.
pub fn annotations_patch(proxy: &Pod, chaperon: &PodChaperon) -> Option<Value> {
    let current = proxy.metadata.annotations.as_ref();
    let changed: BTreeMap<_, _> = chaperon
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| !keys::is_ours(key))
        .filter(|(key, value)| current.and_then(|all| all.get(*key)) != Some(value))
        .collect();
    (!changed.is_empty())
        .then(|| json!({ "metadata": { "uid": proxy.metadata.uid, "annotations": changed } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(status: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "u", "annotations": { "team": "a" } },
            "spec": { "containers": [{ "name": "main" }] },
            "status": status,
        }))
        .unwrap()
    }

    fn chaperon(status: &Value) -> PodChaperon {
        serde_json::from_value(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": { "annotations": {
                "team": "a", "cni": "10.0.0.1", "multicluster.admiralty.io/attempt": "1",
            } },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    fn container(name: &str) -> Value {
        json!({ "name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0 })
    }

    #[test]
    fn a_delegates_status_reaches_the_proxy_once() {
        let delegate = chaperon(&json!({
            "phase": "Running",
            "qosClass": "Burstable",
            "futureField": 1,
            "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": 7 }],
            "containerStatuses": [container("main"), container("injected-there")],
        }));
        let before = proxy(&json!({
            "phase": "Pending",
            "message": "old",
            "qosClass": "BestEffort",
            "conditions": [{ "type": "example.com/gate", "status": "True" }],
        }));
        let patch = status_patch(&before, &delegate).unwrap();
        let status = &patch["status"];
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(status["phase"], "Running");
        assert_eq!(
            status["message"],
            Value::Null,
            "what the delegate lacks goes"
        );
        assert!(status.get("qosClass").is_none(), "belongs to the source");
        assert_eq!(status["futureField"], 1, "unknown fields pass");
        assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 1);
        assert_eq!(status["conditions"].as_array().unwrap().len(), 2);

        let mut merged = serde_json::to_value(&before).unwrap();
        json_merge(&mut merged, &patch);
        let after: Pod = serde_json::from_value(merged).unwrap();
        assert_eq!(
            status_patch(&after, &delegate),
            None,
            "nothing is left to do"
        );
    }

    /// RFC 7396, enough for the test.
    fn json_merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                json_merge(&mut target[key.as_str()], value);
            }
        }
    }

    #[test]
    fn only_new_annotations_that_are_not_ours_are_copied() {
        let patch = annotations_patch(&proxy(&json!({})), &chaperon(&json!({}))).unwrap();
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({ "cni": "10.0.0.1" })
        );
    }

    #[test]
    fn a_chaperon_without_status_changes_nothing() {
        let mut bare = chaperon(&json!({}));
        bare.status = None;
        assert_eq!(status_patch(&proxy(&json!({})), &bare), None);
    }
}
