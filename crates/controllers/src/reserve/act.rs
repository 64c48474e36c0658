//! The requests of the candidate's side: the conditional write to a chaperon and the binding. No rule is here.

use std::time::Duration;

use kube::Client;
use pilotage_candidate::{
    plan::Write,
    seat::{BindOutcome, Outcome},
};
use pilotage_runtime::call::Failure;
use pilotage_sched::BindingRequest;
use pilotage_sched_driver::{BindError, PodBinder};
use serde_json::json;
use tokio::time::timeout;

use crate::chaperon::{Key, objects};

/// Limit of one write; what it is for has its own deadline, which may be nearer.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Sends the write; with the reply, if it landed.
pub(super) async fn write(
    client: &Client,
    key: &Key,
    write: &Write,
    limit: Duration,
) -> (Outcome, Option<String>) {
    let mut patch = write.patch();
    // Nobody applies chaperons: from here on the API server keeps no book of who manages which of its fields, which
    // costs it as much as the write itself.
    patch["metadata"]["managedFields"] = json!([{}]);
    let limit = limit.min(WRITE_LIMIT);
    match objects::patch(client, key, &patch, false, limit).await {
        Ok(reply) => (Outcome::Done, Some(reply)),
        Err(error) => {
            let outcome = match error.kind() {
                Failure::Conflict | Failure::NotFound => Outcome::Conflict,
                Failure::Forbidden | Failure::Invalid | Failure::AlreadyExists => {
                    Outcome::Refused(error.message())
                }
                Failure::Throttled | Failure::Server | Failure::Unknown | Failure::Expired => {
                    Outcome::Unknown
                }
            };
            tracing::debug!(%key, ?outcome, error = error.message(), "a write to the chaperon failed");
            (outcome, None)
        }
    }
}

/// Sends the binding.
pub(super) async fn bind(
    binder: &PodBinder,
    key: &Key,
    pod_uid: &str,
    node: &str,
    limit: Duration,
) -> BindOutcome {
    let request = BindingRequest {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: pod_uid.to_owned(),
        resource_version: None,
        node: node.to_owned(),
    };
    match timeout(limit, binder.bind(&request)).await {
        Ok(Ok(())) => BindOutcome::Done,
        Ok(Err(BindError::Refused(error))) => BindOutcome::Refused(error.message()),
        Ok(Err(BindError::Unknown(error))) => {
            tracing::warn!(%key, node, error = error.message(), "the outcome of a binding is unknown");
            BindOutcome::Unknown
        }
        Ok(Err(error)) => {
            tracing::debug!(%key, node, %error, "a binding came to nothing");
            BindOutcome::Lost
        }
        Err(_) => BindOutcome::Unknown,
    }
}
