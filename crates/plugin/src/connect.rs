//! `connect`: lets a source into a target and tells the source of it, step by step.
//!
//! Each step is written so that it may be done again, so who was interrupted goes on by the same command. Before the first one
//! everything is looked at that can be seen to be wrong.

use std::time::Duration;

use clap::{ArgAction, Args};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::discovery::ApiResource;
use kube::{Api, Resource, ResourceExt};
use pilotage_api::conditions::types;
use pilotage_api::{
    ClusterSource, ClusterTarget, Right, Source, SourceStatus, Target, TargetStatus, keys,
};
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, find, within};
use serde_json::json;

use crate::address::{self, Known};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::pair::PairArgs;
use crate::plan::{self, Connection};
use crate::wait::{self, Shows};
use crate::{preflight, progress};

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manifests {
    /// As kubectl takes it.
    #[default]
    Yaml,
}

/// Flags of `connect`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct ConnectArgs {
    #[command(flatten)]
    pair: PairArgs,

    /// What the source may do besides running pods, separated by commas: logs, exec, attach, port-forward, follow-configmaps,
    /// follow-secrets, follow-services, follow-ingresses. The target has to be installed with these rights.
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',')]
    rights: Vec<Right>,

    /// Address of the target's API server, as the source's pods reach it. Without it, the kubeconfig's, unless that is one of
    /// this machine only; then what the target says of itself.
    #[arg(long, value_name = "URL")]
    target_server: Option<String>,

    /// Label the namespace in the source, so that its elected pods are delegated. Not with --cluster-wide.
    #[arg(
        long,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        value_name = "true|false"
    )]
    label_namespace: bool,

    /// Have Kubernetes make a new token; the old one is void at once.
    #[arg(long)]
    renew_token: bool,

    /// How long each side may take to do its part.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,

    /// Print the objects, and write nothing.
    #[arg(long)]
    dry_run: bool,

    /// Form of what --dry-run prints.
    #[arg(short, long, value_enum, requires = "dry_run", default_value_t)]
    output: Manifests,
}

/// Connects two clusters; returns what is to be printed.
pub async fn connect(args: ConnectArgs) -> Result<String, Error> {
    let (source, target, mut connection) = args.pair.open().await?;
    connection.rights.clone_from(&args.rights);
    connection.rights.sort_unstable();
    connection.rights.dedup();
    if args.dry_run {
        let Manifests::Yaml = args.output;
        return connection.manifests(args.label_namespace);
    }
    Work {
        source,
        target,
        connection,
        args,
    }
    .run()
    .await
}

struct Work {
    source: Cluster,
    target: Cluster,
    connection: Connection,
    args: ConnectArgs,
}

impl Work {
    async fn run(self) -> Result<String, Error> {
        let uid = preflight::two(&self.source, &self.target).await?;
        preflight::side(&self.target, &self.connection, false).await?;
        preflight::side(&self.source, &self.connection, self.args.label_namespace).await?;
        self.not_taken(uid.as_deref()).await?;
        let known = Known {
            given: self.args.target_server.as_deref(),
            kubeconfig: &self.target.server,
            own: preflight::own_addresses(&self.target).await,
        };
        let address = address::choose(&known)?;
        for note in address.note.iter().chain(&self.insecure()) {
            progress(&format!("warning: {note}"));
        }

        self.let_in().await?;
        let token = self.token().await?;
        self.tell(&address.server, &token).await?;
        self.label().await?;
        self.connected().await?;
        Ok(self.done(&address.server))
    }

    fn insecure(&self) -> Option<String> {
        self.target.trust.insecure.then(|| {
            "the kubeconfig doesn't check the target's certificate; the source refuses that unless it runs with \
             --allow-insecure-targets"
                .to_owned()
        })
    }

