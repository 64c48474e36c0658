//! The calls of the source's processes, as API servers answer them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::PodChaperon;
use pilotage_proxy::{Action, GrantForm, Outcome, ProxyView, Reply as Replied, feedback, wire};

use serde_json::json;

use super::{CallContext, Progress, Reply};
use crate::bodies;
use crate::server::{ApiError, Deleted, Object, Server};

// ---- the proxy scheduler ----------------------------------------------------------------------------------------

fn unknown(error: ApiError) -> Outcome {
    Outcome::Unknown(format!("{error:?}"))
}

/// What a refused write of the source to its own pod means.
fn local(error: ApiError) -> Outcome {
    match error {
        ApiError::NotFound
        | ApiError::NotFoundElsewhere
        | ApiError::Conflict
        | ApiError::AlreadyExists => Outcome::Conflict,
        ApiError::Invalid | ApiError::Forbidden => unknown(error),
    }
}

fn done(chaperon: Arc<PodChaperon>) -> Progress {
    Progress::Done(Reply::Source(Replied {
        outcome: Outcome::Done,
        chaperon: Some(chaperon),
        proxy: None,
    }))
}

/// The proxy moved on; it is this one now.
fn conflict(proxy: Option<Arc<Pod>>) -> Progress {
    Progress::Done(Reply::Source(Replied {
        outcome: Outcome::Conflict,
        chaperon: None,
        proxy,
    }))
}

/// `None`: another call follows.
pub(super) fn ask(
    stage: u8,
    server: &mut Server,
    cx: &CallContext<'_>,
    proxy: &ProxyView,
    pod: &Pod,
    action: &Action,
) -> Option<Progress> {
    Some(match (action, stage) {
        (
            Action::Record {
                record,
                resource_version,
            },
            0,
        ) => {
            let patch = wire::record(proxy, resource_version, record);
            match server.merge_proxy(&proxy.name, &patch) {
                Ok(pod) => Progress::Done(Reply::Source(Replied {
                    outcome: Outcome::Done,
                    chaperon: None,
                    proxy: Some(pod),
                })),
                Err(ApiError::Conflict) => return None,
                Err(error) => local(error).into(),
            }
        }
        (Action::Record { .. }, _) => {
            let live = server.proxy(&proxy.name).ok();
            conflict(live.filter(|live| live.uid() == proxy.uid))
        }
        (Action::Keep { .. }, _) => {
            let why = "no proxy of the simulator is Admiralty's";
            Outcome::Unknown(why.to_owned()).into()
        }
        (Action::Say { words, .. }, _) => {
            let message = &words.message;
            let patch =
                json!({ "metadata": { "uid": proxy.uid }, "status": { "message": message } });
            match server.merge_proxy_status(&proxy.name, &patch) {
                Ok(pod) => Progress::Done(Reply::Source(Replied {
                    outcome: Outcome::Done,
                    chaperon: None,
                    proxy: Some(pod),
                })),
                Err(error) => local(error).into(),
            }
        }
        (
            Action::BindProxy {
                node,
                resource_version,
            },
            0,
        ) => {
            let request = wire::binding(proxy, resource_version, node);
            match server.bind_proxy(&request.name, &request.body()) {
                Ok(()) => Outcome::Done.into(),
                Err(ApiError::NotFound | ApiError::NotFoundElsewhere) => Outcome::Conflict.into(),
                Err(ApiError::Conflict | ApiError::AlreadyExists) => return None,
                Err(error) => Outcome::Refused(format!("{error:?}")).into(),
            }
        }
        (Action::BindProxy { node, .. }, _) => {
            let live = server
                .proxy(&proxy.name)
                .ok()
                .filter(|live| live.uid() == proxy.uid);
            let there = live
                .as_ref()
                .and_then(|live| live.spec.as_ref()?.node_name.clone());
            if there.as_ref() == Some(node) {
                Outcome::Done.into()
            } else {
                conflict(live)
            }
        }
        (Action::Ask { .. }, 0) => {
            let body = match bodies::chaperon(pod, proxy, cx.cluster) {
                Ok(body) => body,
                Err(why) => return Some(Outcome::Refused(why).into()),
            };
            match cx.through(|| server.create_chaperon(&body)) {
                Ok(chaperon) => done(chaperon),
                Err(ApiError::AlreadyExists) => return None,
                Err(ApiError::Conflict) => unknown(ApiError::Conflict).into(),
                Err(error) => Outcome::Refused(format!("{error:?}")).into(),
            }
        }
        (Action::Ask { .. }, _) => match cx.through(|| server.chaperon(&proxy.chaperon_name())) {
            Ok(known) if wire::is_own(&known.metadata, &proxy.uid, cx.cluster) => done(known),
            Ok(_) => Outcome::Refused("it belongs to another pod".to_owned()).into(),
            Err(error) => unknown(error).into(),
        },
        (
            Action::Grant {
                name,
                uid,
                resource_version,
                foreign_finalizers,
                form,
                ..
            },
            _,
        ) => {
            if !*foreign_finalizers && *form != GrantForm::Plain {
                let patch = wire::grant_by_test(uid, *form);
                return Some(granted(cx.through(|| server.json_chaperon(name, &patch))));
            }
            // The live read of the finalizers; the version makes what happens in between a conflict.
            let finalizers = match cx.through(|| server.chaperon(name)) {
                Ok(live) => live.metadata.finalizers.clone().unwrap_or_default(),
                Err(_) if *form == GrantForm::Plain => Vec::new(),
                Err(ApiError::NotFound) => return Some(Outcome::Gone.into()),
                Err(error) => return Some(unknown(error).into()),
            };
            let patch = wire::grant_by_version(uid, resource_version, *form, finalizers);
            granted(cx.through(|| server.merge_chaperon(name, &patch)))
        }
        (
            Action::GiveUp {
                name,
                uid,
                resource_version,
                ..
            },
            _,
        ) => {
            let patch = wire::give_up(uid, resource_version);
            granted(cx.through(|| server.merge_chaperon(name, &patch)))
        }
        (
            Action::DeleteChaperon {
                name,
                uid,
                plain,
                resource_version,
                ..
            },
            _,
        ) => delete(server, cx, name, uid, resource_version.as_deref(), *plain),
        (
            Action::ConfirmGone {
                name, uid, plain, ..
            },
            _,
        ) => return confirm_gone(stage, server, cx, name, uid, *plain),
        (Action::DeleteUnlessRecorded { uid, .. }, 0) => {
            let live = server.proxy(&proxy.name).ok();
            let live = live.as_deref().and_then(ProxyView::of);
            if !wire::is_recorded(live.as_ref(), &proxy.uid, uid) {
                return None;
            }
            Outcome::StillThere.into()
        }
        (
            Action::DeleteUnlessRecorded {
                name, uid, plain, ..
            },
            _,
        ) => delete(server, cx, name, uid, None, *plain),
    })
}

