//! Carries out steps against the source's API server: one request a step, no policy.
//!
//! Asks for leadership before each write. Replies go into the store, so that the next decision sees them.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use pilotage_api::parent::{ClusterUid, selector_of_source};
use pilotage_api::record::Record;
use pilotage_api::{PodChaperon, keys};
use pilotage_clusters::{Connection, Target, TargetObject, Watch};
use pilotage_model::virtual_node::{is_ours, was_reached};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::lease::Leadership;
use serde_json::{Value, json};
use thiserror::Error;

use crate::decide::{Memory, Step, is_proxy};
use crate::followed::Followed;
use crate::rbac::LEASE_NAMESPACE;

/// Owner of our fields.
pub(crate) const FIELD_MANAGER: &str = "pilotage-virtual-nodes";
/// Chaperons that are looked at at once when a Target is to go, and how often more are asked for: no target is endless.
const PAGE: u32 = 500;
const PAGES: usize = 200;

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
        "the Target is being deleted, but {0} PodChaperons of this cluster are still there: it goes when their pods have ended"
    )]
    Occupied(usize),
    /// The same, of what followed its pods.
    #[error(
        "the Target is being deleted, but {0} of this cluster that its pods used are still there: it goes when they are gone"
    )]
    Followed(&'static str),
    /// Nobody can say whether it may go.
    #[error(
        "the Target is being deleted, but its cluster {why}, and pods may run there: it goes when that is mended, or once \
         it is annotated {key}={value}",
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
}

impl Actor {
    /// Does one step and notes it in `memory`.
    pub(crate) async fn act(
        &self,
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

    /// Somebody took the label by which our nodes are watched off one of them, or the watch is late, or the name is taken.
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

    async fn remove(&self, uid: String) -> Result<(), ActError> {
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

    /// Live reads, since the watches may be older than the last pod: no proxy is bound here, and no chaperon of ours is
    /// left in the target. `false`: a proxy is, which the watch will show; or the target hasn't been tried yet.
    async fn is_empty(&self) -> Result<bool, ActError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let bound = call::within(CALL_LIMIT, pods.list(&params)).await;
        let bound = bound.map_err(|source| ActError::Call {
            what: "list the node's pods",
            source,
        })?;
        if bound.items.iter().any(is_proxy) {
            return Ok(false);
        }
        match &self.target {
            Some(target) if target.connection() == Connection::Connecting => Ok(false),
            Some(target) => {
                self.check_target(target).await?;
                if is_forgotten(target) {
                    return Ok(true);
                }
                match self.followed.left(target, &self.cluster).await {
                    Some(kind) => Err(ActError::Followed(kind)),
                    None => Ok(true),
                }
            }
            None => Ok(true),
        }
    }

    async fn check_target(&self, target: &Target) -> Result<(), ActError> {
        let object = target.object();
        let forgotten = is_forgotten(target);
        let (Some(client), true) = (target.client(), target.is_connected()) else {
            return if forgotten || !self.may_hold_something(target).await? {
                Ok(())
            } else {
                let why = "can't be reached".to_owned();
                Err(ActError::Away { why })
            };
        };
        let chaperons: Api<PodChaperon> = match &object.key.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut ours = ListParams::default()
            .labels(&selector_of_source(&self.cluster))
            .limit(PAGE);
        let mut elsewhere = None;
        for _ in 0..PAGES {
            let left = match call::within(CALL_LIMIT, chaperons.list_metadata(&ours)).await {
                Ok(left) => left,
                Err(_) if forgotten => return Ok(()),
                Err(source) if !matches!(source.kind(), Failure::Forbidden | Failure::NotFound) => {
                    let what = "list our PodChaperons in the target";
                    return Err(ActError::Call { what, source });
                }
                Err(error) => {
                    let why = format!("doesn't list our PodChaperons ({error})");
                    return Err(ActError::Away { why });
                }
            };
            let metas: Vec<_> = left.items.into_iter().map(|it| it.metadata).collect();
            if !metas.is_empty() {
                if elsewhere.is_none() {
                    elsewhere = Some(self.recorded_elsewhere().await?);
                }
                let known = elsewhere.iter().flatten().collect();
                match waited_for(&metas, &known, forgotten) {
                    0 => {}
                    count => return Err(ActError::Occupied(count)),
                }
            }
            ours.continue_token = left.metadata.continue_.filter(|token| !token.is_empty());
            if ours.continue_token.is_none() {
                return Ok(());
            }
        }
        let why = "lists PodChaperons without end".to_owned();
        Err(ActError::Away { why })
    }

    /// Chaperons that records at other nodes name: two Targets may stand for one cluster.
    async fn recorded_elsewhere(&self) -> Result<HashSet<String>, ActError> {
        let records = self.records().await?.into_iter();
        Ok(records
            .filter_map(|text| text.parse::<Record>().ok())
            .filter(|record| record.node != self.node)
            .map(|record| record.chaperon_uid)
            .collect())
    }

    /// Whether something of ours may be in a target that can't be asked: whoever was reached once may have been sent pods,
    /// and what was only asked there, or replaced, stands in no record.
    async fn may_hold_something(&self, target: &Target) -> Result<bool, ActError> {
        let told = target.identity().borrow().is_some();
        let node = self.nodes.get(None, &self.node);
        if told
            || target.object().status.cluster_uid.is_some()
            || node.is_some_and(|node| was_reached(&node))
        {
            return Ok(true);
        }
        let records = self.records().await?;
        Ok(records.iter().any(|text| may_name(text, &self.node)))
    }

    /// The records of all proxy pods, damaged ones too, read live.
    async fn records(&self) -> Result<Vec<String>, ActError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let proxies = format!("spec.schedulerName={}", keys::PROXY_SCHEDULER);
        let params = ListParams::default().fields(&proxies);
        let listed = call::within(CALL_LIMIT, pods.list_metadata(&params)).await;
        let listed = listed.map_err(|source| ActError::Call {
            what: "list proxy pods",
            source,
        })?;
        let records = listed.items.iter().filter_map(|pod| {
            let annotations = pod.metadata.annotations.as_ref()?;
            annotations.get(keys::GRANTED_TO).cloned()
        });
        Ok(records.collect())
    }

