//! The spec of a delegate: the source pod's, less what the target's admission must set again, with label keys
//! respelled.
//!
//! Must not know metadata; [`crate::chaperon`] puts both together.

use std::collections::BTreeSet;

use pilotage_api::keys;
use serde_json::{Map, Value};

use crate::labels::LabelKeys;

/// Where the `ServiceAccount` admission plugin mounts its token.
const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Start of the token volume's name, by the same plugin.
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";

/// What the source cluster filled in, or what means something only there.
///
/// Priority and preemption policy follow from the class name, the overhead from the runtime class: admission refuses a
/// pod that says otherwise. Gates hold in the source. The API server takes no ephemeral containers at creation.
const SET_ANEW: [&str; 7] = [
    "priority",
    "preemptionPolicy",
    "overhead",
    "schedulingGates",
    "nodeName",
    "ephemeralContainers",
    // Deprecated twin of serviceAccountName.
    "serviceAccount",
];
const CONSTRAINTS: [&str; 4] = [
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
];
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Switches of the pod's author.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The delegate keeps the pod's own scheduler.
    pub(crate) keep_scheduler: bool,
    /// The delegate carries none of the pod's constraints.
    pub(crate) drop_constraints: bool,
}

/// The delegate's spec, from the source pod's.
pub(crate) fn spec(
    mut spec: Map<String, Value>,
    labels: &LabelKeys<'_>,
    options: Options,
) -> Value {
    if !spec.contains_key("serviceAccountName")
        && let Some(name) = spec.get("serviceAccount").cloned()
    {
        spec.insert("serviceAccountName".into(), name);
    }
    for key in SET_ANEW {
        spec.remove(key);
    }
    if options.drop_constraints {
        for key in CONSTRAINTS {
            spec.remove(key);
        }
    }
    if !options.keep_scheduler {
        spec.insert("schedulerName".into(), keys::CANDIDATE_SCHEDULER.into());
    }
    remove_token_volume(&mut spec);
    respell_selectors(&mut spec, labels);
    respell_downward_api(&mut spec, labels);
    Value::Object(spec)
}

// ---- the service-account token ----------------------------------------------------------------------------------

/// Removes the token volume with its mounts: its name and its audience are the source cluster's, and admission adds the
/// target's own. A volume that only has such a name, but is mounted elsewhere, is the author's.
fn remove_token_volume(spec: &mut Map<String, Value>) {
    let mut names: BTreeSet<String> = items(spec.get("volumes"))
        .filter(|volume| volume["projected"].is_object())
        .filter_map(|volume| volume["name"].as_str())
        .filter(|name| name.starts_with(TOKEN_VOLUME_PREFIX))
        .map(str::to_owned)
        .collect();
    for mount in CONTAINERS
        .iter()
        .flat_map(|kind| items(spec.get(*kind)))
        .flat_map(|container| items(container.get("volumeMounts")))
        .filter(|mount| mount["mountPath"] != TOKEN_MOUNT_PATH)
    {
        if let Some(name) = mount["name"].as_str() {
            names.remove(name);
        }
    }
    if names.is_empty() {
        return;
    }
    // An author may have given thousands of volumes such names: each list is looked through once.
    let is_other = |item: &Value| {
        item["name"]
            .as_str()
            .is_none_or(|name| !names.contains(name))
    };
    retain(spec, "volumes", is_other);
    for kind in CONTAINERS {
        for container in items_mut(spec.get_mut(kind)) {
            if let Some(container) = container.as_object_mut() {
                retain(container, "volumeMounts", is_other);
            }
        }
    }
}

/// Filters a list and takes it away when nothing is left.
fn retain(object: &mut Map<String, Value>, key: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(Value::Array(list)) = object.get_mut(key) {
        list.retain(keep);
        if list.is_empty() {
            object.remove(key);
        }
    }
}

// ---- label selectors --------------------------------------------------------------------------------------------

/// Selectors for pods mean the pod's siblings, which are delegates too, with respelled labels. Selectors for
/// namespaces, nodes and volumes are left alone.
fn respell_selectors(spec: &mut Map<String, Value>, labels: &LabelKeys<'_>) {
    for constraint in items_mut(spec.get_mut("topologySpreadConstraints")) {
        respell_term(constraint, labels);
    }
    let Some(affinity) = spec.get_mut("affinity") else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get_mut(kind) else {
            continue;
        };
        for term in items_mut(terms.get_mut("requiredDuringSchedulingIgnoredDuringExecution")) {
            respell_term(term, labels);
        }
        for term in items_mut(terms.get_mut("preferredDuringSchedulingIgnoredDuringExecution")) {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                respell_term(term, labels);
            }
        }
    }
}

/// Respells `labelSelector`, `matchLabelKeys` and `mismatchLabelKeys` of an affinity term or spread constraint.
fn respell_term(term: &mut Value, labels: &LabelKeys<'_>) {
    if let Some(selector) = term.get_mut("labelSelector") {
        if let Some(Value::Object(wanted)) = selector.get_mut("matchLabels") {
            *wanted = std::mem::take(wanted)
                .into_iter()
                .map(|(key, value)| {
                    (
                        labels.selected(&key, &[value.as_str().unwrap_or_default()]),
                        value,
                    )
                })
                .collect();
        }
        for expression in items_mut(selector.get_mut("matchExpressions")) {
            let Some(key) = expression["key"].as_str() else {
                continue;
            };
            let values: Vec<&str> = items(expression.get("values"))
                .filter_map(Value::as_str)
                .collect();
            expression["key"] = labels.selected(key, &values).into();
        }
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        for key in items_mut(term.get_mut(list)) {
            if let Some(text) = key.as_str() {
                *key = labels.selected(text, &[]).into();
            }
        }
    }
}

// ---- labels read by the containers ------------------------------------------------------------------------------

/// `metadata.labels['key']` in environment variables and downward API volumes names a label of the pod itself.
fn respell_downward_api(spec: &mut Map<String, Value>, labels: &LabelKeys<'_>) {
    for kind in CONTAINERS {
        for container in items_mut(spec.get_mut(kind)) {
            respell_environment(container, labels);
        }
    }
    for volume in items_mut(spec.get_mut("volumes")) {
        for file in items_mut(volume.pointer_mut("/downwardAPI/items")) {
            if let Some(field) = file.pointer_mut("/fieldRef/fieldPath") {
                respell_path(field, labels);
            }
        }
        for source in items_mut(volume.pointer_mut("/projected/sources")) {
            for file in items_mut(source.pointer_mut("/downwardAPI/items")) {
                if let Some(field) = file.pointer_mut("/fieldRef/fieldPath") {
                    respell_path(field, labels);
                }
            }
        }
    }
}

/// The same in the variables of one container.
pub(crate) fn respell_environment(container: &mut Value, labels: &LabelKeys<'_>) {
    for variable in items_mut(container.get_mut("env")) {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef/fieldPath") {
            respell_path(field, labels);
        }
    }
}

fn respell_path(path: &mut Value, labels: &LabelKeys<'_>) {
    let key = path
        .as_str()
        .and_then(|path| path.strip_prefix("metadata.labels['")?.strip_suffix("']"));
    if let Some(spelled) = key.and_then(|key| labels.own(key)) {
        *path = format!("metadata.labels['{spelled}']").into();
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

fn items_mut(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}
