//! Writes the status of an object of ours, only over the version that it was judged on.

use kube::Client;
use kube::core::DynamicObject;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use serde_json::{Value, json};

/// What became of a status write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It stands.
    Yes,
    /// The object moved on or is gone; whoever watches it will see.
    Outdated,
}

/// Merges `status` into that of the object at `url`, if it still has this version.
pub(crate) async fn write(
    client: &Client,
    url: &str,
    resource_version: &str,
    status: &Value,
) -> Result<Written, CallError> {
    let body = json!({ "metadata": { "resourceVersion": resource_version }, "status": status });
    let request = http::Request::patch(format!("{url}/status"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(body.to_string().into_bytes())
        .map_err(|error| CallError::Api(kube::Error::HttpError(error)))?;
    match call::within(CALL_LIMIT, client.request::<DynamicObject>(request)).await {
        Ok(_) => Ok(Written::Yes),
        Err(error) if matches!(error.kind(), Failure::Conflict | Failure::NotFound) => {
            Ok(Written::Outdated)
        }
        Err(error) => Err(error),
    }
}
