//! Binding a pod: POST `pods/binding`, and what really happened when the answer doesn't say.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams, Request};
use kube::{Client, Resource};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CallError, Failure, within};
use pilotage_runtime::moment::from_now;
use pilotage_sched::plugins::Binder;
use pilotage_sched::{BindingRequest, NodeName, PodInfo};
use thiserror::Error;
use tokio::sync::Semaphore;

/// Requests at once through one binder. Each takes a connection of its own, with a TLS handshake.
const REQUESTS: usize = 32;
/// Limit of one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Limit of all tries together; beyond it the pod is tried anew, and a binding that landed after all is
/// seen on the watch.
const BIND_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2)).spread(0.2);

/// What became of a binding, where it isn't bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// The pod is gone, or another one has its name.
    #[error("the pod is gone")]
    Gone,
    /// The pod is being deleted.
    #[error("the pod is being deleted")]
    Ending,
    /// The pod is on another node.
    #[error("the pod is bound to node {0:?} already")]
    BoundElsewhere(String),
    /// The pod changed since the version that was asked for.
    #[error("the pod has changed: {why}")]
    Changed {
        /// What the API server said.
        why: String,
        /// The pod as it is now.
        now: Box<Pod>,
    },
    /// The API server refuses.
    #[error("binding was refused: {0}")]
    Refused(#[source] CallError),
    /// Nobody knows; it may still land.
    #[error("the outcome of the binding is unknown: {0}")]
    Unknown(#[source] CallError),
}

/// Binds pods through one client.
#[derive(Clone)]
pub struct PodBinder {
    client: Client,
    requests: Arc<Semaphore>,
}

impl fmt::Debug for PodBinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodBinder")
    }
}

impl PodBinder {
    /// A binder for the client's cluster.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            requests: Arc::new(Semaphore::new(REQUESTS)),
        }
    }

    /// Binds the pod, trying again while the outcome is open. `Ok` means that the pod is on the node,
    /// by this or by an earlier try.
    pub async fn bind(&self, request: &BindingRequest) -> Result<(), BindError> {
        let deadline = from_now(BIND_LIMIT);
        let mut failures = 0_u32;
        loop {
            let error = match self.post(request).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.kind() {
                Failure::NotFound => return Err(BindError::Gone),
                Failure::Conflict | Failure::AlreadyExists => match self.look(request).await {
                    Ok(Look::Bound) => return Ok(()),
                    Ok(Look::Not(reason)) => return Err(reason),
                    Ok(Look::Unbound(now)) => return Err(conflict(request, now, error)),
                    Err(error) => return Err(BindError::Unknown(error)),
                },
                Failure::Forbidden | Failure::Invalid | Failure::Expired => {
                    return Err(BindError::Refused(error));
                }
                Failure::Throttled | Failure::Server | Failure::Unknown => {
                    failures = failures.saturating_add(1);
                    let delay = RETRY.delay(failures, dice());
                    if from_now(delay) >= deadline {
                        return self.last_look(request, error).await;
                    }
                    tracing::debug!(%error, pod = request.name, "binding again");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    async fn last_look(&self, request: &BindingRequest, error: CallError) -> Result<(), BindError> {
        match self.look(request).await {
            Ok(Look::Bound) => Ok(()),
            Ok(Look::Not(reason)) => Err(reason),
            Ok(Look::Unbound(_)) | Err(_) => Err(BindError::Unknown(error)),
        }
    }

    async fn post(&self, request: &BindingRequest) -> Result<(), CallError> {
        // The semaphore is never closed. Who waits for the next try keeps no other from its own.
        let _turn = self.requests.acquire().await;
        let pods = Request::new(Pod::url_path(&(), Some(&request.namespace)));
        let body = serde_json::to_vec(&request.body()).map_err(kube::Error::SerdeError)?;
        let params = PostParams::default();
        let post = pods.create_subresource("binding", &request.name, &params, body);
        let post = post.map_err(kube::Error::BuildRequest)?;
        let answer = within(REQUEST_LIMIT, self.client.request_text(post)).await;
        answer.map(|_| ())
    }

    async fn look(&self, request: &BindingRequest) -> Result<Look, CallError> {
        let _turn = self.requests.acquire().await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &request.namespace);
        let pod = within(REQUEST_LIMIT, api.get_opt(&request.name)).await?;
        Ok(judge(pod, request))
    }
}

impl Binder for PodBinder {
    fn bind<'a>(
        &'a self,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        let request = BindingRequest {
            namespace: pod.key.namespace.to_string(),
            name: pod.key.name.to_string(),
            uid: pod.uid.to_string(),
            resource_version: None,
            node: node.to_string(),
        };
        async move { Ok(Self::bind(self, &request).await?) }.boxed()
    }
}

