//! Whose the objects are that have a connection's names: what isn't its own is neither written over nor deleted.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::{Api, Resource};
use pilotage_api::conditions::types;
use pilotage_api::token::TokenLife;
use pilotage_api::{ClusterSource, ClusterTarget, Right, Source, Target, TargetStatus, keys};
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};
use serde::Deserialize;

use crate::Side;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::life::Life;
use crate::plan::{self, Connection};
use crate::program::program;

/// A Source of the connection's name that is there, and is the connection's.
pub(crate) struct Standing {
    pub(crate) meta: ObjectMeta,
    /// What it gives besides; `None` if this version doesn't know all of that.
    pub(crate) rights: Option<Vec<Right>>,
}

/// What the source has of this connection from earlier.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The kubeconfig in its Secret.
    pub(crate) kubeconfig: Option<String>,
    /// Whether its Target has ever led to a cluster.
    pub(crate) reached: bool,
    /// Whether it does now.
    pub(crate) connected: bool,
}

/// Nothing of somebody else's has a name that is needed; `uid` is the target's identity, if it is known. The Source is
/// looked at by [`source`]. Returns what is there from earlier.
pub(crate) async fn nothing(
    (source, target): (&Cluster, &Cluster),
    connection: &Connection,
    uid: Option<&str>,
) -> Result<Earlier, Error> {
    secret(target, connection.place(), &connection.token_name()).await?;
    let kubeconfig = secret(source, connection.place(), &connection.secret_name()).await?;
    account(target, connection).await?;
    if connection.life.ends() {
        let (place, name) = (Some(connection.place()), connection.token_name());
        ours::<Role>(target, place, &name).await?;
        ours::<RoleBinding>(target, place, &name).await?;
    }
    let (reached, connected) = self::target(source, connection, uid).await?;
    Ok(Earlier {
        kubeconfig: kubeconfig.and_then(|it| text(&it)),
        reached,
        connected,
    })
}

/// What kind of token this connection has from earlier, as far as one may look: who may not, or whose names are taken,
/// is told so elsewhere.
pub(crate) async fn life(
    (source, target): (&Cluster, &Cluster),
    connection: &Connection,
) -> Result<Option<Life>, Error> {
    let (name, token) = (connection.secret_name(), connection.token_name());
    let (here, there) = tokio::join!(
        secret(source, connection.place(), &name),
        secret(target, connection.place(), &token)
    );
    let visible = |found: Result<Option<Secret>, Error>| match found {
        Err(Error::Read { source, .. }) if source.kind() == Failure::Forbidden => Ok(None),
        Err(Error::Taken { .. }) => Ok(None),
        found => found,
    };
    let (here, there) = (visible(here)?, visible(there)?);
    let annotations = here.and_then(|it| it.metadata.annotations);
    let mark = annotations.and_then(|mut all| all.remove(keys::TOKEN_LIFE));
    let there = there.map(|_| Life::Endless);
    // Whatever it says, the source is to renew it.
    let marked = mark.map(|mark| Life::Renewed(mark.parse::<TokenLife>().unwrap_or_default()));
    Ok(marked.or(there))
}

/// The Secret is one of ours, or there is none.
async fn secret(cluster: &Cluster, place: &str, name: &str) -> Result<Option<Secret>, Error> {
    let secrets: Api<Secret> = cluster.api(place);
    let there = find(CALL_LIMIT, secrets.get(name), "secrets", name).await;
    let there = there.map_err(cluster.unread(format!("read Secret {name}")))?;
    if there
        .as_ref()
        .is_some_and(|it| !plan::is_ours(&it.metadata))
    {
        return Err(Error::Taken {
            what: format!("Secret {place}/{name} of the {}", cluster.side),
            why: "wasn't made by this command".to_owned(),
            instead: "give another --name and --source-name, or delete it",
        });
    }
    Ok(there)
}

