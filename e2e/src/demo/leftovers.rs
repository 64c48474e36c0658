//! What is left in the clusters once everything was deleted: nothing, by fresh lists.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use pilotage_api::{PodChaperon, Target, keys};
use serde::de::DeserializeOwned;

use super::NAMESPACE;
use super::error::Error;
use crate::fleet::Fleet;

/// Lists every pod, chaperon, finalizer and hold that should be gone; returns those that are not.
pub(super) async fn find(fleet: &Fleet) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for cluster in fleet.all() {
        let (name, client) = (cluster.name(), cluster.plane.admin());
        for pod in list::<Pod>(&client).await? {
            let mine = pod.namespace().as_deref() == Some(NAMESPACE);
            if mine || pod.labels().contains_key(keys::PARENT_UID) || has_finalizer(&pod) {
                found.push(format!("{name}: pod {}", pod.name_any()));
            }
        }
        for chaperon in list::<PodChaperon>(&client).await? {
            let held = chaperon.annotations().contains_key(keys::IS_RESERVED);
            let hold = if held { ", which holds a node" } else { "" };
            found.push(format!("{name}: chaperon {}{hold}", chaperon.name_any()));
        }
        for target in list::<Target>(&client).await? {
            found.push(format!("{name}: target {}", target.name_any()));
        }
        for node in list::<Node>(&client).await? {
            if node
                .labels()
                .get(keys::PROVIDER)
                .is_some_and(|value| value == keys::PROVIDER_VALUE)
            {
                found.push(format!("{name}: virtual node {}", node.name_any()));
            }
        }
    }
    Ok(found)
}

fn has_finalizer(pod: &Pod) -> bool {
    pod.finalizers()
        .iter()
        .any(|finalizer| keys::is_ours(finalizer))
}

/// All of a kind in a cluster, from etcd and not from a cache.
async fn list<K>(client: &Client) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let what = format!("can't list {}", K::plural(&()));
    let list = Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await;
    Ok(list.map_err(Error::request(&what))?.items)
}