fn granted(answer: Result<Arc<PodChaperon>, ApiError>) -> Progress {
    match answer {
        Ok(chaperon) => done(chaperon),
        Err(ApiError::NotFound) => Outcome::Gone.into(),
        Err(ApiError::Conflict | ApiError::Invalid) => Outcome::Conflict.into(),
        Err(error) => unknown(error).into(),
    }
}

fn delete(
    server: &mut Server,
    cx: &CallContext<'_>,
    name: &str,
    uid: &str,
    resource_version: Option<&str>,
    plain: bool,
) -> Progress {
    match cx.through(|| server.delete_chaperon(name, Some(uid), resource_version, plain)) {
        Ok(Deleted::Ending(chaperon)) => done(chaperon),
        Ok(Deleted::Gone) | Err(ApiError::NotFound) => Outcome::Gone.into(),
        Err(ApiError::Conflict) => Outcome::Conflict.into(),
        Err(error) => unknown(error).into(),
    }
}

/// `None`: the pods are to be listed.
fn confirm_gone(
    stage: u8,
    server: &Server,
    cx: &CallContext<'_>,
    name: &str,
    uid: &str,
    plain: bool,
) -> Option<Progress> {
    if stage > 0 {
        let there = cx.through(|| {
            let pods: Vec<_> = server
                .delegates
                .get(name)
                .map(|pod| pod.meta().clone())
                .into_iter()
                .collect();
            Ok(wire::is_delegate_left(&pods, uid))
        });
        return Some(match there {
            Ok(false) => Outcome::Gone.into(),
            Ok(true) => Outcome::StillThere.into(),
            Err(error) => unknown(error).into(),
        });
    }
    match cx.through(|| server.chaperon(name)) {
        Ok(chaperon) if chaperon.uid() == uid => Some(Progress::Done(Reply::Source(Replied {
            outcome: Outcome::StillThere,
            chaperon: Some(chaperon),
            proxy: None,
        }))),
        Err(error) if error != ApiError::NotFound => Some(unknown(error).into()),
        _ if plain => None,
        _ => Some(Outcome::Gone.into()),
    }
}

// ---- the feedback controller ------------------------------------------------------------------------------------

pub(super) fn feedback(
    stage: u8,
    server: &mut Server,
    cx: &CallContext<'_>,
    pod_uid: &str,
    pod_name: &str,
    action: &feedback::Action,
) -> Progress {
    use feedback::Action as A;
    let done = |written: Result<(), ApiError>| -> Progress {
        written.map_or_else(local, |()| Outcome::Done).into()
    };
    match (action, stage) {
        (
            A::DeleteChaperon {
                name,
                uid,
                plain,
                resource_version,
                ..
            },
            _,
        ) => delete(server, cx, name, uid, resource_version.as_deref(), *plain),
        (
            A::ConfirmGone {
                name, uid, plain, ..
            },
            _,
        ) => confirm_gone(stage, server, cx, name, uid, *plain).unwrap_or(Progress::Next),
        (A::DeleteIfOrphan { .. }, 0) => {
            let live = server.proxy(pod_name).ok();
            let meta = live.as_ref().map(|live| &live.metadata);
            if wire::is_parent(meta, pod_uid) {
                return Outcome::StillThere.into();
            }
            Progress::Next
        }
        (A::DeleteIfOrphan { name, uid, .. }, _) => delete(server, cx, name, uid, None, false),
        (A::DeleteProxy, _) => done(server.delete_proxy(pod_name, pod_uid, false)),
        (A::EndGrace, _) => done(server.delete_proxy(pod_name, pod_uid, true)),
        (
            A::RemoveFinalizer {
                remaining,
                resource_version,
            },
            _,
        ) => {
            let patch = wire::finalizers(pod_uid, resource_version, remaining);
            done(server.merge_proxy(pod_name, &patch).map(drop))
        }
        (A::ChangeSpec { .. }, _) => {
            let why = "no proxy of the simulator changes its spec";
            Outcome::Unknown(why.to_owned()).into()
        }
        (A::Endure { .. }, _) => {
            let why = "no proxy of the simulator is Admiralty's";
            Outcome::Unknown(why.to_owned()).into()
        }
        (A::CopyStatus { patch }, _) => done(server.merge_proxy_status(pod_name, patch).map(drop)),
        (A::CopyAnnotations { patch }, _) => done(server.merge_proxy(pod_name, patch).map(drop)),
    }
}
