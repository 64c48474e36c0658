//! Which objects of a cluster carry finalizers of Pilotage or of Admiralty, and reading lists page by page. It changes
//! nothing.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use pilotage_api::{ClusterTarget, GROUP, PodChaperon, Target, keys};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use serde::de::DeserializeOwned;

/// So many objects are read at once.
const PAGE: u32 = 500;

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
        mut take: impl FnMut(PartialObjectMeta<DynamicObject>),
    ) -> Result<(), ReadError> {
        let mut params = params.limit(PAGE);
        loop {
            let page = call::within(CALL_LIMIT, api.list_metadata(&params)).await;
            let Some(page) = known(page, &self.resource.group, &self.resource.plural)? else {
                return Ok(());
            };
            page.items.into_iter().for_each(&mut take);
            let Some(token) = more(page.metadata) else {
                return Ok(());
            };
            params = params.continue_token(&token);
        }
    }
}

/// All objects of a selection.
pub(super) async fn each<K>(
    api: &Api<K>,
    params: ListParams,
    mut take: impl FnMut(K),
) -> Result<(), ReadError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    loop {
        let page = call::within(CALL_LIMIT, api.list(&params)).await;
        let Some(page) = known(page, &K::group(&()), &K::plural(&()))? else {
            return Ok(());
        };
        page.items.into_iter().for_each(&mut take);
        let Some(token) = more(page.metadata) else {
            return Ok(());
        };
        params = params.continue_token(&token);
    }
}

/// The page; none, if the cluster doesn't know the kind. Every cluster knows its own: who doesn't is none.
fn known<T>(page: Result<T, CallError>, group: &str, plural: &str) -> Result<Option<T>, ReadError> {
    match page {
        Err(error) if error.kind() == Failure::NotFound && group == GROUP => Ok(None),
        page => page
            .map(Some)
            .map_err(ReadError::to(format!("list {plural}"))),
    }
}

/// Where the next page begins.
fn more(page: ListMeta) -> Option<String> {
    page.continue_.filter(|token| !token.is_empty())
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
        assert!(matches!(known(answer(404), GROUP, "targets"), Ok(None)));
        assert!(known(answer(403), GROUP, "targets").is_err());
        for (group, plural) in [("", "pods"), ("networking.k8s.io", "ingresses")] {
            assert!(known(answer(404), group, plural).is_err(), "{plural}");
        }
    }
}