/// What a live read of the pod says.
#[derive(Debug)]
enum Look {
    Bound,
    Unbound(Box<Pod>),
    Not(BindError),
}

fn judge(pod: Option<Pod>, request: &BindingRequest) -> Look {
    let Some(pod) = pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&request.uid)) else {
        return Look::Not(BindError::Gone);
    };
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    match node {
        Some(node) if *node == request.node => Look::Bound,
        Some(node) if !node.is_empty() => Look::Not(BindError::BoundElsewhere(node.clone())),
        _ if pod.metadata.deletion_timestamp.is_some() => Look::Not(BindError::Ending),
        _ => Look::Unbound(Box::new(pod)),
    }
}

/// What a conflict means about a pod that is bound nowhere. Where it still has the version that was asked for,
/// something else than its version is in the way, such as a webhook that refuses in these words.
fn conflict(request: &BindingRequest, now: Box<Pod>, error: CallError) -> BindError {
    let asked_for = request.resource_version.as_ref();
    if asked_for.is_some() && asked_for == now.metadata.resource_version.as_ref() {
        return BindError::Refused(error);
    }
    let why = error.message();
    BindError::Changed { why, now }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> BindingRequest {
        BindingRequest {
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            uid: "u".to_owned(),
            resource_version: None,
            node: "n1".to_owned(),
        }
    }

    fn pod(uid: &str, node: Option<&str>, deleting: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "uid": uid,
                "deletionTimestamp": deleting.then_some("2024-01-01T00:00:00Z"),
            },
            "spec": {"containers": [], "nodeName": node},
        }))
        .unwrap()
    }

    #[test]
    fn a_conflict_is_explained_by_the_pod() {
        let seen = |pod: Option<Pod>| judge(pod, &request());
        let look = |uid, node, deleting| seen(Some(pod(uid, node, deleting)));
        assert!(matches!(seen(None), Look::Not(BindError::Gone)));
        assert!(matches!(
            look("other", None, false),
            Look::Not(BindError::Gone)
        ));
        for deleting in [false, true] {
            assert!(matches!(look("u", Some("n1"), deleting), Look::Bound));
        }
        let elsewhere = look("u", Some("n2"), false);
        assert!(matches!(elsewhere, Look::Not(BindError::BoundElsewhere(node)) if node == "n2"));
        assert!(matches!(
            look("u", None, true),
            Look::Not(BindError::Ending)
        ));
        let unbound = look("u", None, false);
        assert!(matches!(unbound, Look::Unbound(now) if *now == pod("u", None, false)));
    }

    #[test]
    fn a_conflict_about_the_newest_version_is_a_refusal() {
        let now = |version: &str| {
            let mut now = pod("u", None, false);
            now.metadata.resource_version = Some(version.to_owned());
            Box::new(now)
        };
        let error = || {
            let status = kube::core::Status::failure("not on my watch", "Conflict").with_code(409);
            CallError::Api(kube::Error::Api(status.boxed()))
        };
        let asked_for = |version: Option<&str>| BindingRequest {
            resource_version: version.map(str::to_owned),
            ..request()
        };
        let refused = conflict(&asked_for(Some("7")), now("7"), error());
        assert!(
            matches!(&refused, BindError::Refused(error) if error.message() == "not on my watch")
        );
        for version in [Some("6"), None] {
            let changed = conflict(&asked_for(version), now("7"), error());
            assert!(matches!(changed, BindError::Changed { .. }), "{version:?}");
        }
    }
}