    /// Nothing of somebody else's has a name that is needed here.
    async fn not_taken(&self, uid: Option<&str>) -> Result<(), Error> {
        let Connection {
            target_name,
            namespace,
            ..
        } = &self.connection;
        let place = self.connection.place();
        for (cluster, name) in [
            (&self.target, self.connection.token_name()),
            (&self.source, self.connection.secret_name()),
        ] {
            let secrets: Api<Secret> = cluster.api(place);
            let there = find(CALL_LIMIT, secrets.get_metadata(&name), "secrets", &name).await;
            let there = there.map_err(cluster.failed(format!("read Secret {name}")))?;
            if there.is_some_and(|it| !plan::is_ours(&it.metadata)) {
                return Err(Error::Taken {
                    what: format!("Secret {place}/{name} of the {}", cluster.side),
                    why: "wasn't made by this command".to_owned(),
                    instead: "give another --name and --source-name, or delete it",
                });
            }
        }
        self.account_is_free(place).await?;
        match namespace {
            Some(_) => self.source_is_ours::<Source>().await?,
            None => self.source_is_ours::<ClusterSource>().await?,
        }
        let found = if let Some(namespace) = namespace {
            let api: Api<Target> = self.source.api(namespace);
            let there = find(CALL_LIMIT, api.get(target_name), "targets", target_name).await;
            let there = there.map_err(self.source.failed("read the Target"))?;
            there.map(|it| {
                (
                    it.metadata,
                    it.spec.kubeconfig_secret.map(|it| it.name),
                    it.status,
                )
            })
        } else {
            let api: Api<ClusterTarget> = Api::all(self.source.client.clone());
            let there = api.get(target_name);
            let there = find(CALL_LIMIT, there, "clustertargets", target_name).await;
            let there = there.map_err(self.source.failed("read the ClusterTarget"))?;
            there.map(|it| {
                (
                    it.metadata,
                    it.spec.kubeconfig_secret.map(|it| it.name),
                    it.status,
                )
            })
        };
        let Some((meta, spec, status)) = found else {
            return Ok(());
        };
        let what = format!(
            "{} {target_name} of the source",
            self.connection.target_kind()
        );
        if spec != Some(self.connection.secret_name()) {
            let why = format!(
                "names {} as its cluster",
                spec.map_or("another one".to_owned(), |it| format!("Secret {it}"))
            );
            let instead = "give another --name, or delete it";
            return Err(Error::Taken { what, why, instead });
        }
        if !plan::is_ours(&meta) {
            let why = "wasn't made by this command".to_owned();
            let instead = "give another --name, or delete it";
            return Err(Error::Taken { what, why, instead });
        }
        let leads_to = status.and_then(|status: TargetStatus| status.cluster_uid);
        if leads_to.is_some() && uid.is_some() && leads_to.as_deref() != uid {
            let why = "leads to another cluster".to_owned();
            let instead = "give another --name, or disconnect that one first";
            return Err(Error::Taken { what, why, instead });
        }
        Ok(())
    }

    /// The account gets the source's rights and its token goes there: it must not be one that does something else.
    async fn account_is_free(&self, place: &str) -> Result<(), Error> {
        let name = &self.connection.source_name;
        let accounts: Api<ServiceAccount> = self.target.api(place);
        let there = accounts.get_metadata(name);
        let there = find(CALL_LIMIT, there, "serviceaccounts", name).await;
        let there = there.map_err(self.target.failed(format!("read ServiceAccount {name}")))?;
        if there.is_some_and(|it| !plan::is_of_a_source(&it.metadata)) {
            return Err(Error::Taken {
                what: format!("ServiceAccount {place}/{name} of the target"),
                why: "wasn't made for a Source".to_owned(),
                instead: "give another --source-name",
            });
        }
        Ok(())
    }

