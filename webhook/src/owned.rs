//! The fields of a proxy pod that the webhook owns: what it sets, and what it takes back from the saved manifest.
//!
//! All other fields belong to the pod's author and to other webhooks. Must not know admission.

use pilotage_api::keys;
use serde_json::{Map, Value, json};

use pilotage_model::constraints::ProxyConstraints;

/// Fields of `spec` that the webhook owns.
pub const SPEC_FIELDS: [&str; 6] = [
    "affinity",
    "nodeSelector",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
];

/// Metadata that the API server adds for itself, and status: never a part of what an author meant.
const NOT_SAVED: [&str; 1] = ["managedFields"];

/// The source pod behind `pod`, which has no system fields, and whose manifest says `saved`: the owned fields as saved,
/// all others as they are now, so that what other webhooks injected meanwhile reaches the delegate.
pub fn restore(pod: &Value, saved: &Value) -> Value {
    let mut source = pod.clone();
    for field in SPEC_FIELDS {
        put(
            &mut source["spec"],
            field,
            saved["spec"].get(field).cloned(),
        );
    }
    let label = saved["metadata"]["labels"]
        .get(keys::HAS_FINALIZER)
        .cloned();
    put_in_map(
        &mut source["metadata"],
        "labels",
        keys::HAS_FINALIZER,
        label,
        &saved["metadata"],
    );
    let recorded = saved["metadata"]["annotations"].get(keys::RECORDED);
    for (key, value) in [
        (keys::SOURCE_POD_MANIFEST, None),
        (keys::RECORDED, recorded.cloned()),
    ] {
        let metadata = &mut source["metadata"];
        put_in_map(metadata, "annotations", key, value, &saved["metadata"]);
    }
    let finalizers = restored_finalizers(&pod["metadata"], &saved["metadata"]);
    put(&mut source["metadata"], "finalizers", finalizers);
    source
}

/// A copy of `pod` as a manifest keeps it when there is none yet.
pub fn without_system_fields(pod: &Value) -> Value {
    without(pod, |field, value| match field {
        "status" => None,
        "metadata" => Some(without(value, |field, value| {
            (!NOT_SAVED.contains(&field)).then(|| value.clone())
        })),
        _ => Some(value.clone()),
    })
}

/// A copy of an object with what `copy` makes of each field; of anything else, as it is.
fn without(value: &Value, copy: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    let kept = fields
        .iter()
        .filter_map(|(field, value)| Some((field.clone(), copy(field, value)?)));
    Value::Object(kept.collect())
}

/// Turns `pod` into the proxy of `source`: sets every owned field.
pub fn set(pod: &mut Value, source: &Value, manifest: &str, constraints: ProxyConstraints) {
    let ProxyConstraints {
        mut node_selector,
        tolerations,
        affinity,
        topology_spread_constraints,
    } = constraints;
    node_selector.insert(keys::PROVIDER.to_owned(), keys::PROVIDER_VALUE.into());
    let spec = &mut pod["spec"];
    put(spec, "nodeSelector", Some(Value::Object(node_selector)));
    put(
        spec,
        "tolerations",
        Some(Value::Array(all_tolerations(tolerations))),
    );
    put(spec, "affinity", affinity);
    put(
        spec,
        "topologySpreadConstraints",
        topology_spread_constraints,
    );
    put(spec, "schedulerName", Some(keys::PROXY_SCHEDULER.into()));
    // Nothing runs behind a proxy here; the finalizer that it gets with its record is what waits for the delegate.
    put(spec, "terminationGracePeriodSeconds", Some(0.into()));

    let metadata = &mut pod["metadata"];
    put_in_map(
        metadata,
        "labels",
        keys::HAS_FINALIZER,
        Some(keys::TRUE.into()),
        &Value::Null,
    );
    for (key, value) in [
        (keys::SOURCE_POD_MANIFEST, manifest),
        (keys::RECORDED, keys::TRUE),
    ] {
        let value = Some(value.into());
        put_in_map(metadata, "annotations", key, value, &Value::Null);
    }
    // Ours comes with the record: a pod that was given to nobody leaves at once.
    let others: Vec<Value> = finalizers(&source["metadata"])
        .filter(|name| !keys::is_ours(name))
        .map(Value::from)
        .collect();
    let others = (!others.is_empty()).then_some(Value::Array(others));
    put(metadata, "finalizers", others);
}

