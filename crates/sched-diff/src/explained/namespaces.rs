//! Whether a namespace selector that selects by what isn't there is why the two count other pods for a term.

use serde_json::Value;

use super::Scene;
use crate::compare::{Aspect, Difference};
use crate::object;

/// Whether the pod has a term with such a selector, and the two differ in what its plugin says, or in whom that lets
/// preemption evict.
pub(super) fn explains(scene: &Scene<'_>, difference: &Difference) -> bool {
    let plugin = difference.plugin.as_deref().unwrap_or_default();
    let concerns = match difference.aspect {
        Aspect::Filter | Aspect::Score => plugin.contains("InterPodAffinity"),
        Aspect::Preemption | Aspect::Message => true,
        _ => false,
    };
    let affinity = scene.pod.pointer("/spec/affinity");
    concerns && affinity.is_some_and(selects_by_absence)
}

fn selects_by_absence(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, part)| match name.as_str() {
            "namespaceSelector" => needs_nothing(part),
            _ => selects_by_absence(part),
        }),
        Value::Array(parts) => parts.iter().any(selects_by_absence),
        _ => false,
    }
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
