//! Sends what the proxy scheduler's state machine asks for. No policy.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use pilotage_api::{
    PodChaperon, keys,
    parent::{ClusterUid, ParentLink},
    trace::TraceParent,
};
use pilotage_model::burden;
use pilotage_model::manifest::{ManifestError, SourcePod};
use pilotage_proxy::{
    Action, GrantForm, Outcome, ProxyView, Reply, TurnedAway, Wanted, kept::LeftOut, wire,
};
use pilotage_runtime::call::{CallError, Failure, find, within};
use pilotage_runtime::weight;
use pilotage_sched_driver::{BindError, PodBinder, publish::unscheduled};
use serde_json::Value;

use crate::{
    fleet::Fleet,
    remote::{Deletion, Remote, is_absent, local_failure},
};

/// Limit of one request to the source's own API server.
const LOCAL_LIMIT: Duration = Duration::from_secs(10);

/// Limit of writing a condition, which a choice may be waiting for.
const SAY_LIMIT: Duration = Duration::from_secs(2);

/// The saved manifest of a proxy pod, or why it can't be read.
pub(super) type Source = Result<Arc<SourcePod>, String>;

/// What a question needs besides the pod.
pub(super) struct Question {
    /// What is asked about; nothing, if it is too heavy to be kept.
    pub(super) source: Option<Source>,
    /// Where the target's spans belong, if the pod is traced.
    pub(super) context: Option<TraceParent>,
}

/// What requests are sent with.
pub(super) struct Acting {
    pub(super) client: Client,
    pub(super) fleet: Fleet,
    pub(super) binder: PodBinder,
    pub(super) cluster: ClusterUid,
    pub(super) cluster_name: Option<String>,
}