/// The tolerations of every proxy, and those of `added` that don't weaken them.
fn all_tolerations(added: Vec<Value>) -> Vec<Value> {
    let endless =
        |taint: &str| json!({ "key": taint, "operator": "Exists", "effect": "NoExecute" });
    let mut all = vec![
        json!({
            "key": keys::PROVIDER,
            "operator": "Equal",
            "value": keys::PROVIDER_VALUE,
            "effect": "NoSchedule",
        }),
        json!({ "key": keys::NETWORK_UNAVAILABLE_TAINT, "operator": "Exists" }),
        // The cluster's node lifecycle can't tell a lost target from our own silence, so it must not evict; without
        // the effect they would also let pods be scheduled to lost targets.
        endless(keys::NOT_READY_TAINT),
        endless(keys::UNREACHABLE_TAINT),
    ];
    for toleration in added.into_iter().filter_map(harmless) {
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    all
}

/// A toleration that doesn't make the cluster evict proxies of a lost target: of all tolerations that match a taint the
/// shortest time counts. What its author wrote of such times stays in the manifest, where policies read it.
fn harmless(mut toleration: Value) -> Option<Value> {
    let key = toleration["key"].as_str().unwrap_or_default();
    let effect = toleration["effect"].as_str().unwrap_or_default();
    if key == keys::NOT_READY_TAINT || key == keys::UNREACHABLE_TAINT {
        return None;
    }
    if key.is_empty() && matches!(effect, "" | "NoExecute") {
        put(&mut toleration, "tolerationSeconds", None);
    }
    Some(toleration)
}

fn finalizers(metadata: &Value) -> impl Iterator<Item = &str> {
    metadata["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The pod's own finalizers with those of our prefix that its author gave.
fn restored_finalizers(now: &Value, saved: &Value) -> Option<Value> {
    let others = |metadata| -> Vec<&str> {
        finalizers(metadata)
            .filter(|name| !keys::is_ours(name))
            .collect()
    };
    if others(now) == others(saved) {
        // Nobody else touched them: keep the author's order.
        return saved.get("finalizers").cloned();
    }
    let ours = finalizers(saved).filter(|name| keys::is_ours(name));
    let all: Vec<Value> = others(now)
        .into_iter()
        .chain(ours)
        .map(Value::from)
        .collect();
    (!all.is_empty()).then_some(Value::Array(all))
}

/// Sets or removes one field of an object.
fn put(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => {
            object.insert(field.to_owned(), value);
        }
        None => {
            object.remove(field);
        }
    }
}

/// Sets or removes one key of the map `field`. A map that becomes empty goes, unless `template` has it.
fn put_in_map(object: &mut Value, field: &str, key: &str, value: Option<Value>, template: &Value) {
    let mut map = object[field].as_object().cloned().unwrap_or_default();
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.remove(key);
        }
    }
    let keep = !map.is_empty() || template.get(field).is_some_and(Value::is_object);
    put(object, field, keep.then_some(Value::Object(map)));
}

/// Keys and values of all annotations, in bytes, as the API server counts them.
pub fn annotation_bytes(pod: &Value) -> usize {
    let none = Map::new();
    let annotations = pod["metadata"]["annotations"].as_object().unwrap_or(&none);
    annotations
        .iter()
        .map(|(key, value)| {
            let value = value.as_str().map_or(0, str::len);
            key.len().saturating_add(value)
        })
        .sum()
}
