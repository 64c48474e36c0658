//! `Target` and `ClusterTarget`: a cluster that pods of this one may run in.
//!
//! Every optional field may be null, which counts as not given. CEL knows no null of a boolean or an object, hence the
//! `dyn` in the rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// A cluster where pods of this namespace may run.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "multicluster.admiralty.io",
    version = "v1alpha1",
    kind = "Target",
    doc = "A cluster where pods of this namespace may run.",
    namespaced,
    shortname = "tg",
    category = "admiralty",
    status = "TargetStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = Rule::new(
            "(has(self.spec.self) && dyn(self.spec.self) == true) \
             != (has(self.spec.kubeconfigSecret) && dyn(self.spec.kubeconfigSecret) != null)"
        )
        .message("exactly one of spec.self (true) and spec.kubeconfigSecret must be given"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("metadata.name may have 63 characters, since its virtual node has it as a label"),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].status"
    ),
    printcolumn(
        name = "Authorized",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Authorized\")].status"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TargetSpec {
    /// This very cluster is the target.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub self_: Option<bool>,
    /// Secret of this namespace that holds a kubeconfig of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<KubeconfigSecret>,
    /// Labels of the target whose `key=value` matches are left off the virtual node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATTERN))]
    pub excluded_labels_regexp: Option<String>,
}

/// A kubeconfig in a secret of the Target's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeconfigSecret {
    /// Name of the secret.
    #[schemars(length(min = 1, max = limits::SUBDOMAIN))]
    pub name: String,
    /// Key of its data; `config` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub key: Option<String>,
    /// Context of the kubeconfig; its current one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub context: Option<String>,
}

/// A cluster where pods of every namespace may run.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "multicluster.admiralty.io",
    version = "v1alpha1",
    kind = "ClusterTarget",
    doc = "A cluster where pods of every namespace may run.",
    shortname = "ctg",
    category = "admiralty",
    status = "TargetStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = Rule::new(
            "(has(self.spec.self) && dyn(self.spec.self) == true) \
             != (has(self.spec.kubeconfigSecret) && dyn(self.spec.kubeconfigSecret) != null)"
        )
        .message("exactly one of spec.self (true) and spec.kubeconfigSecret must be given"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("metadata.name may have 63 characters, since its virtual node has it as a label"),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].status"
    ),
    printcolumn(
        name = "Authorized",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Authorized\")].status"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTargetSpec {
    /// This very cluster is the target.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub self_: Option<bool>,
    /// Secret that holds a kubeconfig of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<NamespacedKubeconfigSecret>,
    /// Labels of the target whose `key=value` matches are left off the virtual node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATTERN))]
    pub excluded_labels_regexp: Option<String>,
}

/// A kubeconfig in a secret of any namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedKubeconfigSecret {
    /// Namespace of the secret.
    #[schemars(length(min = 1, max = limits::LABEL))]
    pub namespace: String,
    /// Name of the secret.
    #[schemars(length(min = 1, max = limits::SUBDOMAIN))]
    pub name: String,
    /// Key of its data; `config` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub key: Option<String>,
    /// Context of the kubeconfig; its current one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub context: Option<String>,
}

/// What we see of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// Name of the virtual node that stands for the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub node: Option<String>,
    /// UID of the kube-system namespace of the cluster that was reached first. What is reached at another address is
    /// the target only if it says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub cluster_uid: Option<String>,
    /// `metadata.resourceVersion` of the Secret whose kubeconfig was tried last: `Connected` speaks of that one. What
    /// was written to the Secret later hasn't been tried yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SUBDOMAIN))]
    pub kubeconfig_version: Option<String>,
    /// `Valid`, `Connected`, `Authorized`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::schema")]
    pub conditions: Vec<Condition>,
}
