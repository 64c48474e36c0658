//! `PodChaperon`: the only channel between a proxy pod and a candidate, in the target, next to the candidate.
//!
//! Spec and status are a whole `PodSpec` and `PodStatus`, kept as JSON objects that the API server doesn't prune: a
//! generated schema would drop fields that it doesn't know and is too large to apply. What the annotations mean is in
//! [`crate::keys`]; the protocol's rules are not here.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodCondition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A whole `PodSpec`, as the source wrote it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "multicluster.admiralty.io",
    version = "v1alpha1",
    kind = "PodChaperon",
    doc = "A question of a source, and its answer: whether this pod may run here. Pilotage makes it; nobody else \
        should.",
    namespaced,
    shortname = "chap",
    category = "admiralty",
    status = "PodChaperonStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Reserved",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/is-reserved"
    ),
    printcolumn(
        name = "Allowed",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/is-allowed"
    ),
    printcolumn(
        name = "Attempt",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/attempt"
    ),
    printcolumn(
        name = "Scheduler",
        type_ = "string",
        json_path = ".spec.schedulerName"
    ),
    printcolumn(
        name = "Scheduled",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"PodScheduled\")].status"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Parent",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/parent-name"
    ),
    printcolumn(
        name = "Source",
        type_ = "string",
        json_path = r".metadata.labels.multicluster\.admiralty\.io/parent-cluster-name"
    ),
    printcolumn(
        name = "Refusal",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/refusal"
    ),
    printcolumn(
        name = "Allowed-Attempt",
        type_ = "string",
        json_path = r".metadata.annotations.multicluster\.admiralty\.io/allowed-attempt",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(transparent)]
pub struct PodChaperonSpec(pub Map<String, Value>);

/// A whole `PodStatus`, as the target wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodChaperonStatus(pub Map<String, Value>);

impl PodChaperon {
    /// The status's conditions as types to read from; what the target wrote and is none isn't among them.
    pub fn conditions(&self) -> Vec<PodCondition> {
        let status = self.status.as_ref();
        let conditions = status.and_then(|status| status.0.get("conditions"));
        let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        conditions
            .filter_map(|condition| PodCondition::deserialize(condition).ok())
            .collect()
    }
}

fn any_object(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

impl JsonSchema for PodChaperonSpec {
    fn schema_name() -> Cow<'static, str> {
        "PodChaperonSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        any_object("A whole PodSpec.")
    }
}

impl JsonSchema for PodChaperonStatus {
    fn schema_name() -> Cow<'static, str> {
        "PodChaperonStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        any_object("A whole PodStatus.")
    }
}
