//! Sends the requests that decisions ask for. No rule is here.

use kube::{
    Api,
    api::{
        DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
};
use pilotage_api::PodChaperon;
use pilotage_candidate::chaperon::{Action, Note, Outcome, Owner, RawPod, Step, owner};
use pilotage_model::{
    chaperon::candidate_pod,
    recent::{self, Dropped},
};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find, within};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};
use serde::de::Error as _;
use serde_json::Value;

use super::{CONTROLLER, Parts, objects};
use crate::chaperon::Key;

/// Sends one request about the name `key`; the reply is folded into the stores.
pub(super) async fn act(
    parts: &Parts,
    key: &Key,
    chaperon: Option<&PodChaperon>,
    action: &Action,
) -> Outcome {
    match action {
        Action::CreatePod => match chaperon {
            Some(chaperon) => create(parts, key, chaperon).await,
            None => Outcome::Failed("the chaperon is gone".to_owned()),
        },
        Action::DeletePod { uid } => delete(parts, key, uid, None).await,
        Action::EndUnbound {
            uid,
            resource_version,
        } => delete(parts, key, uid, Some(resource_version)).await,
        Action::Ungate(patch) => ungate(parts, key, patch).await,
        Action::Change(step) => change(parts, key, step).await,
        Action::LookAtPod { .. } => look(parts, key).await,
        Action::Mark(patch) | Action::CopyAnnotations(patch) => {
            write(parts, key, patch, false).await
        }
        Action::CopyStatus(patch) | Action::SayRefused(patch) => {
            write(parts, key, patch, true).await
        }
        Action::Tell(note) => {
            if let Some(chaperon) = chaperon {
                tell(parts, chaperon, note);
            }
            Outcome::Done
        }
    }
}

async fn create(parts: &Parts, key: &Key, chaperon: &PodChaperon) -> Outcome {
    let body = serde_json::to_value(chaperon)
        .map_err(|error| error.to_string())
        .and_then(|chaperon| candidate_pod(&chaperon).map_err(|error| error.to_string()))
        .and_then(|pod| serde_json::from_value::<RawPod>(pod).map_err(|error| error.to_string()));
    let body = match body {
        Ok(body) => body,
        // The spec can't be a pod's: as final as the API server's word.
        Err(error) => return Outcome::Refused(error),
    };
    let api: Api<RawPod> = Api::namespaced(parts.client.clone(), &key.namespace);
    if let Err(dropped) = whole(&api, &body).await {
        return Outcome::Refused(dropped.to_string());
    }
    match within(CALL_LIMIT, api.create(&PostParams::default(), &body)).await {
        Ok(pod) => {
            fold(parts, pod);
            Outcome::Done
        }
        Err(error) => match error.kind() {
            Failure::AlreadyExists => taken(parts, key).await,
            Failure::Conflict | Failure::Throttled | Failure::Unknown | Failure::Expired => {
                failed(key, "make the pod", &error)
            }
            // A 500 mostly is an admission webhook that is away: whoever waits should read that, too.
            Failure::Forbidden | Failure::Invalid | Failure::NotFound | Failure::Server => {
                Outcome::Refused(error.message())
            }
        },
    }
}

/// Whether this API server would leave nothing out of the pod. A dry run tells, for pods alone that ask for something
/// recent; where it fails, the creation itself says why, or some admission webhook takes no dry runs.
async fn whole(api: &Api<RawPod>, body: &RawPod) -> Result<(), Dropped> {
    if !recent::asks(&body.spec) {
        return Ok(());
    }
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match within(CALL_LIMIT, api.create(&dry_run, body)).await {
        Ok(made) => recent::check(&body.spec, &made.spec),
        Err(_) => Ok(()),
    }
}

/// A pod of that name exists, though the store doesn't show it: it lags, or the pod isn't a candidate at all.
async fn taken(parts: &Parts, key: &Key) -> Outcome {
    match live(parts, key).await {
        Ok(Some(pod)) if owner(&pod) == Owner::Other => {
            Outcome::Refused(Note::NameTaken.to_string())
        }
        Ok(Some(pod)) => {
            fold(parts, pod);
            Outcome::Failed("the pod exists".to_owned())
        }
        Ok(None) => Outcome::Failed("the pod went meanwhile".to_owned()),
        Err(error) => failed(key, "look at the pod", &error),
    }
}