    async fn finalizer(&self, target: Option<&TargetObject>, wanted: bool) -> Result<(), ActError> {
        let Some(target) = target else { return Ok(()) };
        self.check()?;
        let ours = target
            .finalizers
            .iter()
            .position(|name| name == keys::VIRTUAL_NODE_GONE);
        let operation = match (wanted, ours) {
            (true, Some(_)) | (false, None) => return Ok(()),
            (true, None) if target.finalizers.is_empty() => {
                json!({ "op": "add", "path": "/metadata/finalizers", "value": [keys::VIRTUAL_NODE_GONE] })
            }
            (true, None) => {
                json!({ "op": "add", "path": "/metadata/finalizers/-", "value": keys::VIRTUAL_NODE_GONE })
            }
            (false, Some(index)) => {
                json!({ "op": "remove", "path": format!("/metadata/finalizers/{index}") })
            }
        };
        let patch = json!([
            { "op": "test", "path": "/metadata/resourceVersion", "value": target.resource_version },
            operation,
        ]);
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

/// Whether a record may be one at this virtual node. A damaged one may be, unless it still names another.
fn may_name(record: &str, node: &str) -> bool {
    match record.split_once('/') {
        Some((named, _)) if !named.is_empty() => named == node,
        _ => true,
    }
}

/// Whether its operator doesn't want it to be waited for.
fn is_forgotten(target: &Target) -> bool {
    let object = target.object();
    object.annotations.get(keys::FORGET).map(String::as_str) == Some(keys::TRUE)
}

/// How many of these chaperons are in the way of the Target's end.
fn waited_for(left: &[ObjectMeta], elsewhere: &HashSet<&String>, forgotten: bool) -> usize {
    // What is ending, or was asked to give up, needs only the target's own Pilotage, which may be down.
    let told = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        let gives_up = annotations.and_then(|all| all.get(keys::GIVE_UP));
        meta.deletion_timestamp.is_some() || gives_up.is_some_and(|text| text == keys::TRUE)
    };
    let waits = |meta: &&ObjectMeta| !(forgotten && told(meta));
    let uids = left.iter().filter(waits);
    uids.filter_map(|meta| meta.uid.as_ref())
        .filter(|uid| !elsewhere.contains(uid))
        .count()
}

pub(crate) fn with_uid(uid: String) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        ..Preconditions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_holds_every_target_that_it_may_have_named() {
        for (record, want) in [
            ("here/uid/1", true),
            ("here/uid", true),
            ("here/uid/x/y", true),
            ("there/uid/1", false),
            ("there/", false),
            ("/uid/1", true),
            ("here", true),
            ("garbage", true),
            ("", true),
        ] {
            assert_eq!(may_name(record, "here"), want, "{record:?}");
        }
    }
}
