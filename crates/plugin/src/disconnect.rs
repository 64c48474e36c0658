//! `disconnect`: takes back what `connect` made, the source's side first, so that no pod is left without a way back.

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use pilotage_api::{ClusterSource, ClusterTarget, Source, Target};
use pilotage_runtime::args::parse_duration;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::pair::PairArgs;
use crate::plan::{Connection, Doing};
use crate::program::program;
use crate::wait::{self, Shows};
use crate::{Side, copies, preflight, progress, taken, undo};

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
pub(crate) async fn disconnect(args: DisconnectArgs) -> Result<String, Error> {
    let (source, target, mut connection) = args.pair.open().await?;
    connection.source_uid = preflight::identity(&source).await?;
    let work = Work {
        source,
        target,
        connection,
        limit: args.timeout,
    };
    work.run().await
}

struct Work {
    source: Cluster,
    target: Cluster,
    connection: Connection,
    limit: Duration,
}

impl Work {
    async fn run(self) -> Result<String, Error> {
        let Connection {
            target_name,
            source_name,
            namespace,
            ..
        } = &self.connection;
        let (source, target) = (&self.source, &self.target);
        let (place, scope) = (self.connection.place(), namespace.as_deref());
        let (secret_name, token_name) =
            (self.connection.secret_name(), self.connection.token_name());
        let (kind, of) = (self.connection.target_kind(), self.connection.source_kind());

        // What isn't ours, or isn't allowed, is told before anything is deleted.
        let needs = self.connection.needs(Side::Source, Doing::Disconnect);
        preflight::rights(source, &needs).await?;
        taken::ours::<Secret>(source, Some(place), &secret_name).await?;
        match scope {
            Some(_) => taken::ours::<Target>(source, scope, target_name).await?,
            None => taken::ours::<ClusterTarget>(source, scope, target_name).await?,
        };
        if let Some(silent) = self.silent().await? {
            // A target that is gone for good must not keep its source from letting go of it.
            progress(&format!("warning: {silent}; only the source is seen to"));
        }

        let there = match scope {
            Some(_) => undo::delete::<Target>(source, scope, target_name).await?,
            None => undo::delete::<ClusterTarget>(source, scope, target_name).await?,
        };
        if there {
            progress(&format!(
                "source: {kind} {target_name} goes when its pods are gone"
            ));
            self.gone().await?;
        }
        let secret = delete_secret(source, place, &secret_name).await?;

        // From here on nobody needs the target. Whatever is wrong there now, something was done.
        let silent = match self.silent().await {
            Ok(silent) => silent,
            Err(error) => Some(error),
        };
        if let Some(silent) = silent {
            let gone = [(there, kind, target_name), (secret, "Secret", &secret_name)];
            let gone = gone.iter().filter(|(gone, ..)| *gone);
            let gone: Vec<String> = gone
                .map(|(_, kind, name)| format!("{kind} {name}"))
                .collect();
            let done = if gone.is_empty() {
                "nothing was left in the source".to_owned()
            } else {
                format!("gone from the source: {}", gone.join(", "))
            };
            return Err(Error::Half {
                done,
                left: format!("{of} {source_name}, and Secret, Role and RoleBinding {token_name}"),
                side: Side::Target,
                source: Box::new(silent),
            });
        }
        let token = delete_secret(target, place, &token_name).await?;
        let renewal = undo::renewal(target, &self.connection).await?;
        let let_in = match scope {
            Some(_) => undo::delete::<Source>(target, scope, source_name).await?,
            None => undo::delete::<ClusterSource>(target, scope, source_name).await?,
        };
        if !(there || secret || token || renewal || let_in) {
            return Ok(format!(
                "there is no connection of these names: {kind} {target_name}, {of} {source_name}\n"
            ));
        }
        // Those of kinds that follow went before the Target did.
        let copies = copies::left(target, scope, self.connection.source_uid.as_deref()).await;
        Ok(format!(
            "disconnected: {kind} {target_name} and {of} {source_name} are gone, with their Secrets; labels of \
             namespaces stay\n{copies}"
        ))
    }

    /// Why the target doesn't answer, if so. If it does, all there is as it has to be.
    async fn silent(&self) -> Result<Option<Error>, Error> {
        match preflight::identity(&self.target).await {
            Err(silent @ (Error::Unreachable { .. } | Error::Unknown { .. })) => {
                return Ok(Some(silent));
            }
            answered => answered?,
        };
        let (target, connection) = (&self.target, &self.connection);
        let mut needs = connection.needs(Side::Target, Doing::Disconnect);
        needs.extend(undo::renewal_needs(target, connection).await?);
        preflight::rights(target, &needs).await?;
        let place = Some(connection.place());
        taken::ours::<Secret>(target, place, &connection.token_name()).await?;
        taken::source(target, connection).await?;
        Ok(None)
    }

    /// Waits until the Target is gone, which Pilotage delays until its pods are.
    async fn gone(&self) -> Result<(), Error> {
        let (source, connection, limit) = (&self.source, &self.connection, self.limit);
        let name = &connection.target_name;
        let yet = || Shows::Yet("its pods are still being ended in the target".to_owned());
        let waited = if let Some(namespace) = &connection.namespace {
            let look = |it: Option<&Target>| it.map_or(Shows::Done, |_| yet());
            wait::until(source.api::<Target>(namespace), name, limit, look).await
        } else {
            let look = |it: Option<&ClusterTarget>| it.map_or(Shows::Done, |_| yet());
            wait::until(kube::Api::all(source.client.clone()), name, limit, look).await
        };
        let kind = connection.target_kind();
        let which = match &connection.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => format!("{name} --cluster-wide"),
        };
        waited.map_err(|last| Error::Waited {
            what: format!("{kind} {name} of the source is deleted and isn't gone"),
            seconds: limit.as_secs(),
            last: format!("{last}, and the Secrets and the Source stay until they are"),
            instead: format!(
                "give the same command again; if the target never answers, give its pods up: \
                 {} forget {which} {}",
                program(),
                source.flags("--source")
            ),
        })
    }
}

async fn delete_secret(cluster: &Cluster, place: &str, name: &str) -> Result<bool, Error> {
    let deleted = undo::delete::<Secret>(cluster, Some(place), name).await?;
    if deleted {
        progress(&format!("{}: Secret {name} is deleted", cluster.side));
    }
    Ok(deleted)
}
