//! `ClusterSummary`: what a target tells its sources about its nodes, as one object named `singleton`.
//!
//! `capacity` and `allocatable` stand at the top level, as in Admiralty, so the kind is spelled out by hand here: the
//! derive wants a spec. The other fields are ours.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use kube::core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{GROUP, VERSION, limits, parent::ClusterUid};

/// Resource amounts by name, as in a node's status.
pub type ResourceList = BTreeMap<String, Quantity>;

/// What a cluster offers, summed over its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummary {
    /// Always [`VERSION`] of [`GROUP`].
    #[serde(default)]
    pub api_version: String,
    /// Always `ClusterSummary`.
    #[serde(default)]
    pub kind: String,
    /// Standard metadata; labels are those that all nodes share with one value, and their cloud provider
    /// ([`crate::keys::CLOUD_PROVIDER`]); an annotation has their zones ([`crate::keys::ZONES`]).
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// UID of the cluster's kube-system namespace: who it is. `None`: not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
    /// Sum of the nodes' capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// Sum of the allocatable of nodes that are ready and not cordoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// Sum of what is free on the nodes that take pods. It may lag behind by a thirty-second of what they have: how
    /// full the cluster is, not what fits. `None`: not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<ResourceList>,
    /// Free room of the roomiest nodes, so that a source can tell what surely fits. `None`: not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_shapes: Option<Vec<FreeShape>>,
}

/// Free room of some nodes of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FreeShape {
    /// How many nodes have at least this much.
    pub nodes: i64,
    /// What is free on each of them.
    pub free: ResourceList,
}

impl Resource for ClusterSummary {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ClusterSummary".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clustersummaries".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The kind's definition.
pub(crate) fn definition() -> Result<CustomResourceDefinition, serde_json::Error> {
    let quantities = |description: &str| {
        json!({
            "description": description,
            "type": "object",
            "maxProperties": 1024,
            "additionalProperties": {
                "x-kubernetes-int-or-string": true,
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "maxLength": 64,
            },
        })
    };
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("clustersummaries.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "ClusterSummary",
                "plural": "clustersummaries",
                "singular": "clustersummary",
                "shortNames": ["mcsum"],
                "categories": ["admiralty"],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "CPU", "type": "string", "jsonPath": ".allocatable.cpu" },
                    { "name": "Memory", "type": "string", "jsonPath": ".allocatable.memory" },
                    { "name": "Pods", "type": "string", "jsonPath": ".allocatable.pods" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "description": "What a cluster offers to its sources, summed over its nodes.",
                    "type": "object",
                    "properties": {
                        "clusterUid": {
                            "description": "UID of the kube-system namespace, by which a source tells one cluster \
                                from another.",
                            "type": "string",
                            "maxLength": limits::SUBDOMAIN,
                        },
                        "capacity": quantities("Sum of the nodes' capacity."),
                        "allocatable": quantities("Sum of the allocatable of nodes that are ready and not cordoned."),
                        "free": quantities("Sum of what is free on the nodes that take pods."),
                        "freeShapes": {
                            "description": "Free room of the roomiest nodes.",
                            "type": "array",
                            "maxItems": 256,
                            "items": {
                                "type": "object",
                                "required": ["nodes", "free"],
                                "properties": {
                                    "nodes": {
                                        "description": "How many nodes have at least this much.",
                                        "type": "integer",
                                        "format": "int64",
                                    },
                                    "free": quantities("What is free on each of them."),
                                },
                            },
                        },
                    },
                } },
            }],
        },
    }))
}