/// The kubeconfig in a Secret of `connect`.
fn text(secret: &Secret) -> Option<String> {
    let config = secret.data.as_ref()?.get(plan::CONFIG)?;
    String::from_utf8(config.0.clone()).ok()
}

/// The account gets the source's rights and its token goes there: it must not be one that does something else.
async fn account(target: &Cluster, connection: &Connection) -> Result<(), Error> {
    let (place, name) = (connection.place(), &connection.source_name);
    let accounts: Api<ServiceAccount> = target.api(place);
    let there = accounts.get_metadata(name);
    let there = find(CALL_LIMIT, there, "serviceaccounts", name).await;
    let there = there.map_err(target.unread(format!("read ServiceAccount {name}")))?;
    if there.is_some_and(|it| !plan::is_of_a_source(&it.metadata)) {
        return Err(Error::Taken {
            what: format!("ServiceAccount {place}/{name} of the target"),
            why: "wasn't made for a Source".to_owned(),
            instead: "give another --source-name",
        });
    }
    Ok(())
}

/// The Target is one of ours that leads to the same cluster, or there is none. Whether it has ever led to one, and
/// whether it is connected.
async fn target(
    source: &Cluster,
    connection: &Connection,
    uid: Option<&str>,
) -> Result<(bool, bool), Error> {
    let name = &connection.target_name;
    let found = if let Some(namespace) = &connection.namespace {
        let api: Api<Target> = source.api(namespace);
        let there = find(CALL_LIMIT, api.get(name), "targets", name).await;
        let there = there.map_err(source.unread("read the Target"))?;
        there.map(|it| {
            let secret = it.spec.kubeconfig_secret.map(|it| it.name);
            (it.metadata, secret, it.status)
        })
    } else {
        let api: Api<ClusterTarget> = Api::all(source.client.clone());
        let there = find(CALL_LIMIT, api.get(name), "clustertargets", name).await;
        let there = there.map_err(source.unread("read the ClusterTarget"))?;
        there.map(|it| {
            let secret = it.spec.kubeconfig_secret.map(|it| it.name);
            (it.metadata, secret, it.status)
        })
    };
    let Some((meta, secret, status)) = found else {
        return Ok((false, false));
    };
    let what = format!("{} {name} of the source", connection.target_kind());
    let instead = "give another --name, or delete it";
    stays(&what, &meta)?;
    if secret != Some(connection.secret_name()) {
        let its = secret.map_or("another one".to_owned(), |it| format!("Secret {it}"));
        let why = format!("names {its} as its cluster");
        return Err(Error::Taken { what, why, instead });
    }
    if !plan::is_ours(&meta) {
        let why = "wasn't made by this command".to_owned();
        return Err(Error::Taken { what, why, instead });
    }
    let TargetStatus {
        cluster_uid: leads_to,
        conditions,
        ..
    } = status.unwrap_or_default();
    let mut conditions = conditions.iter();
    let connected = conditions.any(|it| it.type_ == types::CONNECTED && it.status == "True");
    if leads_to.is_some() && uid.is_some() && leads_to.as_deref() != uid {
        let why = "leads to another cluster".to_owned();
        let instead = "give another --name, or disconnect that one first";
        return Err(Error::Taken { what, why, instead });
    }
    Ok((leads_to.is_some(), connected))
}

/// What goes is neither written to nor waited for: with it goes whatever is added.
fn stays(what: &str, meta: &ObjectMeta) -> Result<(), Error> {
    if meta.deletion_timestamp.is_none() {
        return Ok(());
    }
    Err(Error::NotNow {
        what: format!("{what} is being deleted"),
        instead: format!(
            "wait until it is gone, or end it by \"{} disconnect\", and give the same command again",
            program()
        ),
    })
}

/// The Source of [`source`], which isn't about to go.
pub(crate) async fn standing(
    target: &Cluster,
    connection: &Connection,
) -> Result<Option<Standing>, Error> {
    let standing = source(target, connection).await?;
    if let Some(standing) = &standing {
        let what = format!(
            "{} {} of the target",
            connection.source_kind(),
            connection.source_name
        );
        stays(&what, &standing.meta)?;
    }
    Ok(standing)
}

