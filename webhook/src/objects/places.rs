//! Names of places in annotations, and how long a policy lets them be: on pods, and on Targets of both kinds, which
//! have a ValidatingAdmissionPolicy for that alone.
//!
//! A policy counts characters and knows no lists. Whoever reads the annotations is exact, and tells of the rest.

use pilotage_api::{GROUP, VERSION, keys, limits};
use serde_json::{Value, json};

use super::{IS_CREATE, TARGETS_POLICY, labels};

/// Expression: none of them is too long, or it was before. It needs the variable `annotations`.
pub(super) fn fit() -> String {
    limits::longest_places()
        .map(|(key, limit)| {
            format!(
                "(!('{key}' in variables.annotations) || size(variables.annotations['{key}']) <= {limit} || \
                 (!({IS_CREATE}) && variables.annotations[?'{key}'] == \
                 oldObject.metadata.?annotations.orValue({{}})[?'{key}']))"
            )
        })
        .join(" && ")
}

/// What somebody is told whose names are too long.
pub(super) fn message() -> String {
    format!(
        "annotations {} and {} may have {} characters, {} and {} lists of such names, with {} in all.",
        keys::REGION,
        keys::CLOUD_PROVIDER,
        limits::LABEL,
        keys::ZONES,
        keys::ACCESS_RESTRICTIONS,
        limits::LIST
    )
}

/// The policy of Targets of both kinds.
pub(super) fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": TARGETS_POLICY, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["targets", "clustertargets"],
                    "scope": "*",
                }],
            },
            "variables": [
                { "name": "annotations", "expression": "object.metadata.?annotations.orValue({})" },
            ],
            "validations": [{ "expression": fit(), "message": message(), "reason": "Invalid" }],
        },
    })
}
