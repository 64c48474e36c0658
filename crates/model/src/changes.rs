//! What a running proxy pod may change and its delegate follows: more ephemeral containers, other amounts of CPU and
//! memory.
//!
//! The result is a change of the chaperon's spec. When it is sent, and what the target does with it, is decided
//! elsewhere. Both specs are read as JSON, so that no field is lost that our types don't know.

mod digest;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::keys;
use serde_json::{Map, Value, json};

pub use digest::Digest;

use crate::{delegate, kept_labels, labels::LabelKeys};

/// Amounts that Kubernetes changes in place.
pub const RESIZED: [&str; 2] = ["cpu", "memory"];
/// The two kinds of amounts in a container's resources.
pub const AMOUNTS: [&str; 2] = ["requests", "limits"];
/// Lists of containers whose amounts may change.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
/// The ephemeral ones.
const EPHEMERAL: &str = "ephemeralContainers";
/// Amounts of a container, and of the pod as a whole.
const RESOURCES: &str = "resources";

/// Merge patch of a chaperon's spec, so that it has what its proxy pod has by now; `None` if it does. Both specs have
/// to be whole.
///
/// What the proxy lacks is left alone: Kubernetes takes neither ephemeral containers nor amounts away. A container that
/// only the proxy has was put there by admission in the source, and stays there.
pub fn of_spec(
    proxy: &ObjectMeta,
    spec: &Value,
    chaperon: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let lists = CONTAINERS.map(|field| {
        let changed = with_amounts(list(spec.get(field)), list(chaperon.get(field)));
        (field, changed)
    });
    let pod_level = spec.get(RESOURCES);
    let others = [
        (EPHEMERAL, with_ephemeral(proxy, spec, chaperon)),
        (
            RESOURCES,
            pod_level.and_then(|own| amounts(own, chaperon.get(RESOURCES))),
        ),
    ];
    let patch: Map<String, Value> = lists
        .into_iter()
        .chain(others)
        .filter_map(|(field, value)| Some((field.to_owned(), value?)))
        .collect();
    (!patch.is_empty()).then_some(patch)
}

/// Whether changed fields of a spec are others than ephemeral containers.
pub fn has_amounts(changed: &Map<String, Value>) -> bool {
    changed.keys().any(|field| field != EPHEMERAL)
}

// ---- ephemeral containers ---------------------------------------------------------------------------------------

/// The chaperon's list, and behind it those that only the proxy has.
fn with_ephemeral(
    proxy: &ObjectMeta,
    spec: &Value,
    chaperon: &Map<String, Value>,
) -> Option<Value> {
    let known = list(chaperon.get(EPHEMERAL));
    let known_names = names(known);
    let is_new = |own: &&Value| {
        let name = own["name"].as_str();
        name.is_some_and(|name| !known_names.contains(name))
    };
    let own = list(spec.get(EPHEMERAL));
    let mut new: Vec<Value> = own.iter().filter(is_new).cloned().collect();
    if new.is_empty() {
        return None;
    }
    let volumes = names(list(chaperon.get("volumes")));
    respell(proxy, &mut new);
    for mounts in new.iter_mut().filter_map(|it| it.get_mut("volumeMounts")) {
        // The delegate's token is in a volume of another name.
        if let Value::Array(mounts) = mounts {
            mounts.retain(|mount| {
                let name = mount["name"].as_str();
                name.is_some_and(|name| volumes.contains(name))
            });
        }
    }
    Some(known.iter().cloned().chain(new).collect())
}

fn names(list: &[Value]) -> BTreeSet<&str> {
    list.iter().filter_map(|it| it["name"].as_str()).collect()
}

/// Their variables may name labels of the pod, whose keys are others there.
fn respell(proxy: &ObjectMeta, containers: &mut [Value]) {
    let labels: BTreeMap<&str, &str> = proxy
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    let annotations = proxy.annotations.as_ref();
    // One that can't be read gave no chaperon.
    let kept = annotations
        .and_then(|all| all.get(keys::NO_PREFIX_LABEL_REGEXP))
        .and_then(|pattern| kept_labels::parse(pattern).ok());
    let labels = LabelKeys::new(&labels, kept.as_ref());
    for container in containers {
        delegate::respell_environment(container, &labels);
    }
}

// ---- resources --------------------------------------------------------------------------------------------------

/// The chaperon's list of containers with the amounts of the proxy's.
fn with_amounts(own: &[Value], known: &[Value]) -> Option<Value> {
    let own: BTreeMap<&str, &Value> = own
        .iter()
        .filter_map(|own| Some((own["name"].as_str()?, own.get(RESOURCES)?)))
        .collect();
    let mut differs = false;
    let changed = known.iter().map(|known| {
        let mut container = known.clone();
        let wanted = known["name"]
            .as_str()
            .and_then(|name| amounts(own.get(name)?, known.get(RESOURCES)));
        if let (Some(resources), Some(container)) = (wanted, container.as_object_mut()) {
            container.insert(RESOURCES.to_owned(), resources);
            differs = true;
        }
        container
    });
    let changed: Value = changed.collect();
    differs.then_some(changed)
}

