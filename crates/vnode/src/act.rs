//! Carries out steps against the source's API server: one request a step, no policy.
//!
//! Asks for leadership before each write. Replies go into the store, so that the next decision sees them.

pub(crate) mod leave;
pub(crate) mod records;

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Target, TargetObject, Watch};
use pilotage_model::virtual_node::is_ours;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::looks::Looks;
use serde_json::{Value, json};
use thiserror::Error;

use self::leave::Leaving;
use self::records::Records;
use crate::decide::{Memory, Step};
use crate::followed::Followed;
use crate::rbac::LEASE_NAMESPACE;

/// Owner of our fields.
pub(crate) const FIELD_MANAGER: &str = "pilotage-virtual-nodes";

/// Why a step wasn't done.
#[derive(Debug, Error)]
pub(crate) enum ActError {
    /// Another process leads now.
    #[error("this process doesn't lead any more")]
    NotLeader,
    /// The request failed.
    #[error("failed to {what}: {source}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: CallError,
    },
    /// A node of that name exists that is none of ours.
    #[error("there is a node {0} that is no virtual node; it is left alone")]
    Foreign(String),
    /// It can't go yet.
    #[error(
        "the Target is being deleted, but {0} PodChaperons of this cluster are still there: it goes when their pods \
         have ended"
    )]
    Occupied(usize),
    /// The same, of what followed its pods.
    #[error(
        "the Target is being deleted, but {0} of this cluster that its pods used are still there: it goes when they \
         are gone"
    )]
    Followed(&'static str),
    /// Nobody can say whether it may go.
    #[error(
        "the Target is being deleted, but its cluster {why}, and pods may run there: it goes when that is mended, or \
         once it is annotated {key}={value}",
        key = keys::FORGET,
        value = keys::TRUE
    )]
    Away {
        /// What it doesn't do.
        why: String,
    },
}

impl ActError {
    /// Whether somebody wrote the node in between: the next look sees what, and nobody has to know.
    pub(crate) fn is_lost_race(&self) -> bool {
        let Self::Call { source, .. } = self else {
            return false;
        };
        // A failed `test` of a JSON patch is told as an invalid request.
        matches!(source.kind(), Failure::Conflict | Failure::Invalid)
    }
}

/// Writes about one node.
pub(crate) struct Actor {
    pub(crate) client: Client,
    pub(crate) leadership: Leadership,
    pub(crate) nodes: Watch<Node>,
    pub(crate) node: String,
    /// The target, unless its object is gone.
    pub(crate) target: Option<Arc<Target>>,
    /// The source's identity.
    pub(crate) cluster: ClusterUid,
    /// What follows pods into targets, and the targets.
    pub(crate) followed: Followed,
    /// Since when a Target that is deleted waits for its target alone.
    pub(crate) leaving: Leaving,
    /// Whether a proxy is bound to the node.
    pub(crate) bound: Looks<bool>,
    /// What the records of all proxies name; shared by all who look.
    pub(crate) records: Arc<Looks<Records>>,
}

impl Actor {
    /// Does one step and notes it in `memory`.
    pub(crate) async fn act(
        &mut self,
        step: Step,
        target: Option<&TargetObject>,
        memory: &mut Memory,
    ) -> Result<(), ActError> {
        match step {
            Step::AddFinalizer => self.finalizer(target, true).await,
            Step::RemoveFinalizer => {
                // The node isn't listed; but somebody may have taken its labels off.
                if self.is_empty().await? {
                    self.finalizer(target, false).await?;
                }
                Ok(())
            }
            Step::Create(node) => self.create(&node).await,
            Step::AddTaint {
                taints,
                resource_version,
            } => {
                let patch = json!([
                    { "op": "test", "path": "/metadata/resourceVersion", "value": resource_version },
                    { "op": "add", "path": "/spec/taints", "value": taints },
                ]);
                let what = "put our taint on the node";
                let url = format!("/api/v1/nodes/{}", self.node);
                let call = self.client.request(json_patch(what, &url, &patch)?);
                self.node(what, call).await.map(drop)
            }
            Step::Apply(value) => {
                let node = self.apply("apply the node's labels", "", &value).await?;
                Self::note(&node, memory);
                memory.applied = Some(value);
                Ok(())
            }
            Step::ApplyStatus { value, key } => {
                let node = self
                    .apply("apply the node's status", "status", &value)
                    .await?;
                Self::note(&node, memory);
                memory.status = Some(*key);
                Ok(())
            }
            Step::DeleteProxy {
                namespace,
                name,
                uid,
            } => {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
                let params = with_uid(uid);
                self.gone("delete a proxy", pods.delete(&name, &params))
                    .await
            }
            Step::RemoveNode { uid } => self.remove(uid).await,
        }
    }

    /// What is remembered of another node is worth nothing.
    fn note(node: &Node, memory: &mut Memory) {
        if memory.uid != node.metadata.uid {
            *memory = Memory {
                uid: node.metadata.uid.clone(),
                ..Memory::default()
            };
        }
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn apply(
        &self,
        what: &'static str,
        subresource: &'static str,
        value: &Value,
    ) -> Result<Node, ActError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let nodes = self.api();
        let call = async {
            match subresource {
                "" => nodes.patch(&self.node, &params, &Patch::Apply(value)).await,
                _ => {
                    nodes
                        .patch_status(&self.node, &params, &Patch::Apply(value))
                        .await
                }
            }
        };
        self.node(what, call).await
    }

