//! Live reads: does a target exist? A store without it proves nothing, for it may be older than the target.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use pilotage_api::{ClusterTarget, Target, names};
use pilotage_runtime::call::{CALL_LIMIT, CallError, within};

/// Live LIST: does any `Target` or `ClusterTarget` stand behind this virtual node?
pub async fn has_target(client: &Client, node: &str) -> Result<bool, CallError> {
    let targets: Api<Target> = Api::all(client.clone());
    let cluster_targets: Api<ClusterTarget> = Api::all(client.clone());
    let all = ListParams::default();
    let named = within(CALL_LIMIT, targets.list_metadata(&all)).await?;
    let clusters = within(CALL_LIMIT, cluster_targets.list_metadata(&all)).await?;
    let is_it = |meta: &ObjectMeta| {
        let name = meta.name.as_deref().unwrap_or_default();
        names::virtual_node(meta.namespace.as_deref(), name) == node
    };
    Ok(named.items.iter().any(|target| is_it(&target.metadata))
        || clusters.items.iter().any(|target| is_it(&target.metadata)))
}
