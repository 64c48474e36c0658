//! What a pod's chaperon will take in the memory of whoever watches it: one that would take more than a pod's share is
//! refused where its author hears of it.
//!
//! Who weighs is an argument: it has to be done as by those who keep chaperons. Must not know how much there is in all.

use pilotage_api::limits::{CHAPERON_KEPT, CHAPERON_WHOLE, LABEL, SUBDOMAIN};
use pilotage_api::parent::{ClusterUid, ParentLink};
use serde_json::Value;
use thiserror::Error;

use crate::chaperon;

/// What the API server, the protocol and a target's network add to metadata and status of any chaperon: UID, times and
/// finalizers, numbers, a refusal, a few annotations, conditions and addresses.
const OF_ANY: usize = 32 << 10;
/// The status of a container that has ended once, with resources, user and images by their digests.
const OF_A_CONTAINER: usize = 14 << 10;
/// What that says of each of its mounts.
const OF_A_MOUNT: usize = 1280;
/// An entry of managed fields, besides its key: a field whose value is an empty object.
const OF_A_MANAGED_FIELD: usize = 800;
/// Longest UID of any object.
const UID: usize = 36;

/// Why a pod can't have a chaperon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TooHeavy {
    /// What is kept of it is too much.
    #[error(
        "the labels and annotations of its PodChaperon, and the status of {containers} containers, would take {} KiB \
         of the memory of whoever watches it, and may take {}: each label or annotation takes a tenth of a KiB \
         beside its text, and each container {}",
        .weight >> 10, CHAPERON_KEPT >> 10, OF_A_CONTAINER >> 10
    )]
    Kept {
        /// What it would weigh.
        weight: usize,
        /// How many containers it has.
        containers: usize,
    },
    /// All of it is.
    #[error(
        "its PodChaperon would take {} KiB of the memory of whoever reads it, and may take {}: each object in its \
         spec, even an empty one, and each label or annotation takes over half a KiB",
        .weight >> 10, CHAPERON_WHOLE >> 10
    )]
    Whole {
        /// What it would weigh.
        weight: usize,
    },
}

/// Whether the chaperon of a source pod would be light enough, whatever name and UIDs that gets. One of which no
/// chaperon can be made weighs nothing.
pub fn check_source(source: &Value, weigh: impl Fn(&Value) -> usize) -> Result<(), TooHeavy> {
    let longest = ParentLink {
        cluster_uid: Some(ClusterUid("u".repeat(UID))),
        cluster_name: Some("c".repeat(LABEL)),
        uid: "u".repeat(UID),
        namespace: "n".repeat(LABEL),
        name: "n".repeat(SUBDOMAIN),
    };
    match chaperon::chaperon(source, &longest) {
        Ok(chaperon) => check(&chaperon, weigh),
        Err(_) => Ok(()),
    }
}

/// Whether a chaperon that is there would be light enough with these fields in its spec.
pub fn check_change(
    mut chaperon: Value,
    fields: &Value,
    weigh: impl Fn(&Value) -> usize,
) -> Result<(), TooHeavy> {
    // What others write there has room of its own in the sum.
    if let Some(whole) = chaperon.as_object_mut() {
        whole.remove("status");
    }
    if let Some(metadata) = chaperon["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    for (field, value) in fields.as_object().into_iter().flatten() {
        chaperon["spec"][field] = value.clone();
    }
    check(&chaperon, weigh)
}

/// Whether a chaperon that a source is about to create is light enough.
pub fn check(chaperon: &Value, weigh: impl Fn(&Value) -> usize) -> Result<(), TooHeavy> {
    let spec = &chaperon["spec"];
    let lists =
        ["initContainers", "containers", "ephemeralContainers"].map(|list| spec[list].as_array());
    let containers = || lists.iter().flatten().copied().flatten();
    let status = containers().fold(OF_ANY, |sum, container| {
        let mounts = container["volumeMounts"].as_array().map_or(0, Vec::len);
        let mounts = mounts.saturating_mul(OF_A_MOUNT);
        sum.saturating_add(OF_A_CONTAINER).saturating_add(mounts)
    });
    let weight = weigh(&chaperon["metadata"]).saturating_add(status);
    if weight > CHAPERON_KEPT {
        let containers = containers().count();
        return Err(TooHeavy::Kept { weight, containers });
    }
    // What is kept is counted above, and has its own room there.
    let weight = weigh(chaperon).saturating_add(managed(chaperon));
    if weight > CHAPERON_WHOLE {
        return Err(TooHeavy::Whole { weight });
    }
    Ok(())
}

