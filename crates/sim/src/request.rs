//! Requests of the real processes' edges: which calls each is made of, and what the answers mean to the machine that
//! asked.
//!
//! This is what the edges do, call by call, so that anything may happen between two calls of one request.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, parent::ClusterUid};
use pilotage_candidate::{
    chaperon as controller,
    plan::Write,
    seat::{BindOutcome, Outcome as Written},
};
use pilotage_proxy::{Action, Outcome, ProxyView, Reply as Replied, feedback};
use serde_json::Value;

use crate::server::{ApiError, Delegate, Server};

mod source;
mod target;

use source::{ask, feedback};
use target::{bind, control, controlled, write_answer};

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
                Action::Record { .. } | Action::Say { .. } | Action::BindProxy { .. } => None,
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
