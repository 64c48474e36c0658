//! The calls of a target's processes, as their API server answers them.

use std::sync::Arc;

use pilotage_api::PodChaperon;
use pilotage_candidate::{
    chaperon::{self as controller, Note, Owner, owner},
    plan::Write,
    seat::{BindOutcome, Outcome as Written},
};

use super::{Progress, Reply};
use crate::bodies;
use crate::server::{ApiError, Deleted, Object, Server};

// ---- the candidate scheduler ------------------------------------------------------------------------------------

pub(super) fn write_answer(server: &mut Server, key: &str, write: &Write) -> Reply {
    match server.merge_chaperon(key, &write.patch()) {
        Ok(chaperon) => Reply::Write(Written::Done, Some(chaperon)),
        Err(ApiError::Conflict | ApiError::NotFound) => Reply::Write(Written::Conflict, None),
        Err(error) => Reply::Write(Written::Refused(format!("{error:?}")), None),
    }
}

pub(super) fn bind(
    stage: u8,
    server: &mut Server,
    key: &str,
    pod_uid: &str,
    node: &str,
) -> Progress {
    if stage > 0 {
        let live = server.delegate(key).ok();
        let bound = live.is_some_and(|live| live.uid() == pod_uid && live.node() == Some(node));
        let outcome = if bound {
            BindOutcome::Done
        } else {
            BindOutcome::Lost
        };
        return Progress::Done(Reply::Bind(outcome));
    }
    match server.bind_pod(key, pod_uid, node) {
        Ok(()) => Progress::Done(Reply::Bind(BindOutcome::Done)),
        Err(ApiError::Conflict) => Progress::Next,
        Err(_) => Progress::Done(Reply::Bind(BindOutcome::Lost)),
    }
}

// ---- the chaperon controller ------------------------------------------------------------------------------------

pub(super) fn control(outcome: controller::Outcome) -> Reply {
    Reply::Control {
        outcome,
        chaperon: None,
        pod: None,
    }
}

pub(super) fn controlled(
    stage: u8,
    server: &mut Server,
    key: &str,
    action: &controller::Action,
    chaperon: Option<&PodChaperon>,
) -> Progress {
    use controller::{Action as A, Outcome as O};
    let failed = |why: &str| control(O::Failed(why.to_owned()));
    Progress::Done(match (action, stage) {
        (A::CreatePod, 0) => {
            let Some(chaperon) = chaperon else {
                return Progress::Done(failed("the chaperon is gone"));
            };
            let body = match bodies::candidate(chaperon) {
                Ok(body) => body,
                Err(why) => return Progress::Done(control(O::Refused(why))),
            };
            match server.create_pod(body) {
                Ok(pod) => Reply::Control {
                    outcome: O::Done,
                    chaperon: None,
                    pod: Some(pod),
                },
                Err(ApiError::AlreadyExists) => return Progress::Next,
                Err(ApiError::Conflict) => failed("conflict"),
                Err(error) => control(O::Refused(format!("{error:?}"))),
            }
        }
        (A::CreatePod, _) => match server.delegate(key) {
            Ok(pod) if owner(&pod.raw) == Owner::Other => {
                control(O::Refused(Note::NameTaken.to_string()))
            }
            Ok(pod) => Reply::Control {
                outcome: O::Failed("the pod exists".to_owned()),
                chaperon: None,
                pod: Some(pod),
            },
            Err(_) => failed("the pod went meanwhile"),
        },
        (
            A::EndUnbound {
                uid,
                resource_version,
            },
            _,
        ) => {
            let known = server.delegate(key);
            let moved = known.is_ok_and(|pod| {
                pod.raw.metadata.resource_version.as_deref() != Some(&**resource_version)
            });
            if moved {
                return Progress::Done(failed("conflict"));
            }
            match server.delete_pod(key, uid) {
                Ok(Deleted::Gone) | Err(ApiError::NotFound) => control(O::Done),
                _ => failed("conflict"),
            }
        }
        (A::DeletePod { uid }, _) => match server.delete_pod(key, uid) {
            Ok(Deleted::Ending(pod)) => Reply::Control {
                outcome: O::Done,
                chaperon: None,
                pod: Some(pod),
            },
            Ok(Deleted::Gone) | Err(ApiError::NotFound | ApiError::Conflict) => control(O::Done),
            Err(_) => failed("refused"),
        },
        (A::Ungate(patch), _) => match server.patch_gates(key, patch) {
            Ok(pod) => Reply::Control {
                outcome: O::Done,
                chaperon: None,
                pod: Some(pod),
            },
            Err(error) => failed(&format!("{error:?}")),
        },
        (A::Change(_), _) => failed("no proxy of the simulator changes its spec"),
        (A::LookAtPod { .. }, _) => match server.delegate(key) {
            Ok(pod) => Reply::Control {
                outcome: O::Pod(pod.uid().to_owned()),
                chaperon: None,
                pod: (owner(&pod.raw) != Owner::Other).then_some(pod),
            },
            Err(_) => control(O::NoPod),
        },
        (A::Mark(patch) | A::CopyAnnotations(patch), _) => {
            written(server.merge_chaperon(key, patch))
        }
        (A::CopyStatus(patch) | A::SayRefused(patch), _) => {
            written(server.merge_chaperon_status(key, patch))
        }
        (A::Tell(_), _) => control(O::Done),
    })
}

fn written(answer: Result<Arc<PodChaperon>, ApiError>) -> Reply {
    match answer {
        Ok(chaperon) => Reply::Control {
            outcome: controller::Outcome::Done,
            chaperon: Some(chaperon),
            pod: None,
        },
        Err(error) => control(controller::Outcome::Failed(format!("{error:?}"))),
    }
}
