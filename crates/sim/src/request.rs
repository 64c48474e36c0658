//! Requests of the real processes' edges: which calls each is made of, and what the answers mean to the machine that asked.
//!
//! This is what the edges do, call by call, so that anything may happen between two calls of one request.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, parent::ClusterUid};
use pilotage_candidate::{
    chaperon::{self as controller, Note, Owner, owner},
    plan::Write,
    seat::{BindOutcome, Outcome as Written},
};
use pilotage_proxy::{Action, GrantForm, Outcome, ProxyView, Reply as Replied, feedback, wire};
use serde_json::Value;

use crate::server::{ApiError, Deleted, Object, Server};
use crate::{bodies, server::Delegate};

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Of a proxy scheduler.
    Ask {
        proxy: ProxyView,
        pod: Arc<Pod>,
        action: Action,
    },
    /// Of a feedback controller.
    Feedback {
        uid: String,
        name: String,
        action: feedback::Action,
    },
    /// Of either: does a Target stand behind this node?
    Look { node: String },
    /// Of a candidate scheduler: the conditional write to a chaperon.
    Write {
        key: String,
        write: Write,
        numbered: bool,
        until: Option<Duration>,
    },
    /// Of a candidate scheduler: the binding.
    Bind {
        key: String,
        pod_uid: String,
        node: String,
        until: Option<Duration>,
    },
    /// Of a chaperon controller.
    Control {
        key: String,
        action: controller::Action,
        chaperon: Option<Arc<PodChaperon>>,
    },
}

/// How a request ended, for the machine that sent it.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Source(Replied),
    Look(Option<bool>),
    Write(Written, Option<Arc<PodChaperon>>),
    Bind(BindOutcome),
    Control {
        outcome: controller::Outcome,
        chaperon: Option<Arc<PodChaperon>>,
        pod: Option<Arc<Delegate>>,
    },
}

/// What one call came to.
pub(crate) enum Progress {
    /// Another call follows.
    Next,
    /// That was the last one.
    Done(Reply),
}

impl From<Outcome> for Progress {
    fn from(outcome: Outcome) -> Self {
        Self::Done(Reply::Source(outcome.into()))
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self::Source(outcome.into())
    }
}

impl Request {
    /// The virtual node of the target that the next call goes to; `None`: to its sender's own API server.
    pub(crate) fn node(&self, stage: u8) -> Option<&str> {
        match self {
            Self::Ask { action, .. } => match action {
                Action::Record { .. } | Action::BindProxy { .. } => None,
                Action::DeleteUnlessRecorded { .. } if stage == 0 => None,
                _ => action.node(),
            },
            Self::Feedback { action, .. } => match action {
                feedback::Action::DeleteIfOrphan { .. } if stage == 0 => None,
                _ => action.node(),
            },
            _ => None,
        }
    }

    /// How long its sender waits for an answer, who shows `now`.
    pub(crate) fn limit(&self, now: Duration) -> Duration {
        let usual = Duration::from_secs(match self {
            Self::Ask { .. } | Self::Feedback { .. } | Self::Bind { .. } => 10,
            Self::Look { .. } | Self::Control { .. } => 15,
            Self::Write { .. } => 5,
        });
        match self {
            Self::Write { until, .. } | Self::Bind { until, .. } => {
                until.map_or(usual, |until| until.saturating_sub(now).min(usual))
            }
            _ => usual,
        }
    }

    /// What is said to the sender when nobody knows how it ended.
    pub(crate) fn unknown(&self) -> Reply {
        match self {
            Self::Ask { .. } | Self::Feedback { .. } => {
                Outcome::Unknown("no answer".to_owned()).into()
            }
            Self::Look { .. } => Reply::Look(None),
            Self::Write { .. } => Reply::Write(Written::Unknown, None),
            Self::Bind { .. } => Reply::Bind(BindOutcome::Unknown),
            Self::Control { .. } => control(controller::Outcome::Failed("no answer".to_owned())),
        }
    }

    /// Sends the call of this stage.
    pub(crate) fn call(&self, stage: u8, server: &mut Server, cx: &CallContext<'_>) -> Progress {
        match self {
            Self::Ask { proxy, pod, action } => match ask(stage, server, cx, proxy, pod, action) {
                Some(progress) => progress,
                None => Progress::Next,
            },
            Self::Feedback { uid, name, action } => feedback(stage, server, cx, uid, name, action),
            Self::Look { node } => Progress::Done(Reply::Look(Some(cx.exists(node)))),
            Self::Write { key, write, .. } => Progress::Done(write_answer(server, key, write)),
            Self::Bind {
                key, pod_uid, node, ..
            } => bind(stage, server, key, pod_uid, node),
            Self::Control {
                key,
                action,
                chaperon,
            } => controlled(stage, server, key, action, chaperon.as_deref()),
        }
    }

