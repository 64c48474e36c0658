//! What the webhook installed, and nobody takes away with its Deployment: while it stays, the API server asks a webhook
//! that is gone, and refuses elected pods.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client, Resource};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_webhook::args::DEFAULT_SECRET;
use pilotage_webhook::objects::{CONFIGURATION, POLICY, TARGETS_POLICY};
use serde::de::DeserializeOwned;

/// How long a webhook that still runs may take to install its configuration anew, and how often that is looked for.
const BACK: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(250));

/// Deletes them; tells of each by plural and name whether it was there, or why it stays. The certificate is in the
/// namespace where Pilotage ran; without a name of that it stays.
pub(super) async fn remove(
    client: &Client,
    namespace: Option<&str>,
    dry_run: bool,
) -> Vec<(String, Result<bool, CallError>)> {
    // First what keeps pods from being created.
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let mut told = vec![
        delete(&configurations, CONFIGURATION, dry_run).await,
        delete(&bindings, POLICY, dry_run).await,
        delete(&bindings, TARGETS_POLICY, dry_run).await,
        delete(&policies, POLICY, dry_run).await,
        delete(&policies, TARGETS_POLICY, dry_run).await,
    ];
    if let Some(namespace) = namespace {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        told.push(delete(&secrets, DEFAULT_SECRET, dry_run).await);
    }
    told
}

/// Plural and name of the configuration, if it is there although it was deleted: a webhook that runs sees that at once,
/// and installs it. Who may delete it may ask whether he could.
pub(super) async fn back(client: &Client) -> Option<String> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (limit, pause) = BACK;
    let looking = async {
        loop {
            let (named, there) = delete(&configurations, CONFIGURATION, true).await;
            if matches!(there, Ok(true)) {
                return named;
            }
            tokio::time::sleep(pause).await;
        }
    };
    tokio::time::timeout(limit, looking).await.ok()
}

/// Plural and name of an object, and whether it was there.
async fn delete<K>(api: &Api<K>, name: &str, dry_run: bool) -> (String, Result<bool, CallError>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let params = DeleteParams {
        dry_run,
        ..DeleteParams::default()
    };
    let deleted = match call::within(CALL_LIMIT, api.delete(name, &params)).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Failure::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    (format!("{}/{name}", K::plural(&())), deleted)
}