/// What the managed fields of an object come to that has no schema: they name each field, and lists as a whole.
fn managed(object: &Value) -> usize {
    let fields = object.as_object().into_iter().flatten();
    fields.fold(0, |sum, (key, value)| {
        let own = OF_A_MANAGED_FIELD.saturating_add(key.len());
        sum.saturating_add(own).saturating_add(managed(value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As many bytes as its JSON has, and some for each object and field: nearly what a keeper weighs.
    fn weigh(value: &Value) -> usize {
        let inner = match value {
            Value::Array(items) => items.iter().map(|item| weigh(item) + 32).sum(),
            Value::Object(fields) => {
                let fields = fields.iter();
                640 + fields
                    .map(|(key, value)| key.len() + 96 + weigh(value))
                    .sum::<usize>()
            }
            Value::String(text) => text.len(),
            _ => 8,
        };
        inner + 2
    }

    fn pod(metadata: &Value, spec: &Value) -> Value {
        let mut pod = json!({ "metadata": metadata, "spec": spec });
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{ "name": "a" }]);
        }
        pod
    }

    fn many(count: usize) -> Value {
        let all = (0..count).map(|number| (format!("a{number}"), json!("")));
        Value::Object(all.collect())
    }

    #[test]
    fn what_would_take_more_than_its_share_is_refused_and_real_pods_are_not() {
        let container = |mounts: usize| {
            json!({ "name": "a", "volumeMounts": vec![json!({ "name": "v",
            "mountPath": "/v" }); mounts] })
        };
        let variable =
            json!({ "name": "A_VARIABLE", "value": "of some length, as people have them" });
        let none = json!({});
        let table = [
            ("an ordinary one", none.clone(), none.clone(), true),
            (
                "a long annotation",
                json!({ "annotations": { "a": "x".repeat(120_000) } }),
                none.clone(),
                true,
            ),
            (
                "many labels",
                json!({ "labels": many(2_000) }),
                none.clone(),
                true,
            ),
            (
                "too many annotations",
                json!({ "annotations": many(12_000) }),
                none.clone(),
                false,
            ),
            (
                "too many labels",
                json!({ "labels": many(8_100) }),
                none.clone(),
                false,
            ),
            (
                "forty containers",
                none.clone(),
                json!({ "containers": vec![container(5); 40] }),
                true,
            ),
            (
                "a thousand containers",
                none.clone(),
                json!({ "containers": vec![container(0); 900], "initContainers": vec![container(0); 100] }),
                false,
            ),
            (
                "a thousand mounts",
                none.clone(),
                json!({ "containers": [container(1_000)] }),
                false,
            ),
            (
                "three thousand variables",
                none.clone(),
                json!({ "containers": [{ "name": "a", "env": vec![variable; 3_000] }] }),
                true,
            ),
            (
                "empty terms",
                none.clone(),
                json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": vec![json!({}); 12_500] } } } }),
                false,
            ),
            (
                "a node selector, each of whose fields somebody owns",
                none,
                json!({ "nodeSelector": many(8_000) }),
                false,
            ),
        ];
        for (what, metadata, spec, fits) in table {
            let checked = check_source(&pod(&metadata, &spec), weigh);
            assert_eq!(checked.is_ok(), fits, "{what}: {checked:?}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("and may take"), "{error}");
            }
        }
    }

    #[test]
    fn a_pod_without_a_chaperon_weighs_nothing() {
        assert_eq!(check_source(&json!({}), |_| usize::MAX), Ok(()));
    }

    #[test]
    fn a_change_is_weighed_with_the_rest() {
        let chaperon = |status: usize| {
            json!({
                "metadata": { "name": "web", "managedFields": vec![json!({}); 10_000] },
                "spec": { "containers": [{ "name": "app" }] },
                "status": { "conditions": vec![json!({}); status] },
            })
        };
        let debug = |count: usize| {
            let variables = vec![json!({ "name": "A", "value": "b" }); count];
            json!({ "ephemeralContainers": [{ "name": "debug", "env": variables }] })
        };
        // What is there of others' words changes nothing.
        assert_eq!(check_change(chaperon(10_000), &debug(8), weigh), Ok(()));
        let heavy = check_change(chaperon(0), &debug(20_000), weigh);
        assert!(matches!(heavy, Err(TooHeavy::Whole { .. })), "{heavy:?}");
        let containers: Vec<_> = (0..200)
            .map(|n| json!({ "name": format!("d{n}") }))
            .collect();
        let many = json!({ "ephemeralContainers": containers });
        let heavy = check_change(chaperon(0), &many, weigh);
        assert!(
            matches!(
                heavy,
                Err(TooHeavy::Kept {
                    containers: 201,
                    ..
                })
            ),
            "{heavy:?}"
        );
    }
}
