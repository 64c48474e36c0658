//! What the webhook installed, and nobody takes away with its Deployment: while it stays, the API server asks a webhook that
//! is gone, and refuses elected pods.

use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client, Resource};
use pilotage_runtime::call::{self, CALL_LIMIT, Failure};
use pilotage_webhook::args::DEFAULT_SECRET;
use pilotage_webhook::objects::{CONFIGURATION, POLICY};
use serde::de::DeserializeOwned;

use crate::cmd::finalizers::ReadError;

/// Deletes them and tells of each that was there. The certificate is in the namespace where Pilotage ran; without a name of
/// that it stays.
pub(super) async fn remove(
    client: &Client,
    namespace: Option<&str>,
    dry_run: bool,
) -> Result<Vec<String>, ReadError> {
    // First what keeps pods from being created.
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let mut told = Vec::new();
    told.extend(delete(&configurations, CONFIGURATION, dry_run).await?);
    told.extend(delete(&bindings, POLICY, dry_run).await?);
    told.extend(delete(&policies, POLICY, dry_run).await?);
    if let Some(namespace) = namespace {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        told.extend(delete(&secrets, DEFAULT_SECRET, dry_run).await?);
    }
    Ok(told)
}

/// Plural and name of the object, if it was there.
async fn delete<K>(api: &Api<K>, name: &str, dry_run: bool) -> Result<Option<String>, ReadError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let named = format!("{}/{name}", K::plural(&()));
    let params = DeleteParams {
        dry_run,
        ..DeleteParams::default()
    };
    match call::within(CALL_LIMIT, api.delete(name, &params)).await {
        Ok(_) => Ok(Some(named)),
        Err(error) if error.kind() == Failure::NotFound => Ok(None),
        Err(error) => Err(ReadError::to(format!("delete {named}"))(error)),
    }
}
