//! Whether a virtual node and its Target may go: live reads, in the source and in the target. It writes nothing.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use pilotage_api::parent::selector_of_source;
use pilotage_api::record::Record;
use pilotage_api::{PodChaperon, keys};
use pilotage_clusters::{Connection, Target};
use pilotage_model::virtual_node::was_reached;
use pilotage_runtime::call::{self, CALL_LIMIT, Failure};

use super::{ActError, Actor};
use crate::decide::is_proxy;

/// Chaperons that are looked at at once when a Target is to go, and how often more are asked for: no target is endless.
const PAGE: u32 = 500;
const PAGES: usize = 200;

impl Actor {
    /// Live reads, since the watches may be older than the last pod: no proxy is bound here, and no chaperon of ours is
    /// left in the target. `false`: a proxy is, which the watch will show; or the target hasn't been tried yet.
    pub(super) async fn is_empty(&self) -> Result<bool, ActError> {
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
