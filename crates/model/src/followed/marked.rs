//! What copies of Services and Ingresses have in common: controllers of the target write to them, too, so that not all
//! that a copy carries is ours. An annotation of the copy names the annotations that came with it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::copied::Copied;
use pilotage_api::parent::ParentLink;
use pilotage_api::{keys, names};
use serde::Serialize;

use super::copy::kept;

/// Annotations that each copy has.
pub(super) type Marks = &'static [(&'static str, &'static str)];

/// All that is copied of an object, in a form that is the same for equal ones.
#[derive(Serialize)]
struct Canonical<'a, S> {
    labels: BTreeMap<&'a str, &'a str>,
    annotations: BTreeMap<&'a str, &'a str>,
    marks: Vec<(&'a str, &'a str)>,
    spec: Option<&'a S>,
}

/// Whether it was made of an object of another cluster: the link says so, or the mark of it.
pub(super) fn is_copy(meta: &ObjectMeta) -> bool {
    let has = |all: Option<&BTreeMap<String, String>>| {
        all.is_some_and(|all| all.contains_key(keys::IS_DELEGATE))
    };
    is_linked(meta) || has(meta.labels.as_ref()) || has(meta.annotations.as_ref())
}

/// Whether it has a parent, in another cluster.
pub fn is_linked(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(keys::PARENT_UID))
}

/// Annotations of the author that are copied, as many as a copy can name.
fn authors(meta: &ObjectMeta) -> BTreeMap<&str, &str> {
    let mut all = kept(meta.annotations.as_ref());
    all.retain(|key, _| !keys::CILIUM_GLOBAL.contains(key));
    all.into_iter().take(pilotage_api::copied::MOST).collect()
}

/// Which annotations of a copy are its author's.
fn named(meta: &ObjectMeta) -> Copied {
    let text = meta
        .annotations
        .as_ref()
        .and_then(|it| it.get(keys::COPIED));
    let named = text.and_then(|text| text.parse().ok());
    named.unwrap_or_default()
}

pub(super) fn digest<S: Serialize>(meta: &ObjectMeta, marks: Marks, spec: Option<&S>) -> String {
    let (mut annotations, mut marks) = (authors(meta), marks.to_vec());
    if is_linked(meta) {
        let all = kept(meta.annotations.as_ref());
        let named = named(meta);
        annotations = named
            .keys()
            .filter_map(|key| all.get_key_value(key.as_str()))
            .map(|(key, value)| (*key, *value))
            .collect();
        let found = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        marks.retain(|(key, value)| found(key).is_some_and(|it| it == value));
    }
    let canonical = Canonical {
        labels: kept(meta.labels.as_ref()),
        annotations,
        marks,
        spec,
    };
    // Maps of texts can always be written.
    names::digest(&serde_json::to_string(&canonical).unwrap_or_default())
}

/// Metadata of a copy.
pub(super) fn metadata(source: &ObjectMeta, link: &ParentLink, marks: Marks) -> ObjectMeta {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let authors = authors(source);
    let copied = Copied::of(authors.clone());
    let mut annotations: BTreeMap<String, String> = authors.into_iter().map(owned).collect();
    annotations.extend(marks.iter().copied().map(owned));
    annotations.extend(link.annotations());
    if !copied.is_empty() {
        annotations.insert(keys::COPIED.to_owned(), copied.to_string());
    }
    let labels = kept(source.labels.as_ref()).into_iter().map(owned);
    ObjectMeta {
        name: source.name.clone(),
        namespace: source.namespace.clone(),
        labels: Some(labels.chain(link.labels()).collect()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

/// Gives the next state of a copy what others in its cluster have written to the one that is `found` there.
pub fn carry_over(copy: &mut ObjectMeta, found: &ObjectMeta) {
    copy.finalizers.clone_from(&found.finalizers);
    copy.owner_references.clone_from(&found.owner_references);
    let named = named(found);
    let annotations = copy.annotations.get_or_insert_default();
    for (key, value) in found.annotations.iter().flatten() {
        let authors =
            named.keys().any(|it| it == key) || keys::CILIUM_GLOBAL.contains(&key.as_str());
        if !keys::is_ours(key) && !authors && !annotations.contains_key(key) {
            annotations.insert(key.clone(), value.clone());
        }
    }
}