impl Acting {
    /// Sends one action about a proxy pod.
    pub(super) async fn act(
        &self,
        proxy: &ProxyView,
        pod: &Pod,
        question: Question,
        action: &Action,
    ) -> Reply {
        match action {
            Action::Record {
                record,
                resource_version,
            } => {
                let patch = wire::record(proxy, resource_version, record);
                self.patch(proxy, &patch).await
            }
            Action::Keep { resource_version } => match proxy.with_finalizer() {
                Some(all) => {
                    let patch = wire::finalizers(&proxy.uid, resource_version, &all);
                    self.patch(proxy, &patch).await
                }
                None => Outcome::Done.into(),
            },
            Action::Say { words, .. } => {
                let patch = unscheduled(pod, words.reason, &words.message, Timestamp::now());
                // It says so already.
                let Some(patch) = patch else {
                    return Outcome::Done.into();
                };
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &proxy.namespace);
                let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
                let call = pods.patch_status(&proxy.name, &params, &patch);
                match within(SAY_LIMIT, call).await {
                    Ok(pod) => Reply {
                        proxy: Some(Arc::new(pod)),
                        ..Outcome::Done.into()
                    },
                    Err(error) => self.failed(proxy, &error).await,
                }
            }
            Action::BindProxy {
                node,
                resource_version,
            } => {
                let request = wire::binding(proxy, resource_version, node);
                match self.binder.bind(&request).await {
                    Ok(()) => Outcome::Done.into(),
                    Err(error @ BindError::Unknown(_)) => {
                        Outcome::Unknown(error.to_string()).into()
                    }
                    Err(BindError::Refused(error)) => Outcome::Refused(error.message()).into(),
                    // The watch may be seconds behind: what was read is what the next try is judged on.
                    Err(BindError::Changed { now, .. }) => Reply {
                        proxy: Some(Arc::from(now)),
                        ..Outcome::Conflict.into()
                    },
                    Err(_) => Outcome::Conflict.into(),
                }
            }
            Action::Ask { node }
            | Action::Grant { node, .. }
            | Action::GiveUp { node, .. }
            | Action::DeleteChaperon { node, .. }
            | Action::ConfirmGone { node, .. }
            | Action::DeleteUnlessRecorded { node, .. } => {
                match Remote::of(&self.fleet, node, &proxy.namespace, &proxy.uid) {
                    Ok(remote) => self.act_there(&remote, proxy, pod, question, action).await,
                    Err(outcome) => outcome.into(),
                }
            }
        }
    }

    async fn act_there(
        &self,
        remote: &Remote<'_>,
        proxy: &ProxyView,
        pod: &Pod,
        question: Question,
        action: &Action,
    ) -> Reply {
        match action {
            Action::Ask { .. } => self.ask(remote, proxy, pod, question).await,
            Action::Grant {
                name,
                uid,
                resource_version,
                foreign_finalizers,
                form,
                ..
            } => {
                let by_version = *foreign_finalizers || *form == GrantForm::Plain;
                if by_version {
                    grant_by_version(remote, name, uid, resource_version, *form).await
                } else {
                    grant_by_test(remote, name, uid, *form).await
                }
            }
            Action::GiveUp {
                name,
                uid,
                resource_version,
                ..
            } => {
                let patch = Patch::Merge(wire::give_up(uid, resource_version));
                let params = PatchParams::default();
                let patched = remote
                    .call(remote.chaperons.patch(name, &params, &patch))
                    .await;
                sent(
                    remote,
                    &remote.wanted(name, Some(uid)),
                    patched,
                    wire::is_given_up,
                )
            }
            Action::DeleteChaperon {
                name,
                uid,
                plain,
                resource_version,
                ..
            } => {
                let how = Deletion {
                    plain: *plain,
                    resource_version: resource_version.as_deref(),
                };
                remote.delete(name, uid, how).await
            }
            Action::ConfirmGone {
                name, uid, plain, ..
            } => remote.confirm_gone(name, uid, *plain).await,
            Action::DeleteUnlessRecorded {
                name, uid, plain, ..
            } => match self.is_recorded(proxy, uid).await {
                Ok(true) => Outcome::StillThere.into(),
                Ok(false) => {
                    let how = Deletion {
                        plain: *plain,
                        resource_version: None,
                    };
                    remote.delete(name, uid, how).await
                }
                Err(outcome) => outcome.into(),
            },
            Action::Record { .. }
            | Action::Keep { .. }
            | Action::Say { .. }
            | Action::BindProxy { .. } => {
                Outcome::Unknown("not a request to a target".to_owned()).into()
            }
        }
    }

    /// PATCH of the proxy pod's metadata.
    async fn patch(&self, proxy: &ProxyView, patch: &Value) -> Reply {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &proxy.namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match within(LOCAL_LIMIT, pods.patch(&proxy.name, &params, &patch)).await {
            Ok(pod) => Reply {
                proxy: Some(Arc::new(pod)),
                ..Outcome::Done.into()
            },
            Err(error) => self.failed(proxy, &error).await,
        }
    }

    /// POST the chaperon; one that is there already is adopted if it is the pod's own.
    async fn ask(
        &self,
        remote: &Remote<'_>,
        proxy: &ProxyView,
        pod: &Pod,
        question: Question,
    ) -> Reply {
        let Question { source, context } = question;
        let source = match source {
            Some(source) => source,
            None => match self.source(proxy, pod).await {
                Ok(source) => source,
                Err(outcome) => return outcome.into(),
            },
        };
        let keep_labels = remote.keeps_labels();
        let body = source.and_then(|source| self.chaperon(proxy, &source, keep_labels, context));
        let body = match body {
            Ok(body) => body,
            Err(reason) => return Outcome::Refused(reason).into(),
        };
        match remote
            .call(remote.chaperons.create(&PostParams::default(), &body))
            .await
        {
            Ok(chaperon) => {
                let name = proxy.chaperon_name();
                remote.done(&remote.wanted(&name, None), chaperon, |_| true)
            }
            Err(error) => match error.kind() {
                Failure::AlreadyExists => adopt(remote, proxy, &self.cluster).await,
                Failure::NotFound | Failure::Forbidden | Failure::Invalid => {
                    Outcome::Refused(error.message()).into()
                }
                _ => Outcome::Unknown(error.message()).into(),
            },
        }
    }

    /// What is asked about, if nobody keeps it: of a pod that isn't kept whole its text is read, too.
    async fn source(&self, proxy: &ProxyView, pod: &Pod) -> Result<Source, Outcome> {
        if proxy.left_out == LeftOut::Nothing {
            return Ok(read(&pod.metadata));
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &proxy.namespace);
        let live = within(LOCAL_LIMIT, pods.get_metadata(&proxy.name)).await;
        let live = live.map_err(|error| Outcome::Unknown(error.message()))?;
        if live.metadata.uid.as_ref() != Some(&proxy.uid) {
            let why = "the pod is another one by now";
            return Err(Outcome::Unknown(why.to_owned()));
        }
        Ok(read(&live.metadata))
    }

    fn chaperon(
        &self,
        proxy: &ProxyView,
        source: &SourcePod,
        keep_labels: bool,
        context: Option<TraceParent>,
    ) -> Result<PodChaperon, String> {
        let link = ParentLink {
            cluster_uid: Some(self.cluster.clone()),
            cluster_name: self.cluster_name.clone(),
            uid: proxy.uid.clone(),
            namespace: proxy.namespace.clone(),
            name: proxy.name.clone(),
        };
        let mut body = pilotage_model::chaperon::chaperon(source.value(), &link)
            .map_err(|error| error.to_string())?;
        if keep_labels {
            pilotage_model::chaperon::keep_labels(&mut body, source.value());
        }
        // A pod that was created before anybody looked; no target is to blame for what couldn't be read back.
        burden::check(&body, weight::of).map_err(|error| error.to_string())?;
        // It has its room among what any chaperon gets: no pod is refused for being traced.
        if let Some(context) = context {
            pilotage_model::chaperon::trace(&mut body, context);
        }
        // Loses nothing: spec and status of this type are the JSON objects themselves.
        serde_json::from_value(body).map_err(|error| error.to_string())
    }

    /// A write of the proxy pod that failed; if that was because the pod has moved on, with the pod as it is now: the
    /// watch may be seconds behind.
    async fn failed(&self, proxy: &ProxyView, error: &CallError) -> Reply {
        let outcome = match error.kind() {
            // The pod's author hears of it.
            Failure::Forbidden | Failure::Invalid => Outcome::Refused(error.message()),
            _ => local_failure(error),
        };
        let mut reply = Reply::from(outcome);
        if error.kind() == Failure::Conflict {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &proxy.namespace);
            let live = within(LOCAL_LIMIT, pods.get_opt(&proxy.name)).await;
            let live = live.ok().flatten();
            let live = live.filter(|pod| pod.metadata.uid.as_deref() == Some(&proxy.uid));
            reply.proxy = live.map(Arc::new);
        }
        reply
    }

    /// Live GET of the proxy pod: does its record name this chaperon?
    async fn is_recorded(&self, proxy: &ProxyView, chaperon: &str) -> Result<bool, Outcome> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &proxy.namespace);
        match find(LOCAL_LIMIT, pods.get(&proxy.name), "pods", &proxy.name).await {
            Ok(pod) => {
                let live = pod.as_ref().and_then(ProxyView::of);
                Ok(wire::is_recorded(live.as_ref(), &proxy.uid, chaperon))
            }
            Err(error) => Err(local_failure(&error)),
        }
    }
}