    async fn create(&self, node: &Value) -> Result<(), ActError> {
        self.check()?;
        let nodes = self.api();
        let what = "create the node";
        let typed: Node = serde_json::from_value(node.clone()).map_err(|error| ActError::Call {
            what,
            source: CallError::Api(kube::Error::SerdeError(error)),
        })?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            dry_run: false,
        };
        match call::within(CALL_LIMIT, nodes.create(&params, &typed)).await {
            Ok(node) => {
                tracing::info!(node = self.node, "virtual node created");
                self.nodes.fold(node);
                Ok(())
            }
            Err(error) if error.kind() == Failure::AlreadyExists => self.adopt(node).await,
            Err(source) => Err(ActError::Call { what, source }),
        }
    }

    /// Somebody took the label by which our nodes are watched off one of them, or the watch is late, or the name is
    /// taken.
    async fn adopt(&self, wanted: &Value) -> Result<(), ActError> {
        let nodes = self.api();
        let call = call::within(CALL_LIMIT, nodes.get(&self.node)).await;
        let node = call.map_err(|source| ActError::Call {
            what: "read the node",
            source,
        })?;
        if !is_ours(&node) {
            return Err(ActError::Foreign(self.node.clone()));
        }
        let mut labels = wanted.clone();
        if let Some(fields) = labels.as_object_mut() {
            fields.remove("spec");
        }
        self.apply("put the node's labels back", "", &labels)
            .await
            .map(drop)
    }

    async fn remove(&mut self, uid: String) -> Result<(), ActError> {
        self.check()?;
        if !self.is_empty().await? {
            return Ok(());
        }
        let nodes = self.api();
        self.gone("delete the node", nodes.delete(&self.node, &with_uid(uid)))
            .await?;
        tracing::info!(node = self.node, "virtual node removed");
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        self.gone(
            "delete the node's lease",
            leases.delete(&self.node, &DeleteParams::default()),
        )
        .await
    }

    async fn finalizer(&self, target: Option<&TargetObject>, wanted: bool) -> Result<(), ActError> {
        let Some(target) = target else { return Ok(()) };
        self.check()?;
        let ours = target
            .finalizers
            .iter()
            .position(|name| name == keys::VIRTUAL_NODE_GONE);
        let operations = match (wanted, ours) {
            (true, Some(_)) | (false, None) => return Ok(()),
            (true, None) if target.finalizers.is_empty() => {
                vec![
                    json!({ "op": "add", "path": "/metadata/finalizers", "value": [keys::VIRTUAL_NODE_GONE] }),
                ]
            }
            (true, None) => {
                vec![
                    json!({ "op": "add", "path": "/metadata/finalizers/-", "value": keys::VIRTUAL_NODE_GONE }),
                ]
            }
            (false, Some(index)) => {
                let path = format!("/metadata/finalizers/{index}");
                // Of very many we don't know where it is.
                vec![
                    json!({ "op": "test", "path": path, "value": keys::VIRTUAL_NODE_GONE }),
                    json!({ "op": "remove", "path": path }),
                ]
            }
        };
        let version = json!({ "op": "test", "path": "/metadata/resourceVersion", "value": target.resource_version });
        let patch: Value = [version].into_iter().chain(operations).collect();
        let what = if wanted {
            "put our finalizer on"
        } else {
            "take our finalizer off"
        };
        let request = json_patch(what, &target.url(), &patch)?;
        let call = self.client.request::<DynamicObject>(request);
        match call::within(CALL_LIMIT, call).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Failure::NotFound => Ok(()),
            Err(source) => Err(ActError::Call { what, source }),
        }
    }

    async fn node(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<Node, kube::Error>>,
    ) -> Result<Node, ActError> {
        self.check()?;
        let node = call::within(CALL_LIMIT, call).await;
        let node = node.map_err(|source| ActError::Call { what, source })?;
        self.nodes.fold(node.clone());
        Ok(node)
    }

    /// A deletion; that it was done already is as good, and so is another object under the name.
    async fn gone<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<(), ActError> {
        self.check()?;
        match call::within(CALL_LIMIT, call).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), Failure::NotFound | Failure::Conflict) => Ok(()),
            Err(source) => Err(ActError::Call { what, source }),
        }
    }

    fn check(&self) -> Result<(), ActError> {
        if self.leadership.is_leader() {
            Ok(())
        } else {
            Err(ActError::NotLeader)
        }
    }
}

/// A JSON patch as it stands: its `test` operations make it conditional.
fn json_patch(
    what: &'static str,
    url: &str,
    operations: &Value,
) -> Result<http::Request<Vec<u8>>, ActError> {
    http::Request::patch(url)
        .header(http::header::CONTENT_TYPE, "application/json-patch+json")
        .body(operations.to_string().into_bytes())
        .map_err(|error| ActError::Call {
            what,
            source: CallError::Api(kube::Error::HttpError(error)),
        })
}

pub(crate) fn with_uid(uid: String) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        ..Preconditions::default()
    })
}