/// The chaperon's resources with the proxy's amounts, if they differ.
fn amounts(own: &Value, known: Option<&Value>) -> Option<Value> {
    let mut wanted = None;
    for kind in AMOUNTS {
        for name in RESIZED {
            let Some(amount) = amount(Some(own), kind, name) else {
                continue;
            };
            if self::amount(known, kind, name).as_ref() == Some(&amount) {
                continue;
            }
            let known = || known.and_then(Value::as_object).cloned();
            let wanted = wanted.get_or_insert_with(|| known().unwrap_or_default());
            let kind = wanted.entry(kind).or_insert_with(|| json!({}));
            // A list or a text there is no spec's; whoever keeps it so gets the same answer again.
            if !kind.is_object() {
                *kind = json!({});
            }
            kind[name] = amount.into();
        }
    }
    wanted.map(Value::Object)
}

/// One amount among a container's resources; authors may write it as a number.
fn amount<'a>(resources: Option<&'a Value>, kind: &str, name: &str) -> Option<Cow<'a, str>> {
    match resources?.get(kind)?.get(name)? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> ObjectMeta {
        serde_json::from_value(json!({
            "labels": { "app": "web", "team": "a" },
            "annotations": { keys::NO_PREFIX_LABEL_REGEXP: "^team=" },
        }))
        .unwrap()
    }

    fn change(proxy_spec: &Value, chaperon: Value) -> Option<Value> {
        let Value::Object(chaperon) = chaperon else {
            panic!("{chaperon} is no spec");
        };
        of_spec(&proxy(), proxy_spec, &chaperon).map(Value::Object)
    }

    #[test]
    fn a_debug_container_comes_behind_those_that_are_there() {
        let label = |key: &str| {
            json!({ "name": "A",
            "valueFrom": { "fieldRef": { "fieldPath": format!("metadata.labels['{key}']") } } })
        };
        let mount = |name: &str| json!({ "name": name, "mountPath": format!("/{name}") });
        let spec = json!({
            "containers": [{ "name": "app" }],
            "ephemeralContainers": [
                { "name": "old", "image": "x" },
                {
                    "name": "new", "image": "busybox", "targetContainerName": "app", "fieldOfTomorrow": 1,
                    "env": [label("app"), label("team")],
                    "volumeMounts": [mount("data"), mount("kube-api-access-x")],
                },
            ],
        });
        let chaperon = json!({
            "containers": [{ "name": "app", "fieldOfTomorrow": 1 }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
            "ephemeralContainers": [{ "name": "old", "image": "y" }],
        });
        let there = format!("{}app", keys::PREFIX);
        let want = json!({ "ephemeralContainers": [
            { "name": "old", "image": "y" },
            {
                "name": "new", "image": "busybox", "targetContainerName": "app", "fieldOfTomorrow": 1,
                "env": [label(&there), label("team")],
                "volumeMounts": [mount("data")],
            },
        ] });
        assert_eq!(change(&spec, chaperon.clone()), Some(want.clone()));
        let mut after = chaperon;
        after["ephemeralContainers"] = want["ephemeralContainers"].clone();
        assert_eq!(change(&spec, after), None);
    }

    #[test]
    fn amounts_of_cpu_and_memory_follow_the_proxy_and_nothing_else_does() {
        let container = |name: &str, cpu: &str| {
            let amounts = json!({ "cpu": cpu, "example.com/gpu": "1" });
            json!({ "name": name, "image": "x", "resources": { "requests": amounts } })
        };
        let chaperon = |cpu: &str| {
            json!({
                "containers": [container("a", cpu), container("b", "1")],
                "initContainers": [container("side", "1")],
                "resources": { "limits": { "cpu": 3 } },
            })
        };
        let mut spec = json!({
            "containers": [container("b", "1"), container("a", "2")],
            "initContainers": [container("side", "1")],
            "resources": { "limits": { "cpu": "3" } },
        });
        spec["containers"][0]["image"] = "another".into();
        spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2".into();
        assert_eq!(
            change(&spec, chaperon("1")),
            Some(json!({ "containers": [container("a", "2"), container("b", "1")] }))
        );
        assert_eq!(change(&spec, chaperon("2")), None);
        spec["resources"]["limits"]["memory"] = "1Gi".into();
        spec["initContainers"][0]["resources"]["limits"] = json!({ "cpu": "4" });
        let mut side = container("side", "1");
        side["resources"]["limits"] = json!({ "cpu": "4" });
        let resources = json!({ "limits": { "cpu": 3, "memory": "1Gi" } });
        assert_eq!(
            change(&spec, chaperon("2")),
            Some(json!({ "initContainers": [side], "resources": resources }))
        );
    }

    #[test]
    fn what_the_proxy_lacks_stays_and_oddities_of_a_chaperon_do_no_harm() {
        let amounts = json!({ "requests": { "cpu": "1" } });
        let full = json!({
            "containers": [{ "name": "a", "resources": amounts }],
            "ephemeralContainers": [{ "name": "theirs" }],
        });
        assert_eq!(
            change(&json!({ "containers": [{ "name": "a" }] }), full),
            None
        );
        let spec = json!({ "containers": [{ "name": "a", "resources": amounts }] });
        for odd in [
            json!({ "containers": "x" }),
            json!({ "containers": [7, { "name": 7 }] }),
        ] {
            assert_eq!(change(&spec, odd), None);
        }
        for odd in [
            json!("x"),
            json!({ "requests": "x" }),
            json!({ "requests": [] }),
        ] {
            let odd = json!({ "containers": [{ "name": "a", "resources": odd }] });
            assert_eq!(
                change(&spec, odd).unwrap()["containers"][0]["resources"],
                amounts
            );
        }
    }
}
