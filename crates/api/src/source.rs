//! `Source` and `ClusterSource`: who may run pods of another cluster here.
//!
//! A null identity counts as none; CEL knows no null of a string or an object, hence the `dyn` in the rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::rights::Right;

/// A cluster whose pods may run in this namespace.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "multicluster.admiralty.io",
    version = "v1alpha1",
    kind = "Source",
    doc = "A cluster whose pods may run in this namespace, by an account that is made for it.",
    namespaced,
    shortname = "src",
    category = "admiralty",
    status = "SourceStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = Rule::new(
            "(has(self.spec.serviceAccountName) && dyn(self.spec.serviceAccountName) != null) \
             || (has(self.spec.userName) && dyn(self.spec.userName) != null)"
        )
        .message("spec.serviceAccountName or spec.userName must be given"),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccountName"),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.userName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SourceSpec {
    /// Service account of this namespace, made if it doesn't exist, that the source acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::SUBDOMAIN))]
    pub service_account_name: Option<String>,
    /// User that the source acts as, for instance the common name of a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::USER))]
    pub user_name: Option<String>,
    /// What the source may do besides running pods. Pilotage here has to be installed with these rights
    /// (`pilotage rbac --rights`), else the condition says that a role is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RIGHTS))]
    pub rights: Vec<Right>,
}

/// A cluster whose pods may run in every namespace.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "multicluster.admiralty.io",
    version = "v1alpha1",
    kind = "ClusterSource",
    doc = "A cluster whose pods may run in every namespace, by an account that is made for it.",
    shortname = "csrc",
    category = "admiralty",
    status = "SourceStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = Rule::new(
            "(has(self.spec.serviceAccount) && dyn(self.spec.serviceAccount) != null) \
             || (has(self.spec.userName) && dyn(self.spec.userName) != null)"
        )
        .message("spec.serviceAccount or spec.userName must be given"),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccount.name"),
    printcolumn(
        name = "ServiceAccountNamespace",
        type_ = "string",
        json_path = ".spec.serviceAccount.namespace"
    ),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.userName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSourceSpec {
    /// Service account, made if it doesn't exist, that the source acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
    /// User that the source acts as, for instance the common name of a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::USER))]
    pub user_name: Option<String>,
    /// What the source may do besides running pods. Pilotage here has to be installed with these rights
    /// (`pilotage rbac --rights`), else the condition says that a role is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::RIGHTS))]
    pub rights: Vec<Right>,
}

/// A service account of some namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceAccountRef {
    /// Its name.
    #[schemars(length(min = 1, max = limits::SUBDOMAIN))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = limits::LABEL))]
    pub namespace: String,
}

/// Whether a source's identity stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceStatus {
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::schema")]
    pub conditions: Vec<Condition>,
}
