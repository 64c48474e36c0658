//! What followed pods into a target, and is still there when its Target is deleted. Who copies it takes it away; must
//! not know how.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, ObjectMeta, PartialObjectMeta};
use kube::{Api, Client, Resource};
use pilotage_api::Right;
use pilotage_api::parent::{ClusterUid, ParentLink, selector_of_source};
use pilotage_clusters::{Registry, Target, TargetKey};
use pilotage_runtime::call::{self, CALL_LIMIT, Failure};
use serde::de::DeserializeOwned;

/// So many of a kind are looked at: what a target shows has no end if it likes.
const PAGE: u32 = 500;
const PAGES: usize = 20;

/// What follows pods, and the targets that it may be in.
#[derive(Clone)]
pub(crate) struct Followed {
    /// The rights to follow that are used.
    pub(crate) rights: Arc<[Right]>,
    pub(crate) registry: Registry,
}

impl Followed {
    /// A kind of which something of ours is left in a target that can be reached; `None`, if nothing is seen. What
    /// can't be listed isn't waited for: nothing runs by it.
    pub(crate) async fn left(&self, target: &Target, cluster: &ClusterUid) -> Option<&'static str> {
        let client = target.client().filter(|_| target.is_connected())?;
        let otherwise = self.otherwise(target);
        if otherwise.serve_all_of(target) {
            return None;
        }
        let look = Look {
            client,
            target,
            cluster,
            otherwise,
        };
        for right in self.rights.iter() {
            let (kind, is_left) = match right {
                Right::FollowConfigMaps => ("ConfigMaps", look.is_left::<ConfigMap>().await),
                Right::FollowSecrets => ("Secrets", look.is_left::<Secret>().await),
                Right::FollowServices => ("Services", look.is_left::<Service>().await),
                Right::FollowIngresses => ("Ingresses", look.is_left::<Ingress>().await),
                _ => continue,
            };
            if is_left {
                return Some(kind);
            }
        }
        None
    }

    /// The other Targets that stay, and lead to the same cluster.
    fn otherwise(&self, target: &Target) -> Otherwise {
        let own = target.known_identity();
        let mut otherwise = Otherwise::default();
        for other in self.registry.targets() {
            let is_other = other.key() != target.key() && !other.object().is_deleting();
            if is_other && own.is_some() && other.known_identity() == own {
                otherwise.add(other.key());
            }
        }
        otherwise
    }
}

/// Whose copies may be those of Targets that stay.
#[derive(Debug, Default)]
struct Otherwise {
    /// A `ClusterTarget` is among them.
    everybody: bool,
    /// Namespaces of the others.
    namespaces: BTreeSet<String>,
}

impl Otherwise {
    fn add(&mut self, target: &TargetKey) {
        match &target.namespace {
            None => self.everybody = true,
            Some(namespace) => {
                self.namespaces.insert(namespace.clone());
            }
        }
    }

    fn serve(&self, namespace: &str) -> bool {
        self.everybody || self.namespaces.contains(namespace)
    }

    fn serve_all_of(&self, target: &Target) -> bool {
        let own = target.key().namespace.as_deref();
        own.map_or(self.everybody, |own| self.serve(own))
    }
}

/// A look for copies in a target.
struct Look<'a> {
    client: Client,
    target: &'a Target,
    cluster: &'a ClusterUid,
    otherwise: Otherwise,
}

impl Look<'_> {
    async fn is_left<K>(&self) -> bool
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
        PartialObjectMeta<K>: DeserializeOwned,
    {
        let objects: Api<K> = match &self.target.key().namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let mut page = ListParams::default()
            .labels(&selector_of_source(self.cluster))
            .limit(PAGE);
        for _ in 0..PAGES {
            let found = match call::within(CALL_LIMIT, objects.list_metadata(&page)).await {
                Ok(found) => found,
                Err(error) => {
                    if error.kind() != Failure::Forbidden {
                        let (target, kind) = (self.target.key(), K::kind(&()));
                        tracing::warn!(%target, %kind, %error, "can't look for what followed pods");
                    }
                    return false;
                }
            };
            if found
                .items
                .iter()
                .any(|it| self.is_ours_alone(&it.metadata))
            {
                return true;
            }
            match found.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => page.continue_token = Some(next),
                None => break,
            }
        }
        false
    }

    /// Whether it is a copy for this Target's pods. Somebody may have made other objects of copies, with all their
    /// marks.
    fn is_ours_alone(&self, meta: &ObjectMeta) -> bool {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let link = ParentLink::of(meta);
        link.is_some_and(|link| link.leads_to(namespace, name)) && !self.otherwise.serve(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_target_of_the_cluster_serves_its_namespace_or_all() {
        let mut otherwise = Otherwise::default();
        assert!(!otherwise.serve("shop"));
        otherwise.add(&TargetKey::namespaced("shop", "north"));
        assert!(otherwise.serve("shop") && !otherwise.serve("bank"));
        otherwise.add(&TargetKey::cluster("north"));
        assert!(otherwise.serve("bank"));
    }
}
