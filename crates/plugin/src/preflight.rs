//! What has to be so before anything is written: each cluster answers, is another one, has Pilotage's kinds and the
//! namespaces, and lets its user do what is needed.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DynamicObject;
use kube::api::{ListParams, PostParams};
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use pilotage_api::{ClusterSource, ClusterTarget, Source, Target};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};

use crate::Side;
use crate::address;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::{Connection, Doing, Need, listed};

/// Who a cluster is, if its user may know it.
pub(crate) async fn identity(cluster: &Cluster) -> Result<Option<String>, Error> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    match within(CALL_LIMIT, namespaces.get("kube-system")).await {
        Ok(namespace) => Ok(namespace.metadata.uid),
        Err(source) => {
            let (side, context) = (cluster.side, cluster.context.clone());
            if matches!(&source, CallError::Api(kube::Error::Api(it)) if it.code == 401) {
                return Err(Error::Unknown {
                    side,
                    context,
                    source,
                });
            }
            if source.kind() == Failure::Forbidden {
                return Ok(None);
            }
            Err(Error::Unreachable {
                side,
                context,
                server: cluster.server.clone(),
                reach: cluster.flags("--context"),
                source: Box::new(source),
            })
        }
    }
}

/// Who the two clusters of a connection are, as far as their user may know it.
pub(crate) struct Identities {
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
}

/// Both clusters answer, and are two.
pub(crate) async fn two(source: &Cluster, target: &Cluster) -> Result<Identities, Error> {
    let (here, there) = tokio::join!(identity(source), identity(target));
    let (here, there) = (here?, there?);
    if here.is_some() && here == there {
        return Err(Error::SameCluster);
    }
    Ok(Identities {
        source: here,
        target: there,
    })
}

/// One side is ready for a connection.
pub(crate) async fn side(
    cluster: &Cluster,
    connection: &Connection,
    doing: Doing,
) -> Result<(), Error> {
    rights(cluster, &connection.needs(cluster.side, doing)).await?;
    let namespaced = connection.namespace.as_deref();
    match (cluster.side, namespaced) {
        (Side::Source | Side::Cluster, Some(at)) => {
            installed::<Target>(cluster, Some(at), "Target").await?;
        }
        (Side::Source | Side::Cluster, None) => {
            installed::<ClusterTarget>(cluster, None, "ClusterTarget").await?;
        }
        (Side::Target, Some(at)) => installed::<Source>(cluster, Some(at), "Source").await?,
        (Side::Target, None) => installed::<ClusterSource>(cluster, None, "ClusterSource").await?,
    }
    namespace(cluster, connection.place()).await
}

/// Whether the user may do all this.
pub(crate) async fn rights(cluster: &Cluster, needs: &[Need]) -> Result<(), Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let answers = try_join_all(needs.iter().map(async |need| {
        let (resource, subresource) = match need.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (need.resource, None),
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(need.group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    verb: Some(need.verb.to_owned()),
                    namespace: need.namespace.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = within(CALL_LIMIT, reviews.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }));
    let answers = answers
        .await
        .map_err(cluster.unread("ask what you may do"))?;
    let denied = needs.iter().zip(answers).filter(|(_, allowed)| !allowed);
    let denied: Vec<Need> = denied.map(|(need, _)| need.clone()).collect();
    if denied.is_empty() {
        return Ok(());
    }
    Err(Error::Rights {
        side: cluster.side,
        missing: listed(&denied),
    })
}

async fn installed<K>(
    cluster: &Cluster,
    namespace: Option<&str>,
    kind: &'static str,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    match within(
        CALL_LIMIT,
        api.list_metadata(&ListParams::default().limit(1)),
    )
    .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == Failure::NotFound => {
            let (side, reach) = (cluster.side, cluster.flags("--context"));
            Err(Error::NotInstalled { side, reach, kind })
        }
        Err(error) => Err(cluster.unread(format!("list {}", resource.plural))(error)),
    }
}

/// A namespace is there. Who may not look, will hear it from the first write.
async fn namespace(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    match within(CALL_LIMIT, namespaces.get_metadata(name)).await {
        Err(error) if error.kind() == Failure::NotFound => {
            let (side, reach) = (cluster.side, cluster.flags("--context"));
            Err(Error::NoNamespace {
                side,
                reach,
                namespace: name.to_owned(),
            })
        }
        Err(error) if error.kind() == Failure::Forbidden => Ok(()),
        Err(error) => Err(cluster.unread(format!("read namespace {name}"))(error)),
        Ok(_) => Ok(()),
    }
}

/// Addresses that a cluster says it has, the likeliest first. Not every cluster does, nor to everybody.
pub(crate) async fn own_addresses(cluster: &Cluster) -> Vec<String> {
    let text = async |namespace: &str, name: &str, key: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
        let map = within(CALL_LIMIT, maps.get(name)).await.ok()?;
        map.data?.remove(key)
    };
    let kubeadm = text("kube-system", "kubeadm-config", "ClusterConfiguration").await;
    let info = text("kube-public", "cluster-info", "kubeconfig").await;
    let kubeadm = kubeadm.as_deref().and_then(address::of_kubeadm);
    let info = info.as_deref().and_then(address::of_kubeconfig);
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "default");
    let slice = within(CALL_LIMIT, slices.get("kubernetes")).await.ok();
    let endpoints = slice.iter().flat_map(address::of_endpoints);
    kubeadm.into_iter().chain(info).chain(endpoints).collect()
}
