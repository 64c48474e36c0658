//! Nodes that kwok keeps alive: creating them and waiting until pods can land on them.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{Error, kwok};
use crate::wait;

/// Requests at once.
const AT_ONCE: usize = 16;
/// What admission puts on every new node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Creates nodes and waits until each is ready and free of admission's taint, which node-lifecycle takes away where
/// there is a controller manager, and we where there is none.
pub(super) async fn create(
    client: &Client,
    nodes: Vec<Node>,
    has_manager: bool,
) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let wanted: BTreeMap<String, Vec<Taint>> = nodes
        .iter()
        .map(|node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
            (node.name_any(), taints.unwrap_or_default())
        })
        .collect();
    stream::iter(nodes)
        .map(|mut node| {
            let api = api.clone();
            node.annotations_mut().insert(
                kwok::ANNOTATION.to_owned(),
                kwok::ANNOTATION_VALUE.to_owned(),
            );
            async move {
                let created = api.create(&PostParams::default(), &node).await;
                created
                    .map(drop)
                    .map_err(Error::request(format!("create node {}", node.name_any())))
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    all(&api, &wanted, is_ready, "the nodes are not ready").await?;
    if !has_manager {
        let patches = wanted
            .iter()
            .map(|(name, taints)| (name.clone(), json!({ "spec": { "taints": taints } })));
        stream::iter(patches.collect::<Vec<_>>())
            .map(|(name, patch)| {
                let api = api.clone();
                async move {
                    let patched = api
                        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                        .await;
                    patched
                        .map(drop)
                        .map_err(Error::request(format!("untaint node {name}")))
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
    }
    all(&api, &wanted, is_untainted, "the not-ready taint stays").await
}

async fn all(
    api: &Api<Node>,
    wanted: &BTreeMap<String, Vec<Taint>>,
    pass: fn(&Node) -> bool,
    failure: &str,
) -> Result<(), Error> {
    let condition = |seen: &wait::Seen<Node>| {
        wanted
            .keys()
            .all(|name| seen.get(&(String::new(), name.clone())).is_some_and(pass))
    };
    wait::list_until(
        api,
        kube::runtime::watcher::Config::default(),
        condition,
        wait::LIMIT,
    )
    .await
    .map(drop)
    .map_err(Error::wait(failure))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    })
}

fn is_untainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    !taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == NOT_READY))
}
