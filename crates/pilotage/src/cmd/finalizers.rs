//! Which objects of a cluster carry finalizers of Pilotage or of Admiralty, and reading them. It changes nothing.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use pilotage_api::{ClusterTarget, GROUP, PodChaperon, Target, keys};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure};
use pilotage_runtime::pages;
use serde::de::DeserializeOwned;

/// A cluster couldn't be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}")]
pub struct ReadError {
    /// What was tried.
    pub what: String,
    /// Why it failed.
    #[source]
    pub source: CallError,
}

impl ReadError {
    pub(super) fn to(what: impl Into<String>) -> impl FnOnce(CallError) -> Self {
        let what = what.into();
        move |source| Self { what, source }
    }
}

/// Which finalizers are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Admiralty's, which has one for each Target.
    Admiraltys,
    /// Those of Pilotage, too.
    Both,
}

impl Whose {
    pub(super) fn takes(self, finalizer: &str) -> bool {
        match self {
            Self::Admiraltys => keys::is_admiraltys_finalizer(finalizer),
            Self::Both => keys::is_ours(finalizer),
        }
    }

    /// Those that an object has.
    pub(super) fn of(self, object: &PartialObjectMeta<DynamicObject>) -> Vec<&str> {
        let all = object.metadata.finalizers.iter().flatten();
        let all = all.map(String::as_str);
        all.filter(|it| self.takes(it)).collect()
    }
}

/// A kind of which objects may carry such finalizers.
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
}

/// In this order: what waits for another thing comes before it.
pub(super) fn kinds() -> [Kind; 8] {
    [
        namespaced::<Pod>(),
        namespaced::<Ingress>(),
        namespaced::<Service>(),
        namespaced::<ConfigMap>(),
        namespaced::<PodChaperon>(),
        namespaced::<Target>(),
        Kind {
            resource: ApiResource::erase::<ClusterTarget>(&()),
            namespaced: false,
        },
        namespaced::<Secret>(),
    ]
}

/// Kinds of which objects follow pods.
pub(super) fn followed() -> [Kind; 4] {
    [
        namespaced::<ConfigMap>(),
        namespaced::<Ingress>(),
        namespaced::<Secret>(),
        namespaced::<Service>(),
    ]
}

fn namespaced<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>() -> Kind {
    Kind {
        resource: ApiResource::erase::<K>(&()),
        namespaced: true,
    }
}

impl Kind {
    pub(super) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.namespaced => {
                Api::namespaced_with(client.clone(), namespace, &self.resource)
            }
            _ => Api::all_with(client.clone(), &self.resource),
        }
    }

    pub(super) fn named(&self, object: &PartialObjectMeta<DynamicObject>) -> String {
        let name = object.name_any();
        match object.namespace() {
            Some(namespace) => format!("{}/{namespace}/{name}", self.resource.plural),
            None => format!("{}/{name}", self.resource.plural),
        }
    }

    /// All objects of the kind that carry such finalizers; none, if the cluster doesn't know the kind.
    pub(super) async fn marked(
        &self,
        client: &Client,
        whose: Whose,
        namespace: Option<&str>,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ReadError> {
        let api = self.api(client, namespace);
        let mut marked = Vec::new();
        self.each_meta(&api, ListParams::default(), |object| {
            if !whose.of(&object).is_empty() {
                marked.push(object);
            }
        })
        .await?;
        Ok(marked)
    }

    /// Metadata of all objects of a selection.
    pub(super) async fn each_meta(
        &self,
        api: &Api<DynamicObject>,
        params: ListParams,
        take: impl FnMut(PartialObjectMeta<DynamicObject>),
    ) -> Result<(), ReadError> {
        let read = pages::each_metadata(CALL_LIMIT, api, params, take).await;
        known(read, &self.resource.group, &self.resource.plural)
    }
}

/// All objects of a selection.
pub(super) async fn each<K>(
    api: &Api<K>,
    params: ListParams,
    take: impl FnMut(K),
) -> Result<(), ReadError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let read = pages::each(CALL_LIMIT, api, params, take).await;
    known(read, &K::group(&()), &K::plural(&()))
}

/// Of a kind that the cluster doesn't know there is nothing. Every cluster knows its own: who doesn't is none.
fn known(read: Result<(), CallError>, group: &str, plural: &str) -> Result<(), ReadError> {
    match read {
        Err(error) if error.kind() == Failure::NotFound && group == GROUP => Ok(()),
        read => read.map_err(ReadError::to(format!("list {plural}"))),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_kinds_of_our_own_may_be_unknown() {
        let answer = |code: u16| -> Result<(), CallError> {
            let status = Status::failure("no luck", "").with_code(code);
            Err(CallError::Api(kube::Error::Api(status.boxed())))
        };
        assert!(known(answer(404), GROUP, "targets").is_ok());
        assert!(known(answer(403), GROUP, "targets").is_err());
        for (group, plural) in [("", "pods"), ("networking.k8s.io", "ingresses")] {
            assert!(known(answer(404), group, plural).is_err(), "{plural}");
        }
    }
}
