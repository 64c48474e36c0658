//! Whether a namespace selector that selects by what isn't there is why the two count other pods for a term: there has
//! to be a pod that the term means but for its namespace, which isn't selected. Anti-affinity looks at it on the same
//! node or in the same place; affinity and scores on any node, since they depend on what there is elsewhere.

use serde_json::Value;

use super::Scene;
use crate::compare::{Aspect, Difference};
use crate::object;

/// The kinds of terms, with whether they are required, and whether they are for anti-affinity.
const KINDS: [(&str, bool, bool); 4] = [
    ("podAffinity", true, false),
    ("podAffinity", false, false),
    ("podAntiAffinity", true, true),
    ("podAntiAffinity", false, true),
];

/// Whether a term of the pod has such a selector, such a pod is there, and the two differ in what the plugin says, or
/// in whom that lets preemption evict.
pub(super) fn explains(scene: &Scene<'_>, difference: &Difference) -> bool {
    let plugin = difference.plugin.as_deref().unwrap_or_default();
    let is_its = plugin.contains("InterPodAffinity");
    KINDS.into_iter().any(|(field, is_required, is_anti)| {
        let mut terms = terms(scene.pod, field, is_required);
        let counts = match difference.aspect {
            Aspect::Filter => is_its && is_required,
            Aspect::Score => is_its && !is_required,
            Aspect::Preemption | Aspect::Message => is_required,
            _ => false,
        };
        let node = difference.node.as_deref();
        let node = node.filter(|_| difference.aspect == Aspect::Filter && is_anti);
        counts && terms.any(|term| is_mistaken(scene, term, node))
    })
}

/// The terms of a pod, each without its weight.
fn terms<'a>(pod: &'a Value, field: &str, is_required: bool) -> impl Iterator<Item = &'a Value> {
    let kind = if is_required { "required" } else { "preferred" };
    let pointer = format!("/spec/affinity/{field}/{kind}DuringSchedulingIgnoredDuringExecution");
    let terms = object::list(pod, &pointer).iter();
    terms.map(move |term| {
        if is_required {
            term
        } else {
            &term["podAffinityTerm"]
        }
    })
}

/// Whether the term has such a selector, and there is a pod that it means but for its namespace: in the place of the
/// node, or anywhere.
fn is_mistaken(scene: &Scene<'_>, term: &Value, node: Option<&str>) -> bool {
    if !term.get("namespaceSelector").is_some_and(needs_nothing) {
        return false;
    }
    let placed = scene.world.pods().values();
    let placed = placed.filter_map(|pod| Some((pod, object::node_of(pod)?)));
    let placed = placed.chain(scene.world.nominations());
    let mut strangers = placed.filter(|(pod, _)| is_stranger(scene, term, pod));
    match node {
        // It may be the first of its kind, by a term that doesn't mean it.
        None => is_stranger(scene, term, scene.pod) || strangers.next().is_some(),
        Some(node) => strangers.any(|(_, other)| is_same_place(scene, term, node, other)),
    }
}

fn is_same_place(scene: &Scene<'_>, term: &Value, one: &str, other: &str) -> bool {
    let key = object::text(term, "/topologyKey");
    let place = |name: &str| scene.world.nodes().get(name)?["metadata"]["labels"].get(key);
    one == other || place(one).is_some_and(|here| place(other) == Some(here))
}

/// Whether a term means a pod but for its namespace, which it doesn't select.
fn is_stranger(scene: &Scene<'_>, term: &Value, pod: &Value) -> bool {
    let selects = |selector: &Value| matches(selector, &pod["metadata"]["labels"]);
    let namespace = object::text(pod, "/metadata/namespace");
    let mut named = object::list(term, "/namespaces").iter();
    let is_named = named.any(|name| name == namespace);
    let mut namespaces = scene.world.of_kind("Namespace");
    let known = namespaces.find(|known| object::name(known) == namespace);
    let is_selected = known.is_some_and(|known| {
        let labels = &known["metadata"]["labels"];
        matches(&term["namespaceSelector"], labels)
    });
    !is_named && !is_selected && term.get("labelSelector").is_some_and(selects)
}

/// Whether a label selector matches these labels.
fn matches(selector: &Value, labels: &Value) -> bool {
    let pairs = object::map(selector, "/matchLabels").into_iter().flatten();
    let mut pairs = pairs.map(|(key, value)| labels.get(key) == Some(value));
    let mut expressions = object::list(selector, "/matchExpressions").iter();
    let holds = |expression: &Value| {
        let label = labels.get(object::text(expression, "/key"));
        let is_in = label.is_some_and(|label| object::list(expression, "/values").contains(label));
        match object::text(expression, "/operator") {
            "In" => is_in,
            "NotIn" => !is_in,
            "Exists" => label.is_some(),
            _ => label.is_none(),
        }
    };
    pairs.all(|holds| holds) && expressions.all(holds)
}

/// Whether a selector that isn't empty matches where there are no labels.
fn needs_nothing(selector: &Value) -> bool {
    let expressions = object::list(selector, "/matchExpressions");
    let labels = object::map(selector, "/matchLabels");
    let absent = |expression: &Value| {
        let operator = object::text(expression, "/operator");
        ["NotIn", "DoesNotExist"].contains(&operator)
    };
    labels.is_none_or(serde_json::Map::is_empty)
        && !expressions.is_empty()
        && expressions.iter().all(absent)
}
