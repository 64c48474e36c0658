//! What followed pods into a target, and is still there when its Target is deleted. Who copies it takes it away; must not
//! know how.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, ObjectMeta, PartialObjectMeta};
use kube::{Api, Client, Resource};
use pilotage_api::Right;
use pilotage_api::parent::{ClusterUid, ParentLink, selector_of_source};
use pilotage_clusters::{Registry, Target};
use pilotage_runtime::call::{self, CALL_LIMIT, Failure};
use serde::de::DeserializeOwned;

/// So many of a kind are looked at.
const PAGE: u32 = 500;

/// What follows pods, and the targets that it may be in.
#[derive(Clone)]
pub(crate) struct Followed {
    /// The rights to follow that are used.
    pub(crate) rights: Arc<[Right]>,
    pub(crate) registry: Registry,
}

impl Followed {
    /// A kind of which something of ours is left in a target that can be reached; `None`, if nothing is seen. What can't be
    /// listed isn't waited for: nothing runs by it.
    pub(crate) async fn left(&self, target: &Target, cluster: &ClusterUid) -> Option<&'static str> {
        let client = target.client().filter(|_| target.is_connected())?;
        if self.is_served_otherwise(target) {
            return None;
        }
        for right in self.rights.iter() {
            let (kind, is_left) = match right {
                Right::FollowConfigMaps => (
                    "ConfigMaps",
                    is_left::<ConfigMap>(&client, target, cluster).await,
                ),
                Right::FollowSecrets => {
                    ("Secrets", is_left::<Secret>(&client, target, cluster).await)
                }
                Right::FollowServices => (
                    "Services",
                    is_left::<Service>(&client, target, cluster).await,
                ),
                Right::FollowIngresses => (
                    "Ingresses",
                    is_left::<Ingress>(&client, target, cluster).await,
                ),
                _ => continue,
            };
            if is_left {
                return Some(kind);
            }
        }
        None
    }

    /// Whether another Target that stays leads to the same cluster, for the same pods: what is left there may be theirs.
    fn is_served_otherwise(&self, target: &Target) -> bool {
        let own = target.known_identity();
        let covers = |other: &Target| {
            let namespace = &other.key().namespace;
            namespace.is_none() || *namespace == target.key().namespace
        };
        let mut others = self.registry.targets().into_iter();
        others.any(|other| {
            let is_other = other.key() != target.key() && !other.object().is_deleting();
            is_other && covers(&other) && own.is_some() && other.known_identity() == own
        })
    }
}

async fn is_left<K>(client: &Client, target: &Target, cluster: &ClusterUid) -> bool
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    PartialObjectMeta<K>: DeserializeOwned,
{
    let objects: Api<K> = match &target.key().namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let ours = ListParams::default()
        .labels(&selector_of_source(cluster))
        .limit(PAGE);
    // Somebody may have made other objects of copies, with all their marks.
    let is_copy = |meta: &ObjectMeta| {
        let link = ParentLink::of(meta);
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        link.is_some_and(|link| {
            link.leads_to(namespace.unwrap_or_default(), name.unwrap_or_default())
        })
    };
    match call::within(CALL_LIMIT, objects.list_metadata(&ours)).await {
        Ok(found) => found.items.iter().any(|it| is_copy(&it.metadata)),
        Err(error) => {
            if error.kind() != Failure::Forbidden {
                let (target, kind) = (target.key(), K::kind(&()));
                tracing::warn!(%target, %kind, %error, "can't look for what followed pods");
            }
            false
        }
    }
}
