//! Who a cluster is: the UID of its kube-system namespace, which lives as long as the cluster does.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use pilotage_api::parent::ClusterUid;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use pilotage_runtime::rbac::Rule;
use thiserror::Error;

/// The namespace that every cluster has from its birth.
const NAMESPACE: &str = "kube-system";

/// What [`cluster_uid`] needs.
pub const RULES: &[Rule] = &[Rule::cluster(&[""], &["namespaces"], &["get"]).named(&[NAMESPACE])];

/// Why a cluster's identity isn't known.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The namespace can't be read.
    #[error("failed to read namespace kube-system, whose UID identifies this cluster: {0}")]
    Read(#[source] CallError),
    /// The API server gave it no UID.
    #[error("namespace kube-system has no UID")]
    NoUid,
}

/// Identity of the cluster behind `client`.
pub async fn cluster_uid(client: &Client) -> Result<ClusterUid, IdentityError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = call::within(CALL_LIMIT, namespaces.get(NAMESPACE)).await;
    let uid = namespace.map_err(IdentityError::Read)?.metadata.uid;
    uid.map(ClusterUid).ok_or(IdentityError::NoUid)
}
