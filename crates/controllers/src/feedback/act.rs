//! Sends what the feedback controller's state machine asks for. No policy.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use pilotage_proxy::{Outcome, Reply, feedback::Action, wire};
use pilotage_runtime::call::{find, within};
use serde_json::Value;

use crate::{
    fleet::Fleet,
    remote::{Deletion, Remote, local_failure},
};

/// Limit of one request to the source's own API server.
const LOCAL_LIMIT: Duration = Duration::from_secs(10);

/// Which pod an action is about; for an orphan the pod that it says it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Sends one action.
pub(super) async fn act(client: &Client, fleet: &Fleet, pod: &Subject, action: &Action) -> Reply {
    let local = Local {
        api: Api::namespaced(client.clone(), &pod.namespace),
        pod,
    };
    match action {
        Action::DeleteChaperon {
            node,
            name,
            uid,
            plain,
            resource_version,
        } => match Remote::of(fleet, node, &pod.namespace, &pod.uid) {
            Ok(remote) => {
                remote
                    .delete(
                        name,
                        uid,
                        Deletion {
                            plain: *plain,
                            resource_version: resource_version.as_deref(),
                        },
                    )
                    .await
            }
            Err(outcome) => outcome.into(),
        },
        Action::ConfirmGone {
            node,
            name,
            uid,
            plain,
        } => match Remote::of(fleet, node, &pod.namespace, &pod.uid) {
            Ok(remote) => remote.confirm_gone(name, uid, *plain).await,
            Err(outcome) => outcome.into(),
        },
        Action::ChangeSpec {
            node,
            name,
            uid,
            of: _,
        } => {
            let proxy = match local.whole().await {
                Ok(proxy) => proxy,
                Err(outcome) => return outcome.into(),
            };
            let spec = proxy.data.get("spec").unwrap_or(&Value::Null);
            match Remote::of(fleet, node, &pod.namespace, &pod.uid) {
                Ok(remote) => remote.change(name, uid, &proxy.metadata, spec).await,
                Err(outcome) => outcome.into(),
            }
        }
        Action::DeleteIfOrphan {
            node,
            name,
            uid,
            parent: _,
        } => {
            if let Some(outcome) = local.is_alive().await {
                return outcome.into();
            }
            match Remote::of(fleet, node, &pod.namespace, &pod.uid) {
                Ok(remote) => remote.delete(name, uid, Deletion::default()).await,
                Err(outcome) => outcome.into(),
            }
        }
        Action::DeleteProxy => local.delete(DeleteParams::background()).await.into(),
        Action::EndGrace => local
            .delete(DeleteParams::background().grace_period(0))
            .await
            .into(),
        Action::RemoveFinalizer {
            remaining,
            resource_version,
        } => {
            let patch = wire::finalizers(&pod.uid, resource_version, remaining);
            let params = PatchParams::default();
            local
                .written(local.api.patch(&pod.name, &params, &Patch::Merge(&patch)))
                .await
                .into()
        }
        Action::Endure { patch } => {
            let patch = match serde_json::from_value(patch.clone()) {
                Ok(operations) => Patch::Json::<()>(operations),
                Err(error) => return Outcome::Unknown(error.to_string()).into(),
            };
            let params = PatchParams::default();
            local
                .copied(local.api.patch(&pod.name, &params, &patch))
                .await
        }
        Action::CopyStatus { patch } => {
            let params = PatchParams::default();
            let patch = Patch::Merge(patch);
            local
                .copied(local.api.patch_status(&pod.name, &params, &patch))
                .await
        }
        Action::CopyAnnotations { patch } => {
            let params = PatchParams::default();
            local
                .copied(local.api.patch(&pod.name, &params, &Patch::Merge(patch)))
                .await
        }
    }
}

/// The pod's own API server.
struct Local<'a> {
    api: Api<Pod>,
    pod: &'a Subject,
}

impl Local<'_> {
    async fn written(&self, request: impl Future<Output = Result<Pod, kube::Error>>) -> Outcome {
        match within(LOCAL_LIMIT, request).await {
            Ok(_) => Outcome::Done,
            Err(error) => local_failure(&error),
        }
    }

    /// What was written tells the version that the next write is judged on; the watch may be behind.
    async fn copied(&self, request: impl Future<Output = Result<Pod, kube::Error>>) -> Reply {
        match within(LOCAL_LIMIT, request).await {
            Ok(mut pod) => {
                pod.metadata.managed_fields = None;
                Reply {
                    proxy: Some(Arc::new(pod)),
                    ..Outcome::Done.into()
                }
            }
            Err(error) => local_failure(&error).into(),
        }
    }

    async fn delete(&self, params: DeleteParams) -> Outcome {
        let params = params.preconditions(Preconditions {
            uid: Some(self.pod.uid.clone()),
            resource_version: None,
        });
        match within(LOCAL_LIMIT, self.api.delete(&self.pod.name, &params)).await {
            Ok(_) => Outcome::Done,
            Err(error) => local_failure(&error),
        }
    }

    /// Live GET of the pod with all its fields.
    async fn whole(&self) -> Result<DynamicObject, Outcome> {
        let kind = ApiResource::erase::<Pod>(&());
        let client = self.api.clone().into_client();
        let pods: Api<DynamicObject> = Api::namespaced_with(client, &self.pod.namespace, &kind);
        match within(LOCAL_LIMIT, pods.get(&self.pod.name)).await {
            Ok(pod) if pod.metadata.uid.as_ref() == Some(&self.pod.uid) => Ok(pod),
            // Another pod by now.
            Ok(_) => Err(Outcome::Conflict),
            Err(error) => Err(local_failure(&error)),
        }
    }

    /// Live GET: `None` if the pod with this UID doesn't exist.
    async fn is_alive(&self) -> Option<Outcome> {
        let get = self.api.get_metadata(&self.pod.name);
        match find(LOCAL_LIMIT, get, "pods", &self.pod.name).await {
            Ok(pod) => {
                let live = pod.as_ref().map(|pod| &pod.metadata);
                wire::is_parent(live, &self.pod.uid).then_some(Outcome::StillThere)
            }
            Err(error) => Some(Outcome::Unknown(error.message())),
        }
    }
}