    /// A Source that somebody else made stays theirs: `disconnect` deletes what this command made.
    async fn source_is_ours<K: Resource<DynamicType = ()>>(&self) -> Result<(), Error> {
        let name = &self.connection.source_name;
        let resource = ApiResource::erase::<K>(&());
        let client = self.target.client.clone();
        let api: Api<DynamicObject> = match &self.connection.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let kind = &resource.kind;
        let there = find(CALL_LIMIT, api.get_metadata(name), &resource.plural, name).await;
        let there = there.map_err(self.target.failed(format!("read {kind} {name}")))?;
        if there.is_some_and(|it| !plan::is_ours(&it.metadata)) {
            return Err(Error::Taken {
                what: format!("{kind} {name} of the target"),
                why: "wasn't made by this command".to_owned(),
                instead: "give another --source-name, or delete it",
            });
        }
        Ok(())
    }

    /// The Source, and who it makes of it.
    async fn let_in(&self) -> Result<(), Error> {
        let name = &self.connection.source_name;
        let kind = self.connection.source_kind();
        progress(&format!("target: {kind} {name}"));
        let silent = "nobody has taken it up";
        let ready = |status: Option<&SourceStatus>, generation| {
            let all = status.map_or(&[][..], |status| &status.conditions);
            wait::conditions(all, generation, &[types::READY], silent)
        };
        let gone = || Shows::Yet("it was deleted".to_owned());
        let waited = if let Some(namespace) = &self.connection.namespace {
            self.target
                .apply::<Source>(&self.connection.source())
                .await?;
            let look = |it: Option<&Source>| {
                it.map_or_else(gone, |it| ready(it.status.as_ref(), it.metadata.generation))
            };
            wait::until(
                self.target.api::<Source>(namespace),
                name,
                self.args.timeout,
                look,
            )
            .await
        } else {
            self.target
                .apply::<ClusterSource>(&self.connection.source())
                .await?;
            let look = |it: Option<&ClusterSource>| {
                it.map_or_else(gone, |it| ready(it.status.as_ref(), it.metadata.generation))
            };
            wait::until(
                Api::all(self.target.client.clone()),
                name,
                self.args.timeout,
                look,
            )
            .await
        };
        waited.map_err(|last| {
            let instead = if last == silent {
                "see whether \"pilotage controllers\" runs in the target, and give the same command again"
            } else {
                "mend that in the target, and give the same command again"
            };
            self.late(format!("{kind} {name} of the target isn't ready"), last, instead)
        })
    }

    fn late(&self, what: String, last: String, instead: &str) -> Error {
        let seconds = self.args.timeout.as_secs();
        Error::Waited {
            what,
            seconds,
            last,
            instead: instead.to_owned(),
        }
    }

    /// A token of the Source's account.
    async fn token(&self) -> Result<String, Error> {
        let name = self.connection.token_name();
        let secrets: Api<Secret> = self.target.api(self.connection.place());
        progress(&format!("target: Secret {name} with a token"));
        if self.args.renew_token {
            let there = find(CALL_LIMIT, secrets.get_metadata(&name), "secrets", &name).await;
            if let Some(old) = there.map_err(self.target.failed("read the token"))? {
                let params = DeleteParams::default();
                let params = params.preconditions(Preconditions {
                    uid: old.uid(),
                    resource_version: None,
                });
                let deleted = within(CALL_LIMIT, secrets.delete(&name, &params)).await;
                deleted.map_err(self.target.failed("delete the old token"))?;
            }
        }
        self.target
            .apply::<Secret>(&self.connection.token())
            .await?;
        let text = |secret: &Secret| {
            let token = secret.data.as_ref()?.get("token")?;
            String::from_utf8(token.0.clone())
                .ok()
                .filter(|it| !it.is_empty())
        };
        let look = |secret: Option<&Secret>| {
            if secret.and_then(text).is_some() {
                return Shows::Done;
            }
            Shows::Yet(
                if secret.is_some() {
                    "it is empty"
                } else {
                    "it was deleted"
                }
                .to_owned(),
            )
        };
        let waited = wait::until(secrets.clone(), &name, self.args.timeout, look).await;
        waited.map_err(|last| {
            let what = format!("Kubernetes has put no token into Secret {name} of the target");
            self.late(
                what,
                last,
                "see whether its kube-controller-manager runs, and give the same command again",
            )
        })?;
        let secret = within(CALL_LIMIT, secrets.get(&name)).await;
        let secret = secret.map_err(self.target.failed("read the token"))?;
        text(&secret).ok_or_else(|| {
            let what = format!("the token in Secret {name} of the target went away");
            self.late(
                what,
                "it is empty".to_owned(),
                "give the same command again",
            )
        })
    }

