//! Admission policies that were taken out of the data store are in force until the API server looks at them again,
//! which it does once a second. It knows nothing of whose they were.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::dry_run::wait_admission;
use crate::wait;

/// Of the policy, of its binding, and of the only object that it refuses.
const NAME: &str = "testkit-is-looked-at";

/// Waits until no policy is in force that went before this call. A policy that came later is: the API server looks at
/// all of them at once. An error says why that can't be seen.
pub(super) async fn out_of_force(client: &Client) -> Result<(), String> {
    look(client).await.map_err(|error| error.to_string())
}

async fn look(client: &Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let maps_of_name = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE"], "resourceNames": [NAME],
    });
    let policy = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": {
            "matchConstraints": { "resourceRules": [maps_of_name] },
            "validations": [{ "expression": "false", "message": NAME }],
        },
    }))?;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": { "policyName": NAME, "validationActions": ["Deny"] },
    }))?;
    let map = serde_json::from_value(json!({ "metadata": { "name": NAME } }))?;
    let params = PostParams::default();
    policies.create(&params, &policy).await?;
    bindings.create(&params, &binding).await?;
    let by_it = |answer: &kube::Result<ConfigMap>| {
        let refused = answer.as_ref().err();
        refused.is_some_and(|error| {
            error
                .to_string()
                .contains(&format!("denied request: {NAME}"))
        })
    };
    wait_admission(&maps, &map, by_it, wait::LIMIT).await?;
    bindings.delete(NAME, &DeleteParams::default()).await?;
    policies.delete(NAME, &DeleteParams::default()).await?;
    Ok(())
}