/// DELETE; with a version, that one only.
async fn delete(parts: &Parts, key: &Key, uid: &str, version: Option<&str>) -> Outcome {
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    };
    let request = objects::pods(key).delete(&key.name, &params);
    match within(CALL_LIMIT, objects::send(&parts.client, request)).await {
        Ok(reply) => {
            // Of a pod that is gone at once it is a status.
            if let Ok(pod) = parts.pods.read(&reply)
                && pod.metadata.deletion_timestamp.is_some()
            {
                fold(parts, pod);
            }
            Outcome::Done
        }
        Err(error) if error.kind() == Failure::NotFound => Outcome::Done,
        // Another pod by now.
        Err(error) if error.kind() == Failure::Conflict && version.is_none() => Outcome::Done,
        Err(error) => failed(key, "delete the pod", &error),
    }
}

async fn ungate(parts: &Parts, key: &Key, patch: &Value) -> Outcome {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let request = objects::pods(key).patch(&key.name, &params, &patch);
    match within(CALL_LIMIT, pod(parts, request)).await {
        Ok(pod) => {
            let stays = pod.other_gates().is_some();
            fold(parts, pod);
            if stays {
                // Some admission webhook of the target put it back.
                return Outcome::Failed("the gate stays".to_owned());
            }
            Outcome::Done
        }
        Err(error) => failed(key, "take the gate off the pod", &error),
    }
}

/// PATCH of a subresource. A patch that our role doesn't give is refused like one that admission doesn't let through.
async fn change(parts: &Parts, key: &Key, step: &Step) -> Outcome {
    let (params, patch) = (PatchParams::default(), Patch::Strategic(&step.patch));
    let pods = objects::pods(key);
    let request = pods.patch_subresource(step.subresource, &key.name, &params, &patch);
    match within(CALL_LIMIT, pod(parts, request)).await {
        Ok(pod) => {
            fold(parts, pod);
            Outcome::Done
        }
        Err(error) => match error.kind() {
            // 404: the pod is gone, which the watch tells, or the API server knows no such change.
            Failure::Forbidden | Failure::Invalid | Failure::NotFound => {
                Outcome::Refused(error.message())
            }
            _ => failed(key, "change the pod", &error),
        },
    }
}

async fn look(parts: &Parts, key: &Key) -> Outcome {
    match live(parts, key).await {
        Ok(None) => Outcome::NoPod,
        Ok(Some(pod)) => {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            // What isn't labelled as a candidate isn't in the watch, which could never take it out again.
            if owner(&pod) != Owner::Other {
                fold(parts, pod);
            }
            Outcome::Pod(uid)
        }
        Err(error) => failed(key, "look at the pod", &error),
    }
}

async fn write(parts: &Parts, key: &Key, patch: &Value, status: bool) -> Outcome {
    match objects::patch(&parts.client, key, patch, status, CALL_LIMIT).await {
        Ok(reply) => {
            parts.chaperons.fold_reply(&reply);
            Outcome::Done
        }
        Err(error) => failed(key, "write to the chaperon", &error),
    }
}

fn tell(parts: &Parts, chaperon: &PodChaperon, note: &Note) {
    parts.events.record(Occurrence {
        regarding: Regarding::object(chaperon),
        type_: EventType::Warning,
        reason: note.reason(),
        action: "CreatePod",
        note: note.to_string(),
        controller: CONTROLLER.into(),
    });
}

/// The pod of that name as it is now; `None` if there is none.
async fn live(parts: &Parts, key: &Key) -> Result<Option<RawPod>, CallError> {
    let request = objects::pods(key).get(&key.name, &GetParams::default());
    let get = pod(parts, request);
    find(CALL_LIMIT, get, "pods", &key.name).await
}

/// Sends a request about a pod; with the pod of the answer, which nobody keeps whole if it is a heavy one.
async fn pod(parts: &Parts, request: objects::Built) -> Result<RawPod, kube::Error> {
    let reply = objects::send(&parts.client, request).await?;
    let pod = parts.pods.read(&reply);
    pod.map_err(|error| kube::Error::SerdeError(serde_json::Error::custom(error)))
}

fn fold(parts: &Parts, pod: RawPod) {
    parts.pods.fold(parts.pods.as_kept(pod));
}

fn failed(key: &Key, what: &str, error: &CallError) -> Outcome {
    let message = error.message();
    match error.kind() {
        // The watch brings what the object is now.
        Failure::Conflict | Failure::NotFound => {
            tracing::debug!(%key, what, error = message, "the object moved on");
        }
        _ => tracing::warn!(%key, what, error = message, "a request failed; it is sent again"),
    }
    Outcome::Failed(message)
}
