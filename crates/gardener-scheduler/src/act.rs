//! Sends the requests that decisions ask for. No rule is here.

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pilotage_gardener::scheduler::{Bind, NotBound, Report, ShootKey};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};
use serde_json::json;

use crate::objects::{ShootObject, api_version};
use crate::scheduler::Parts;

/// Writes a binding: the object that was read, with its Seed. Fails if the Shoot has changed since.
pub(crate) async fn bind(
    parts: &Parts,
    key: &ShootKey,
    bind: &Bind,
) -> Result<ShootObject, CallError> {
    let body = bind.body().map_err(kube::Error::SerdeError)?;
    let api = shoots(parts, key);
    let params = PostParams::default();
    parts.throttle().await;
    let call = api.replace_subresource("binding", &key.name, &params, &body);
    within(CALL_LIMIT, call).await
}

/// What a failed binding means.
pub(crate) fn meaning(error: &CallError) -> NotBound {
    match error.kind() {
        Failure::Conflict => NotBound::Conflict,
        Failure::Server | Failure::Unknown => NotBound::Open,
        _ => NotBound::Refused,
    }
}

/// Why it failed, for the Shoot's author.
pub(crate) fn why(error: &CallError) -> String {
    let message = error.message();
    match error.kind() {
        // Or the Shoot is gone, which nobody will read then.
        Failure::NotFound => {
            format!("the API server has no subresource shoots/binding: {message}")
        }
        _ => message,
    }
}

/// Tells a Shoot's author why it has no Seed: in its last operation, unless that says so already, and by an event.
/// `false`: the Shoot has changed or gone meanwhile, and nobody was told.
pub(crate) async fn report(parts: &Parts, key: &ShootKey, report: &Report) -> bool {
    if !report.told && !last_operation(parts, key, report).await {
        return false;
    }
    event(
        parts,
        key,
        &report.uid,
        EventType::Warning,
        "SchedulingFailed",
        report.note.clone(),
    );
    true
}

/// Writes the last operation; whether it may still be true, and somebody there to be told.
async fn last_operation(parts: &Parts, key: &ShootKey, report: &Report) -> bool {
    let patch = json!({
        // About a newer Shoot it might not be true any more, least of all if that has a Seed.
        "metadata": {"uid": report.uid, "resourceVersion": report.version},
        "status": {"lastOperation": {
            "type": "Create",
            "state": "Pending",
            "description": report.operation,
            "lastUpdateTime": format!("{:.0}", Timestamp::now()),
        }},
    });
    parts.throttle().await;
    let (api, params, patch) = (
        shoots(parts, key),
        PatchParams::default(),
        Patch::Merge(patch),
    );
    let error = match within(CALL_LIMIT, api.patch_status(&key.name, &params, &patch)).await {
        Ok(shoot) => {
            // So the cache shows it early; the next attempt may come earlier still, and then it meets a conflict.
            parts.watches.shoots.fold(shoot);
            return true;
        }
        Err(error) => error,
    };
    let outdated = error.kind() == Failure::Conflict || error.says_absent("shoots", &key.name);
    if outdated {
        tracing::debug!(shoot = %key, %error, "the Shoot has changed");
    } else {
        tracing::warn!(shoot = %key, %error, "failed to write the last operation");
    }
    !outdated
}

/// Tells that a Shoot has a Seed.
pub(crate) fn succeeded(parts: &Parts, key: &ShootKey, bind: &Bind) {
    let note = format!("Scheduled to seed {:?}", &*bind.seed);
    let reason = "SchedulingSuccessful";
    event(parts, key, &bind.uid, EventType::Normal, reason, note);
}

fn event(
    parts: &Parts,
    key: &ShootKey,
    uid: &str,
    type_: EventType,
    reason: &'static str,
    note: String,
) {
    let regarding = Regarding {
        api_version: api_version(),
        kind: "Shoot".to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.to_owned(),
    };
    parts.events.record(Occurrence {
        regarding,
        type_,
        reason,
        action: "Reconcile",
        note,
        controller: parts.component.clone(),
    });
}

fn shoots(parts: &Parts, key: &ShootKey) -> Api<ShootObject> {
    Api::namespaced(parts.client.clone(), &key.namespace)
}