/// The Source that lets this connection's source in, if there is one; an error if it is somebody else's, or another
/// cluster's.
pub(crate) async fn source(
    target: &Cluster,
    connection: &Connection,
) -> Result<Option<Standing>, Error> {
    let name = &connection.source_name;
    let scope = connection.namespace.as_deref();
    let (kind, instead) = (connection.source_kind(), "give another --source-name");
    let found = match scope {
        Some(_) => get::<Source>(target, scope, name).await?,
        None => get::<ClusterSource>(target, scope, name).await?,
    };
    let Some(found) = found else { return Ok(None) };
    let what = format!("{kind} {name} of the target");
    if !plan::is_ours(&found.metadata) {
        let why = "wasn't made by \"connect\"".to_owned();
        let instead = "give another --source-name, or delete it with kubectl";
        return Err(Error::Taken { what, why, instead });
    }
    if let Some(why) = whose(&found.metadata, connection.source_uid.as_deref()) {
        return Err(Error::Taken { what, why, instead });
    }
    let rights = Option::<Vec<Right>>::deserialize(&found.data["spec"]["rights"]);
    Ok(Some(Standing {
        meta: found.metadata,
        rights: rights.map(Option::unwrap_or_default).ok(),
    }))
}

/// Why an object isn't this source's, if it isn't.
fn whose(meta: &ObjectMeta, own: Option<&str>) -> Option<String> {
    let written = meta.annotations.as_ref()?.get(keys::SOURCE_CLUSTER_UID)?;
    match own {
        Some(own) if own == written => None,
        Some(own) => Some(format!(
            "lets another cluster in (its kube-system namespace has the UID {written}, this source's has {own})"
        )),
        None => Some(format!(
            "lets the cluster in whose kube-system namespace has the UID {written}, and you may not read the \
             source's to compare"
        )),
    }
}

async fn get<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<DynamicObject>, Error> {
    let api = cluster.untyped::<K>(namespace);
    match within(CALL_LIMIT, api.get(name)).await {
        Ok(found) => Ok(Some(found)),
        // Without the definitions there is no such object either. In the source they have to be: a Target that isn't
        // seen would be left without what it needs to end its pods.
        Err(error) if error.says_absent(&K::plural(&()), name) => Ok(None),
        Err(error) if error.kind() == Failure::NotFound && cluster.side == Side::Target => Ok(None),
        Err(error) => Err(cluster.unread(format!("read {} {name}", K::kind(&())))(
            error,
        )),
    }
}

/// Who an object is that `connect` made, if it is there.
pub(crate) async fn ours<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<ObjectMeta>, Error> {
    let Some(there) = get::<K>(cluster, namespace, name).await? else {
        return Ok(None);
    };
    if !plan::is_ours(&there.metadata) {
        return Err(Error::Taken {
            what: format!("{} {name} of the {}", K::kind(&()), cluster.side),
            why: "wasn't made by \"connect\"".to_owned(),
            instead: "give its --name, or delete it with kubectl",
        });
    }
    Ok(Some(there.metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_of_the_cluster_that_is_written_on_it() {
        let meta = |uid: Option<&str>| ObjectMeta {
            annotations: uid
                .map(|uid| [(keys::SOURCE_CLUSTER_UID.to_owned(), uid.to_owned())].into()),
            ..ObjectMeta::default()
        };
        // Who made it by hand or long ago said nothing.
        assert_eq!(whose(&meta(None), Some("a")), None);
        assert_eq!(whose(&meta(None), None), None);
        assert_eq!(whose(&meta(Some("a")), Some("a")), None);
        let other = whose(&meta(Some("b")), Some("a")).unwrap();
        assert!(
            other.contains("UID b") && other.contains("has a"),
            "{other}"
        );
        assert!(
            whose(&meta(Some("b")), None)
                .unwrap()
                .contains("may not read")
        );
    }
}
