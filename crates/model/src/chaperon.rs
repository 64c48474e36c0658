//! The `PodChaperon` that a source creates in a target, made from the source pod as its author wrote it.
//!
//! Everything is edited as JSON: a typed round trip would lose fields that our types don't know. When and where a
//! chaperon is created is the proxy state machine's affair.

use std::collections::BTreeMap;

use pilotage_api::{GROUP, VERSION, keys, names, parent::ParentLink, trace::TraceParent};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{
    delegate,
    kept_labels::{self, RegexpError},
    label_pattern::LabelPattern,
    labels::LabelKeys,
};

/// Why a source pod gives no chaperon.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ChaperonError {
    /// The manifest is no object, or one of these parts of it isn't.
    #[error("the source pod's {0} is not an object")]
    NotAnObject(&'static str),
    /// A label or annotation is no text.
    #[error("{key:?} in the source pod's {map} is not a string")]
    NotAString {
        /// `labels` or `annotations`.
        map: &'static str,
        /// Its key.
        key: String,
    },
    /// The annotation for kept labels is no regular expression.
    #[error(transparent)]
    LabelRegexp(#[from] RegexpError),
}

/// The body to POST in the target, in the parent's namespace, under the name that follows from the parent.
///
/// `source` is the saved manifest of the source pod, `link` names the proxy pod. Labels and annotations come from the
/// manifest, as do the switches `no-reservation` (the pod keeps its own scheduler) and
/// `use-constraints-from-spec-for-proxy-pod-scheduling` (the delegate carries none of its constraints, unless
/// `proxy-pod-scheduling-constraints` is there too and goes first). Finalizers, owner references and status stay
/// behind: they mean something only in the source.
pub fn chaperon(source: &Value, link: &ParentLink) -> Result<Value, ChaperonError> {
    let metadata = optional_object(source.get("metadata"), "metadata")?;
    let own_labels = texts(metadata.and_then(|m| m.get("labels")), "labels")?;
    let own_annotations = texts(metadata.and_then(|m| m.get("annotations")), "annotations")?;
    let spec = source.get("spec").and_then(Value::as_object);
    let spec = spec.ok_or(ChaperonError::NotAnObject("spec"))?;

    let kept = own_annotations
        .get(keys::NO_PREFIX_LABEL_REGEXP)
        .map(|pattern| kept_labels::parse(pattern))
        .transpose()?;
    let label_keys = LabelKeys::new(&own_labels, kept.as_ref());
    let spec = delegate::spec(spec.clone(), &label_keys, options(&own_annotations));
    if let Some(error) = kept.as_ref().and_then(LabelPattern::spent) {
        return Err(RegexpError::from(error).into());
    }
    let mut labels: BTreeMap<String, String> = own_labels
        .iter()
        .filter_map(|(key, value)| Some((label_keys.own(key)?.to_owned(), (*value).to_owned())))
        .collect();
    labels.extend(link.labels());

    let mut annotations: BTreeMap<String, String> = own_annotations
        .iter()
        .filter(|(key, _)| !keys::is_ours(key))
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    annotations.extend(link.annotations());
    // Their presence says: this source speaks the protocol with numbered attempts.
    annotations.insert(keys::ATTEMPT.to_owned(), "0".to_owned());
    annotations.insert(keys::ALLOWED_ATTEMPT.to_owned(), "0".to_owned());

    Ok(json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "PodChaperon",
        "metadata": {
            "name": names::chaperon(&link.namespace, &link.name, &link.uid),
            "namespace": link.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }))
}

/// Gives a chaperon that [`chaperon`] made, and so its pod, the source pod's labels under their own keys as well: for
/// another cluster, where nothing of the source takes that pod for its own. Keys of ours stay as they are, and so does
/// what selectors speak of.
pub fn keep_labels(chaperon: &mut Value, source: &Value) {
    let own = source["metadata"]["labels"].as_object();
    let own = own.into_iter().flatten();
    if let Some(labels) = chaperon["metadata"]["labels"].as_object_mut() {
        for (key, value) in own.filter(|(key, _)| !keys::is_ours(key)) {
            labels.insert(key.clone(), value.clone());
        }
    }
}

/// Says on a chaperon that [`chaperon`] made where the target's spans of the pod belong. Its pod doesn't get that.
pub fn trace(chaperon: &mut Value, context: TraceParent) {
    if let Some(annotations) = chaperon["metadata"]["annotations"].as_object_mut() {
        annotations.insert(keys::TRACEPARENT.to_owned(), context.to_string().into());
    }
}

/// The switches that a source pod's annotations are.
fn options(annotations: &BTreeMap<&str, &str>) -> delegate::Options {
    let has = |key: &str| annotations.contains_key(key);
    delegate::Options {
        keep_scheduler: has(keys::NO_RESERVATION),
        drop_constraints: has(keys::USE_OWN_CONSTRAINTS) && !has(keys::PROXY_CONSTRAINTS),
    }
}

/// Why a chaperon gives no pod.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the chaperon has no {0}")]
pub struct PodError(pub &'static str);

/// The body of the pod that the chaperon controller POSTs next to a chaperon read from the API server.
///
/// The pod has the chaperon's name, spec, labels and foreign annotations, the link to the parent, and the chaperon as
/// its controller, by UID, so that a pod made late for a chaperon that is gone is collected. One that no candidate
/// scheduler binds is gated ([`keys::UNNAMED`]), so that a pod made late isn't bound meanwhile; not in a source without
/// numbers, whose own controller lifts no gate.
pub fn candidate_pod(chaperon: &Value) -> Result<Value, PodError> {
    let metadata = &chaperon["metadata"];
    let text = |key: &'static str| metadata[key].as_str().ok_or(PodError(key));
    let (name, namespace, uid) = (text("name")?, text("namespace")?, text("uid")?);
    if !chaperon["spec"].is_object() {
        return Err(PodError("spec"));
    }
    let labels = metadata.get("labels").cloned().unwrap_or_else(|| json!({}));
    let annotations: Map<String, Value> = metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| {
            !keys::is_ours(key)
                || [keys::PARENT_NAME, keys::PARENT_NAMESPACE].contains(&key.as_str())
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut spec = chaperon["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        // Those of a pod that was there before; the API server takes none at creation.
        spec.remove("ephemeralContainers");
    }
    let numbered = metadata["annotations"].get(keys::ALLOWED_ATTEMPT).is_some();
    if numbered && spec["schedulerName"] != keys::CANDIDATE_SCHEDULER {
        spec["schedulingGates"] = json!([{ "name": keys::UNNAMED }]);
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": format!("{GROUP}/{VERSION}"),
                "kind": "PodChaperon",
                "name": name,
                "uid": uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    }))
}

fn optional_object<'a>(
    value: Option<&'a Value>,
    part: &'static str,
) -> Result<Option<&'a Map<String, Value>>, ChaperonError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(ChaperonError::NotAnObject(part)),
    }
}

fn texts<'a>(
    value: Option<&'a Value>,
    map: &'static str,
) -> Result<BTreeMap<&'a str, &'a str>, ChaperonError> {
    let object = optional_object(value, map)?;
    object
        .into_iter()
        .flatten()
        .map(|(key, value)| match value.as_str() {
            Some(text) => Ok((key.as_str(), text)),
            None => Err(ChaperonError::NotAString {
                map,
                key: key.clone(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests;
