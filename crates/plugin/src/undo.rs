//! Deletes what `connect` made, and nothing else.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use kube::api::{DeleteParams, Preconditions};
use pilotage_runtime::call::{CALL_LIMIT, Failure, within};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::{Connection, Need, RBAC};
use crate::{progress, taken};

/// Only the object with this UID.
pub(crate) fn only(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    })
}

/// Deletes an object; whether it was there.
pub(crate) async fn delete<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<bool, Error> {
    let there = taken::ours::<K>(cluster, namespace, name).await;
    let Some(there) = there.map_err(Error::midway)? else {
        return Ok(false);
    };
    let what = format!("{} {name}", K::kind(&()));
    let api = cluster.untyped::<K>(namespace);
    match within(CALL_LIMIT, api.delete(name, &only(there.uid))).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Failure::NotFound => Ok(false),
        Err(error) => Err(cluster.failed(format!("delete {what}"))(error)),
    }
}

/// The right to renew a token goes, as far as it is there and one may look. Whether it was there.
pub(crate) async fn renewal(target: &Cluster, connection: &Connection) -> Result<bool, Error> {
    let (place, name) = (connection.place(), connection.token_name());
    let binding = if_any::<RoleBinding>(target, place, &name).await?;
    let role = if_any::<Role>(target, place, &name).await?;
    if binding || role {
        progress(&format!("target: Role {name} and its binding are deleted"));
    }
    Ok(binding || role)
}

/// What one has to be allowed for that: to delete what one sees there.
pub(crate) async fn renewal_needs(
    target: &Cluster,
    connection: &Connection,
) -> Result<Vec<Need>, Error> {
    let (place, name) = (connection.place(), connection.token_name());
    let mut needs = Vec::new();
    for (resource, there) in [
        (
            "rolebindings",
            seen::<RoleBinding>(target, place, &name).await?,
        ),
        ("roles", seen::<Role>(target, place, &name).await?),
    ] {
        needs.extend((there == Some(true)).then(|| Need {
            group: RBAC,
            resource,
            verb: "delete",
            namespace: Some(place.to_owned()),
        }));
    }
    Ok(needs)
}

/// Whether an object of ours is there; `None`: one may not look.
async fn seen<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Option<bool>, Error> {
    match taken::ours::<K>(cluster, Some(namespace), name).await {
        Err(Error::Read { source, .. }) if source.kind() == Failure::Forbidden => Ok(None),
        // It is somebody else's, and was none of this connection's.
        Err(Error::Taken { .. }) => Ok(Some(false)),
        there => Ok(Some(there?.is_some())),
    }
}

async fn if_any<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<bool, Error> {
    match seen::<K>(cluster, namespace, name)
        .await
        .map_err(Error::midway)?
    {
        Some(true) => delete::<K>(cluster, Some(namespace), name).await,
        Some(false) => Ok(false),
        None => {
            progress(&format!(
                "warning: target: {} {name}, by which a source renews its token, may be there still: you may not \
                 read it",
                K::kind(&())
            ));
            Ok(false)
        }
    }
}
