//! Patches of metadata and status, as the API server applies them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::ApiError;

/// Applies `metadata` of a merge patch; whether anything changed.
pub(super) fn merge_metadata(meta: &mut ObjectMeta, patch: &Value) -> Result<bool, ApiError> {
    let Some(fields) = patch.as_object() else {
        return Ok(false);
    };
    let differs = |value: &Value, known: &Option<String>| value.as_str() != known.as_deref();
    let mut changed = false;
    for (field, value) in fields {
        match field.as_str() {
            "uid" if differs(value, &meta.uid) => return Err(ApiError::Conflict),
            "resourceVersion" if differs(value, &meta.resource_version) => {
                return Err(ApiError::Conflict);
            }
            "uid" | "resourceVersion" => {}
            "annotations" => {
                let Some(wanted) = value.as_object() else {
                    continue;
                };
                let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
                changed |= merge_texts(annotations, wanted);
            }
            "finalizers" => changed |= set_finalizers(meta, value)?,
            other => unimplemented(other),
        }
    }
    Ok(changed)
}

/// Applies a JSON patch of metadata; whether anything changed.
pub(super) fn json_metadata(meta: &mut ObjectMeta, operations: &Value) -> Result<bool, ApiError> {
    let mut changed = false;
    for operation in operations.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let value = &operation["value"];
        let annotation = path.strip_prefix("/metadata/annotations/").map(unescape);
        match (operation["op"].as_str(), path, annotation) {
            (Some("test"), "/metadata/uid", _) => {
                if value.as_str() != meta.uid.as_deref() {
                    return Err(ApiError::Invalid);
                }
            }
            (Some("test"), _, Some(key)) => {
                let known = meta.annotations.as_ref().and_then(|all| all.get(&key));
                if known.map(String::as_str) != value.as_str() {
                    return Err(ApiError::Invalid);
                }
            }
            (Some("add"), "/metadata/finalizers", _) => changed |= set_finalizers(meta, value)?,
            (Some("add"), _, Some(key)) => {
                let text = value.as_str().unwrap_or_default().to_owned();
                let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
                changed |= annotations.insert(key, text.clone()) != Some(text);
            }
            (_, other, _) => unimplemented(other),
        }
    }
    Ok(changed)
}

fn unescape(path: &str) -> String {
    path.replace("~1", "/").replace("~0", "~")
}

fn merge_texts(texts: &mut BTreeMap<String, String>, wanted: &Map<String, Value>) -> bool {
    let mut changed = false;
    for (key, value) in wanted {
        changed |= match value.as_str() {
            Some(text) if texts.get(key).is_some_and(|known| known == text) => false,
            Some(text) => {
                texts.insert(key.clone(), text.to_owned());
                true
            }
            None => texts.remove(key).is_some(),
        };
    }
    changed
}

/// An object that is ending takes no new finalizer.
fn set_finalizers(meta: &mut ObjectMeta, value: &Value) -> Result<bool, ApiError> {
    let wanted: Vec<String> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .collect();
    let known = meta.finalizers.take().unwrap_or_default();
    let is_new = wanted.iter().any(|finalizer| !known.contains(finalizer));
    if meta.deletion_timestamp.is_some() && is_new {
        meta.finalizers = Some(known);
        return Err(ApiError::Invalid);
    }
    let changed = known != wanted;
    meta.finalizers = (!wanted.is_empty()).then_some(wanted);
    Ok(changed)
}

/// A merge patch of a status (RFC 7396); whether anything changed.
pub(super) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> bool {
    let mut changed = false;
    for (key, change) in patch {
        changed |= match (target.get_mut(key), change) {
            (known, Value::Null) => {
                let there = known.is_some();
                target.remove(key);
                there
            }
            (Some(Value::Object(known)), Value::Object(change)) => merge(known, change),
            (Some(known), change) if known == change => false,
            (_, Value::Object(change)) => {
                let mut fresh = Map::new();
                merge(&mut fresh, change);
                target.insert(key.clone(), Value::Object(fresh));
                true
            }
            (_, change) => {
                target.insert(key.clone(), change.clone());
                true
            }
        };
    }
    changed
}

/// Better no answer than a wrong one.
fn unimplemented(what: &str) {
    panic!("the simulated API server knows nothing of {what:?}");
}
