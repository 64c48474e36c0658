//! A pod as the API server sent it: metadata as a type to read from, spec and status as JSON, so that a status can be
//! copied with fields that our types don't know.

use std::borrow::Cow;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use pilotage_api::keys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawPod {
    /// `v1`.
    #[serde(default)]
    pub api_version: String,
    /// `Pod`.
    #[serde(default)]
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Map<String, Value>,
    /// Status.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub status: Map<String, Value>,
}

impl RawPod {
    /// Drops what isn't read here; and nulls, which no API server keeps in a copy, so that a copy never looks stale.
    pub fn trim(&mut self) {
        self.spec.retain(|key, value| match key.as_str() {
            "nodeName" | "schedulingGates" | "resources" => true,
            "containers" | "initContainers" => keep(value, &["name", "resources"]),
            "ephemeralContainers" => keep(value, &["name"]),
            _ => false,
        });
        self.status.retain(|_, value| !value.is_null());
        self.status.values_mut().for_each(drop_nulls);
    }

    /// Its scheduling gates without ours; `None` if ours isn't there.
    pub fn other_gates(&self) -> Option<Vec<&Value>> {
        let gates = self.spec.get("schedulingGates")?.as_array()?;
        let (ours, others): (Vec<_>, Vec<_>) =
            gates.iter().partition(|gate| gate["name"] == keys::UNNAMED);
        (!ours.is_empty()).then_some(others)
    }

    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.spec
            .get("nodeName")?
            .as_str()
            .filter(|node| !node.is_empty())
    }
}

impl Resource for RawPod {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Keeps these fields of a list's entries; `false` if there are none.
fn keep(list: &mut Value, fields: &[&str]) -> bool {
    let Some(list) = list.as_array_mut() else {
        return false;
    };
    for entry in list.iter_mut().filter_map(Value::as_object_mut) {
        entry.retain(|key, _| fields.contains(&key.as_str()));
    }
    !list.is_empty()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_and_unread_fields_are_dropped() {
        let mut pod: RawPod = serde_json::from_value(json!({
            "metadata": { "name": "a" },
            "spec": { "nodeName": "n", "containers": [],
                "initContainers": [{ "name": "i", "image": "x", "resources": { "limits": {} } }],
                "ephemeralContainers": [{ "name": "e", "image": "x" }] },
            "status": { "conditions": [{ "type": "Ready", "lastProbeTime": null }], "x": null },
        }))
        .unwrap();
        pod.trim();
        assert_eq!(
            Value::Object(pod.status),
            json!({ "conditions": [{ "type": "Ready" }] })
        );
        assert_eq!(
            Value::Object(pod.spec),
            json!({
                "nodeName": "n",
                "initContainers": [{ "name": "i", "resources": { "limits": {} } }],
                "ephemeralContainers": [{ "name": "e" }],
            })
        );
    }
}