/// The manifest in these metadata.
fn read(meta: &ObjectMeta) -> Source {
    let annotations = meta.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(keys::SOURCE_POD_MANIFEST));
    let source = text.ok_or(ManifestError::Missing);
    let source = source.and_then(|text| SourcePod::parse(text));
    source.map(Arc::new).map_err(|error| error.to_string())
}

async fn adopt(remote: &Remote<'_>, proxy: &ProxyView, cluster: &ClusterUid) -> Reply {
    let name = proxy.chaperon_name();
    let wanted = remote.wanted(&name, None);
    match remote.call(remote.chaperons.get_opt(&name)).await {
        Ok(Some(chaperon)) => {
            let meta = &chaperon.metadata;
            if wanted.is_named(meta) && !wire::is_own(meta, &proxy.uid, cluster) {
                let reason = "a chaperon of this name belongs to another pod";
                Outcome::Refused(reason.to_owned()).into()
            } else {
                remote.done(&wanted, chaperon, |_| true)
            }
        }
        Ok(None) => Outcome::Unknown("it was there a moment ago".to_owned()).into(),
        Err(error) => Outcome::Unknown(error.message()).into(),
    }
}

/// The grant that a status update in between doesn't disturb: its tests say what must still hold.
async fn grant_by_test(remote: &Remote<'_>, name: &str, uid: &str, form: GrantForm) -> Reply {
    let patch = match serde_json::from_value(wire::grant_by_test(uid, form)) {
        Ok(operations) => Patch::Json::<()>(operations),
        Err(error) => return Outcome::Unknown(error.to_string()).into(),
    };
    let params = PatchParams::default();
    let patched = remote
        .call(remote.chaperons.patch(name, &params, &patch))
        .await;
    // A test that fails is answered like that.
    if let Err(error) = &patched
        && error.kind() == Failure::Invalid
    {
        return Outcome::Conflict.into();
    }
    let shows = |chaperon: &PodChaperon| wire::is_granted(chaperon, form);
    sent(remote, &remote.wanted(name, Some(uid)), patched, shows)
}

/// The grant by version: to targets that number nothing, and beside others' finalizers.
async fn grant_by_version(
    remote: &Remote<'_>,
    name: &str,
    uid: &str,
    resource_version: &str,
    form: GrantForm,
) -> Reply {
    let finalizers = if form == GrantForm::Plain {
        Vec::new()
    } else {
        match remote.call(remote.chaperons.get_metadata(name)).await {
            Ok(current) if !remote.wanted(name, None).is_named(&current.metadata) => {
                return remote.turn_away(TurnedAway::Reply);
            }
            Ok(current) => current.metadata.finalizers.unwrap_or_default(),
            Err(error) if is_absent(&error, name) => return Outcome::Gone.into(),
            Err(error) => return Outcome::Unknown(error.message()).into(),
        }
    };
    let patch = wire::grant_by_version(uid, resource_version, form, finalizers);
    let patch = Patch::Merge(patch);
    let params = PatchParams::default();
    let patched = remote
        .call(remote.chaperons.patch(name, &params, &patch))
        .await;
    let shows = |chaperon: &PodChaperon| wire::is_granted(chaperon, form);
    sent(remote, &remote.wanted(name, Some(uid)), patched, shows)
}

/// How a PATCH of the wanted chaperon ended; `shows`: whether what came back says that it was done.
fn sent(
    remote: &Remote<'_>,
    wanted: &Wanted<'_>,
    result: Result<PodChaperon, CallError>,
    shows: impl FnOnce(&PodChaperon) -> bool,
) -> Reply {
    match result {
        Ok(chaperon) => remote.done(wanted, chaperon, shows),
        Err(error) if is_absent(&error, wanted.name) => Outcome::Gone.into(),
        Err(error) => match error.kind() {
            Failure::Conflict => Outcome::Conflict.into(),
            _ => Outcome::Unknown(error.message()).into(),
        },
    }
}