    /// Name of the chaperon and pod that it is about.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Write { key, .. } | Self::Bind { key, .. } | Self::Control { key, .. } => key,
            Self::Ask { .. } | Self::Feedback { .. } | Self::Look { .. } => "",
        }
    }
}

/// What calls need besides the server.
pub(crate) struct CallContext<'a> {
    pub(crate) cluster: &'a ClusterUid,
    /// Virtual nodes behind which a Target stands.
    pub(crate) nodes: &'a [String],
    /// Something stands before the target and answers 404.
    pub(crate) elsewhere: bool,
}

impl CallContext<'_> {
    fn exists(&self, node: &str) -> bool {
        self.nodes.iter().any(|known| known == node)
    }

    /// The answer of the API server, or of what stands before it.
    fn through<T>(&self, answer: impl FnOnce() -> Result<T, ApiError>) -> Result<T, ApiError> {
        if self.elsewhere {
            return Err(ApiError::NotFoundElsewhere);
        }
        answer()
    }
}

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

/// `None`: another call follows.
fn ask(
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
            _,
        ) => {
            let patch = wire::record(&proxy.uid, resource_version, record);
            match server.merge_proxy(&proxy.name, &patch) {
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
            let version = Some(resource_version.as_str());
            match server.bind_proxy(&proxy.name, &proxy.uid, version, node) {
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
            let there = live.and_then(|live| live.spec.as_ref()?.node_name.clone());
            if there.as_ref() == Some(node) {
                Outcome::Done.into()
            } else {
                Outcome::Conflict.into()
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
        (Action::DeleteUnlessRecorded { name, uid, .. }, _) => {
            delete(server, cx, name, uid, None, false)
        }
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

fn feedback(
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
        (A::CopyStatus { patch }, _) => done(server.merge_proxy_status(pod_name, patch).map(drop)),
        (A::CopyAnnotations { patch }, _) => done(server.merge_proxy(pod_name, patch).map(drop)),
    }
}

// ---- the candidate scheduler ------------------------------------------------------------------------------------

fn write_answer(server: &mut Server, key: &str, write: &Write) -> Reply {
    match server.merge_chaperon(key, &write.patch()) {
        Ok(chaperon) => Reply::Write(Written::Done, Some(chaperon)),
        Err(ApiError::Conflict | ApiError::NotFound) => Reply::Write(Written::Conflict, None),
        Err(error) => Reply::Write(Written::Refused(format!("{error:?}")), None),
    }
}

fn bind(stage: u8, server: &mut Server, key: &str, pod_uid: &str, node: &str) -> Progress {
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

fn control(outcome: controller::Outcome) -> Reply {
    Reply::Control {
        outcome,
        chaperon: None,
        pod: None,
    }
}

fn controlled(
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

/// What of a request the trace shows.
pub(crate) fn describe(request: &Request) -> String {
    let short = |value: &Value| value.to_string().replace(pilotage_api::keys::PREFIX, "");
    match request {
        Request::Ask { proxy, action, .. } => format!("{}: {action:?}", proxy.uid),
        Request::Feedback { uid, action, .. } => format!("{uid}: {action:?}"),
        Request::Look { node } => format!("does {node} exist?"),
        Request::Write { key, write, .. } => {
            format!(
                "{key}: attempt {} {:?} @{}",
                write.attempt, write.answer, write.resource_version
            )
        }
        Request::Bind {
            key, pod_uid, node, ..
        } => format!("{key}: bind {pod_uid} to {node}"),
        Request::Control { key, action, .. } => match action {
            controller::Action::Mark(patch)
            | controller::Action::Ungate(patch)
            | controller::Action::CopyAnnotations(patch)
            | controller::Action::CopyStatus(patch)
            | controller::Action::SayRefused(patch) => format!("{key}: patch {}", short(patch)),
            other => format!("{key}: {other:?}"),
        },
    }
}

/// What of a reply the trace shows.
pub(crate) fn describe_reply(reply: &Reply) -> String {
    match reply {
        Reply::Source(reply) => format!("{:?}", reply.outcome),
        Reply::Look(exists) => format!("{exists:?}"),
        Reply::Write(outcome, _) => format!("{outcome:?}"),
        Reply::Bind(outcome) => format!("{outcome:?}"),
        Reply::Control { outcome, .. } => format!("{outcome:?}"),
    }
}
