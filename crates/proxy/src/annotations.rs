//! What of a delegate's annotations goes to the proxy pod, as a patch; nothing if nothing changes.
//!
//! A target speaks for keys that nobody here has: not for those of Kubernetes or ours, not for those that the pod's
//! author set when it was created (the manifest has them), nor for what is on the pod and doesn't stem from a delegate.
//! What does is written on the pod itself ([`Copied`]), in the same write, so that a restart forgets nothing; a copy
//! that somebody has changed since is theirs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{
    PodChaperon,
    annotations::{LIMIT_WITH_COPIES, LONGEST_KEY, bytes, fitting, is_key},
    copied::{Copied, MOST},
    keys,
};
use pilotage_model::manifest::SourcePod;
use serde_json::{Map, Value, json};

/// Most bytes of a pod's annotations that stem from its delegate, with the record of them.
const LONGEST: usize = 64 * 1024;
/// The key of our record of copies, and the record's braces.
const FRAME: usize = keys::COPIED.len() + 2;
/// Most keys of what was withheld that are told.
const MOST_TOLD: usize = 8;

/// A change of the proxy pod's annotations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// A merge patch, over the version that it was judged on: what somebody writes meanwhile isn't overwritten.
    pub(crate) patch: Value,
    /// Some of the keys that the target has no word on, or that found no room.
    pub(crate) withheld: Vec<String>,
}

/// Keys that the pod's author set when it was created; none, if there is no manifest to be read.
pub(crate) fn authored(proxy: &Pod) -> BTreeSet<String> {
    let annotations = proxy.metadata.annotations.as_ref();
    let manifest = annotations.and_then(|all| all.get(keys::SOURCE_POD_MANIFEST));
    let source = manifest.and_then(|text| SourcePod::parse(text).ok());
    let authored = source.as_ref().map(SourcePod::value);
    let authored = authored.and_then(|pod| pod["metadata"]["annotations"].as_object());
    authored
        .into_iter()
        .flatten()
        .map(|(k, _)| k.clone())
        .collect()
}

/// What to write, so that the proxy has the delegate's annotations. `authored` is asked only if something changes.
pub(crate) fn change<'a>(
    proxy: &Pod,
    chaperon: &PodChaperon,
    authored: impl Fn() -> &'a BTreeSet<String>,
) -> Option<Change> {
    let none = BTreeMap::new();
    let known = proxy.metadata.annotations.as_ref().unwrap_or(&none);
    let said = chaperon.metadata.annotations.as_ref().unwrap_or(&none);
    let record = known.get(keys::COPIED);
    let copied = record.and_then(|text| text.parse().ok());
    let copied: Copied = copied.unwrap_or_default();

    let is_theirs = |key: &str| is_key(key) && !keys::is_reserved(key);
    // Whoever changes a copy makes it their own.
    let is_copy = |key: &String, value: &String| is_theirs(key) && copied.has(key, value);
    let may_be = |key: &String, value: &String| match known.get(key) {
        None => is_theirs(key) && !authored().contains(key),
        Some(now) => is_copy(key, now) && (now == value || !authored().contains(key)),
    };
    let others = known
        .iter()
        .filter(|(key, value)| *key != keys::COPIED && !is_copy(key, value));
    let room = LIMIT_WITH_COPIES.saturating_sub(bytes(others));
    let room = room.min(LONGEST).saturating_sub(FRAME);
    let wanted = said.iter().filter(|(key, value)| may_be(key, value));
    let wanted: BTreeMap<&str, &str> = fitting(wanted, room, Copied::entry_bytes)
        .into_iter()
        .take(MOST)
        .collect();

    let mut patch = Map::new();
    for (key, value) in &wanted {
        if known.get(*key).map(String::as_str) != Some(*value) {
            patch.insert((*key).to_owned(), (*value).into());
        }
    }
    for key in copied.keys() {
        let is_copy = known.get(key).is_some_and(|value| is_copy(key, value));
        if is_copy && !wanted.contains_key(&**key) && !authored().contains(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    let copied = Copied::of(wanted.iter().map(|(key, value)| (*key, *value)));
    let text = (!copied.is_empty()).then(|| copied.to_string());
    if text.as_ref() != record {
        patch.insert(keys::COPIED.to_owned(), text.into());
    }
    if patch.is_empty() {
        return None;
    }
    let withheld = said
        .iter()
        .filter(|(key, value)| !keys::is_ours(key) && known.get(*key) != Some(value))
        .filter(|(key, _)| !wanted.contains_key(&***key))
        .filter_map(|(key, _)| key.get(..key.floor_char_boundary(LONGEST_KEY)))
        .map(str::to_owned)
        .take(MOST_TOLD)
        .collect();
    let metadata = json!({
        "uid": proxy.metadata.uid,
        "resourceVersion": proxy.metadata.resource_version,
        "annotations": patch,
    });
    Some(Change {
        patch: json!({ "metadata": metadata }),
        withheld,
    })
}

#[cfg(test)]
mod tests;
