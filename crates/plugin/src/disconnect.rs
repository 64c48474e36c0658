//! `disconnect`: takes back what `connect` made, the source's side first, so that no pod is left without a way back.

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use pilotage_api::{ClusterSource, ClusterTarget, Source, Target, keys};
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::pair::PairArgs;
use crate::plan::{self, Connection};
use crate::wait::{self, Shows};
use crate::{Side, preflight, progress};

/// Flags of `disconnect`.
#[derive(Clone, Debug, Args)]
pub struct DisconnectArgs {
    #[command(flatten)]
    pair: PairArgs,

    /// How long the pods that run in the target may take to go.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    timeout: Duration,
}

/// Ends a connection; returns what is to be printed.
pub async fn disconnect(args: DisconnectArgs) -> Result<String, Error> {
    let (source, target, connection) = args.pair.open().await?;
    preflight::identity(&source).await?;
    let Connection {
        target_name,
        source_name,
        namespace,
        ..
    } = &connection;
    let place = connection.place();
    let scope = namespace.as_deref();

    // What isn't ours is told before anything is deleted.
    ours::<Secret>(&source, Some(place), &connection.secret_name()).await?;
    let kind = connection.target_kind();
    let there = match scope {
        Some(_) => delete::<Target>(&source, scope, target_name).await?,
        None => delete::<ClusterTarget>(&source, scope, target_name).await?,
    };
    if there {
        progress(&format!(
            "source: {kind} {target_name} goes when its pods are gone"
        ));
        gone(&source, &connection, args.timeout).await?;
    }
    let secret = delete_secret(&source, place, &connection.secret_name()).await?;

    // From here on nobody needs the target.
    preflight::identity(&target).await?;
    let token = delete_secret(&target, place, &connection.token_name()).await?;
    let let_in = match scope {
        Some(_) => delete::<Source>(&target, scope, source_name).await?,
        None => delete::<ClusterSource>(&target, scope, source_name).await?,
    };
    if !(there || secret || token || let_in) {
        return Ok(format!(
            "there is no connection of these names: {kind} {target_name}, {} {source_name}\n",
            connection.source_kind()
        ));
    }
    Ok(format!(
        "disconnected: {kind} {target_name} and {} {source_name} are gone, with their Secrets; labels of namespaces stay\n",
        connection.source_kind()
    ))
}

fn api<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    }
}

/// Who an object is that `connect` made, if it is there.
async fn ours<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<ObjectMeta>, Error> {
    let resource = ApiResource::erase::<K>(&());
    let api = api::<K>(cluster, namespace);
    let what = format!("{} {name}", resource.kind);
    let there = find(CALL_LIMIT, api.get_metadata(name), &resource.plural, name).await;
    let there = match there {
        // Without the definitions there is no such object either. In the source they have to be: a Target that isn't seen
        // would be left without what it needs to end its pods.
        Err(error) if error.kind() == Failure::NotFound && cluster.side == Side::Target => None,
        there => there.map_err(cluster.failed(format!("read {what}")))?,
    };
    let Some(there) = there else { return Ok(None) };
    if !plan::is_ours(&there.metadata) {
        return Err(Error::Taken {
            what: format!("{what} of the {}", cluster.side),
            why: "wasn't made by \"connect\"".to_owned(),
            instead: "give its --name, or delete it with kubectl",
        });
    }
    Ok(Some(there.metadata))
}

/// Deletes an object that `connect` made; whether it was there.
async fn delete<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<bool, Error> {
    let Some(there) = ours::<K>(cluster, namespace, name).await? else {
        return Ok(false);
    };
    let what = format!("{} {name}", K::kind(&()));
    let preconditions = Preconditions {
        uid: there.uid,
        resource_version: None,
    };
    let params = DeleteParams::default().preconditions(preconditions);
    let api = api::<K>(cluster, namespace);
    match within(CALL_LIMIT, api.delete(name, &params)).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Failure::NotFound => Ok(false),
        Err(error) => Err(cluster.failed(format!("delete {what}"))(error)),
    }
}

async fn delete_secret(cluster: &Cluster, place: &str, name: &str) -> Result<bool, Error> {
    let deleted = delete::<Secret>(cluster, Some(place), name).await?;
    if deleted {
        progress(&format!("{}: Secret {name} is deleted", cluster.side));
    }
    Ok(deleted)
}

/// Waits until the Target is gone, which Pilotage delays until its pods are.
async fn gone(source: &Cluster, connection: &Connection, limit: Duration) -> Result<(), Error> {
    let name = &connection.target_name;
    let yet = || Shows::Yet("its pods are still being ended in the target".to_owned());
    let waited = if let Some(namespace) = &connection.namespace {
        let look = |it: Option<&Target>| it.map_or(Shows::Done, |_| yet());
        wait::until(source.api::<Target>(namespace), name, limit, look).await
    } else {
        let look = |it: Option<&ClusterTarget>| it.map_or(Shows::Done, |_| yet());
        wait::until(Api::all(source.client.clone()), name, limit, look).await
    };
    let kind = connection.target_kind();
    let forget = match &connection.namespace {
        Some(namespace) => format!("target {name} -n {namespace}"),
        None => format!("clustertarget {name}"),
    };
    waited.map_err(|last| Error::Waited {
        what: format!("{kind} {name} of the source isn't gone"),
        seconds: limit.as_secs(),
        last,
        instead: format!(
            "give the same command again; if the target never answers, give its pods up: \
             kubectl --context {} annotate {forget} {}=true",
            source.context,
            keys::FORGET
        ),
    })
}