    /// The kubeconfig, and the Target that names it.
    async fn tell(&self, server: &str, token: &str) -> Result<(), Error> {
        let Connection {
            target_name,
            namespace,
            ..
        } = &self.connection;
        let kubeconfig = address::kubeconfig(
            target_name,
            server,
            &self.target.trust,
            namespace.as_deref(),
            token,
        );
        progress(&format!(
            "source: Secret {} with a kubeconfig",
            self.connection.secret_name()
        ));
        self.source
            .apply::<Secret>(&self.connection.secret(&kubeconfig))
            .await?;
        progress(&format!(
            "source: {} {target_name}",
            self.connection.target_kind()
        ));
        let object = self.connection.target();
        match namespace {
            Some(_) => self.source.apply::<Target>(&object).await,
            None => self.source.apply::<ClusterTarget>(&object).await,
        }
        .map(drop)
    }

    async fn label(&self) -> Result<(), Error> {
        let Some(namespace) = self
            .connection
            .namespace
            .as_deref()
            .filter(|_| self.args.label_namespace)
        else {
            return Ok(());
        };
        progress(&format!("source: label of namespace {namespace}"));
        let labels = json!({ keys::NAMESPACE_LABEL: keys::NAMESPACE_LABEL_VALUE });
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels } });
        self.source.apply::<Namespace>(&object).await.map(drop)
    }

    async fn connected(&self) -> Result<(), Error> {
        let Connection {
            target_name: name,
            namespace,
            ..
        } = &self.connection;
        let silent = "nobody has taken it up";
        let connected = |status: Option<&TargetStatus>, generation| {
            let all = status.map_or(&[][..], |status| &status.conditions);
            let types = [types::VALID, types::CONNECTED, types::AUTHORIZED];
            wait::conditions(all, generation, &types, silent)
        };
        let gone = || Shows::Yet("it was deleted".to_owned());
        let limit = self.args.timeout;
        let waited = if let Some(namespace) = namespace {
            let look = |it: Option<&Target>| {
                it.map_or_else(gone, |it| {
                    connected(it.status.as_ref(), it.metadata.generation)
                })
            };
            wait::until(self.source.api::<Target>(namespace), name, limit, look).await
        } else {
            let look = |it: Option<&ClusterTarget>| {
                it.map_or_else(gone, |it| {
                    connected(it.status.as_ref(), it.metadata.generation)
                })
            };
            wait::until(Api::all(self.source.client.clone()), name, limit, look).await
        };
        waited.map_err(|last| {
            let instead = if last == silent {
                "see whether \"pilotage controllers\" runs in the source, and give the same command again"
            } else {
                "mend that, for instance by another --target-server, and give the same command again"
            };
            let kind = self.connection.target_kind();
            self.late(format!("{kind} {name} of the source isn't connected"), last, instead)
        })
    }

    fn done(&self, server: &str) -> String {
        let Connection {
            target_name,
            source_name,
            namespace,
            ..
        } = &self.connection;
        let next = match namespace {
            Some(namespace) if self.args.label_namespace => {
                format!(
                    "pods of namespace {namespace} with the annotation {} may run there",
                    keys::ELECT
                )
            }
            _ => format!(
                "label namespaces {}={}, and their pods with the annotation {} may run there",
                keys::NAMESPACE_LABEL,
                keys::NAMESPACE_LABEL_VALUE,
                keys::ELECT
            ),
        };
        format!(
            "connected: {} {target_name} of the source leads to {} {source_name} of the target at {server}; {next}\n",
            self.connection.target_kind(),
            self.connection.source_kind(),
        )
    }
}
