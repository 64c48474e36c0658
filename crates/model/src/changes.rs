//! What a running proxy pod may change and its delegate follows: more ephemeral containers, other amounts of CPU and memory.
//!
//! The result is a change of the chaperon's spec. When it is sent, and what the target does with it, is decided elsewhere.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use pilotage_api::keys;
use serde_json::{Map, Value, json};

use crate::{delegate, kept_labels, labels::LabelKeys};

/// Amounts that Kubernetes changes in place.
pub const RESIZED: [&str; 2] = ["cpu", "memory"];
/// The two kinds of amounts in a container's resources.
pub const AMOUNTS: [&str; 2] = ["requests", "limits"];

/// Merge patch of a chaperon's spec, so that it has what its proxy pod has by now; `None` if it does.
///
/// What the proxy lacks is left alone: Kubernetes takes neither ephemeral containers nor amounts away.
pub fn of_spec(proxy: &Pod, chaperon: &Map<String, Value>) -> Option<Value> {
    let spec = proxy.spec.as_ref()?;
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let pod_level = spec.resources.as_ref();
    let changes = [
        ("ephemeralContainers", with_ephemeral(proxy, spec, chaperon)),
        (
            "containers",
            with_amounts(&spec.containers, chaperon.get("containers")),
        ),
        (
            "initContainers",
            with_amounts(init, chaperon.get("initContainers")),
        ),
        (
            "resources",
            pod_level.and_then(|own| amounts(own, chaperon.get("resources"))),
        ),
    ];
    let patch: Map<String, Value> = changes
        .into_iter()
        .filter_map(|(field, value)| Some((field.to_owned(), value?)))
        .collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

// ---- ephemeral containers ---------------------------------------------------------------------------------------

/// The chaperon's list, and behind it those that only the proxy has.
fn with_ephemeral(proxy: &Pod, spec: &PodSpec, chaperon: &Map<String, Value>) -> Option<Value> {
    let known = list(chaperon.get("ephemeralContainers"));
    let is_new = |name: &str| known.iter().all(|known| known["name"] != name);
    let own = spec.ephemeral_containers.iter().flatten();
    let mut new: Vec<Value> = own
        .filter(|container| is_new(&container.name))
        .filter_map(|container| serde_json::to_value(container).ok())
        .collect();
    if new.is_empty() {
        return None;
    }
    let has_volume = |name: &Value| {
        list(chaperon.get("volumes"))
            .iter()
            .any(|volume| volume["name"] == *name)
    };
    respell(proxy, &mut new);
    for mounts in new.iter_mut().filter_map(|it| it.get_mut("volumeMounts")) {
        // The delegate's token is in a volume of another name.
        if let Value::Array(mounts) = mounts {
            mounts.retain(|mount| has_volume(&mount["name"]));
        }
    }
    Some(known.iter().cloned().chain(new).collect())
}

/// Their variables may name labels of the pod, whose keys are others there.
fn respell(proxy: &Pod, containers: &mut [Value]) {
    let texts = |map: &'_ Option<BTreeMap<String, String>>| map.clone().unwrap_or_default();
    let (labels, annotations) = (
        texts(&proxy.metadata.labels),
        texts(&proxy.metadata.annotations),
    );
    // One that can't be read gave no chaperon.
    let kept = annotations
        .get(keys::NO_PREFIX_LABEL_REGEXP)
        .and_then(|pattern| kept_labels::parse(pattern).ok());
    let labels = labels.iter().map(|(key, value)| (&**key, &**value));
    let labels = LabelKeys::new(&labels.collect(), kept.as_ref());
    for container in containers {
        delegate::respell_environment(container, &labels);
    }
}

// ---- resources --------------------------------------------------------------------------------------------------

/// The chaperon's list of containers with the amounts of the proxy's.
fn with_amounts(own: &[Container], known: Option<&Value>) -> Option<Value> {
    let known = list(known);
    let wanted: BTreeMap<&str, Value> = own
        .iter()
        .filter_map(|own| {
            let known = known.iter().find(|known| known["name"] == *own.name)?;
            let changed = amounts(own.resources.as_ref()?, known.get("resources"))?;
            Some((&*own.name, changed))
        })
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let changed = known.iter().map(|known| {
        let name = known["name"].as_str().unwrap_or_default();
        let mut known = known.clone();
        if let (Some(resources), Some(container)) = (wanted.get(name), known.as_object_mut()) {
            container.insert("resources".to_owned(), resources.clone());
        }
        known
    });
    Some(changed.collect())
}

/// The chaperon's resources with the proxy's amounts, if they differ.
fn amounts(own: &ResourceRequirements, known: Option<&Value>) -> Option<Value> {
    let said = |kind: &str, name: &str| known?.get(kind)?.get(name);
    let mut wanted = None;
    for (kind, own) in AMOUNTS.into_iter().zip([&own.requests, &own.limits]) {
        for name in RESIZED {
            let Some(amount) = own.as_ref().and_then(|own| own.get(name)) else {
                continue;
            };
            if says(said(kind, name), &amount.0) {
                continue;
            }
            let known = || known.and_then(Value::as_object).cloned();
            let wanted = wanted.get_or_insert_with(|| known().unwrap_or_default());
            let kind = wanted.entry(kind).or_insert_with(|| json!({}));
            // A list or a text there is no spec's; whoever keeps it so gets the same answer again.
            if !kind.is_object() {
                *kind = json!({});
            }
            kind[name] = amount.0.clone().into();
        }
    }
    wanted.map(Value::Object)
}

fn says(known: Option<&Value>, amount: &str) -> bool {
    match known {
        Some(Value::String(text)) => text == amount,
        Some(Value::Number(number)) => number.to_string() == amount,
        _ => false,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(spec: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "labels": { "app": "web", "team": "a" },
                "annotations": { keys::NO_PREFIX_LABEL_REGEXP: "^team=" },
            },
            "spec": spec,
        }))
        .unwrap()
    }

    fn change(proxy_spec: &Value, chaperon: Value) -> Option<Value> {
        let Value::Object(chaperon) = chaperon else {
            panic!("{chaperon} is no spec");
        };
        of_spec(&proxy(proxy_spec), &chaperon)
    }

    #[test]
    fn a_debug_container_comes_behind_those_that_are_there() {
        let label = |key: &str| json!({ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": format!("metadata.labels['{key}']") } } });
        let mount = |name: &str| json!({ "name": name, "mountPath": format!("/{name}") });
        let spec = json!({
            "containers": [{ "name": "app" }],
            "ephemeralContainers": [
                { "name": "old", "image": "x" },
                {
                    "name": "new", "image": "busybox", "targetContainerName": "app",
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
                "name": "new", "image": "busybox", "targetContainerName": "app",
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
