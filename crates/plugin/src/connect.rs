//! `connect`: lets a source into a target and tells the source of it, step by step.
//!
//! Each step is written so that it may be done again, so who was interrupted goes on by the same command. Before the
//! first one everything is looked at that can be seen to be wrong.

mod kubeconfig;
pub(crate) mod lacking;
mod remedy;
mod token;

use std::time::Duration;

use clap::{ArgAction, Args};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use pilotage_api::conditions::types;
use pilotage_api::{
    ClusterSource, ClusterTarget, Right, Source, SourceStatus, Target, TargetStatus, keys,
};
use pilotage_runtime::args::parse_duration;
use serde_json::{Value, json};

use crate::address::{self, Known};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::life::Life;
use crate::pair::PairArgs;
use crate::plan::{self, Connection, Doing};
use crate::preflight::Identities;
use crate::rights::{self, Follow, Rights};
use crate::taken::Standing;
use crate::wait::{self, Shows};
use crate::{preflight, progress, taken};

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
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct ConnectArgs {
    #[command(flatten)]
    pair: PairArgs,

    /// What the source may do besides running pods, separated by commas: logs, exec, attach, port-forward, metrics,
    /// follow-configmaps, follow-secrets, follow-services, follow-ingresses; or none. The target has to be installed
    /// with these rights. Without it, the source keeps what it was given.
    #[arg(long, value_name = "RIGHTS", value_parser = Rights::parse)]
    rights: Option<Rights>,

    /// What may follow pods into the target, separated by commas: configmaps, secrets, services, ingresses; or none.
    /// These are the rights follow-configmaps and so on; other rights stay as they are. The source has to be installed
    /// with "follow" of the same, and the target with these rights.
    #[arg(long, value_name = "KINDS", value_parser = Follow::parse)]
    follow: Option<Follow>,

    /// Address of the target's API server, as the source's pods reach it. Without it, the one by which they have
    /// reached it before, else the kubeconfig's, unless that is one of this machine only; then what the target says of
    /// itself.
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

    /// How long the source's token lives, from 1h to 8760h: the source renews it when half of that is over. Or "never"
    /// (or 0): it has no end, and the source may make no other one. Without it, 720h. A connection that is there keeps
    /// its kind of token unless --renew-token is given, too.
    #[arg(long, value_name = "DURATION|never", value_parser = Life::parse)]
    token_life: Option<Life>,

    /// Make a new token; earlier ones are void then. Of a connection whose token has no end it makes one that ends.
    #[arg(long)]
    renew_token: bool,

    /// Take over fields that somebody else has set to other values.
    #[arg(long)]
    force_conflicts: bool,

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

impl ConnectArgs {
    /// Whether something is said of rights.
    fn says_rights(&self) -> bool {
        self.rights.is_some() || self.follow.is_some()
    }

    /// The rights of a source that has these.
    fn wanted(&self, has: &[Right]) -> Vec<Right> {
        rights::wanted(self.rights.as_ref(), self.follow.as_ref(), has)
    }
}

/// Connects two clusters; returns what is to be printed.
pub(crate) async fn connect(args: ConnectArgs) -> Result<String, Error> {
    let (source, target, mut connection) = args.pair.open().await?;
    connection.rights = args.wanted(&[]);
    connection.life = args.token_life.unwrap_or_default();
    if args.dry_run {
        let Manifests::Yaml = args.output;
        return connection.manifests(args.label_namespace);
    }
    Work {
        source,
        target,
        connection,
        standing: None,
        others: Vec::new(),
        args,
    }
    .run()
    .await
}

/// What an object shows that somebody deletes meanwhile.
const GOES: &str = "it is being deleted";

struct Work {
    source: Cluster,
    target: Cluster,
    connection: Connection,
    /// What kind of token the connection has from earlier.
    standing: Option<Life>,
    /// By which other addresses the source may reach the target.
    others: Vec<String>,
    args: ConnectArgs,
}

impl Work {
    async fn run(mut self) -> Result<String, Error> {
        let Identities { source, target } = preflight::two(&self.source, &self.target).await?;
        self.connection.source_uid = source;
        let clusters = (&self.source, &self.target);
        self.standing = taken::life(clusters, &self.connection).await?;
        let (given, renew) = (self.args.token_life, self.args.renew_token);
        self.connection.life = Life::chosen(given, self.standing, renew);
        let doing = Doing::Connect {
            label: self.args.label_namespace,
            renew,
            anew: renew && self.standing != Some(Life::Endless),
        };
        preflight::side(&self.target, &self.connection, doing).await?;
        preflight::side(&self.source, &self.connection, doing).await?;
        let clusters = (&self.source, &self.target);
        let earlier = taken::nothing(clusters, &self.connection, target.as_deref()).await?;
        let there = taken::standing(&self.target, &self.connection).await?;
        self.keep_rights(there.as_ref())?;
        let standing = earlier.kubeconfig.as_deref().filter(|_| earlier.reached);
        let standing = standing.and_then(address::of_kubeconfig);
        let known = Known {
            given: self.args.target_server.as_deref(),
            standing: standing.as_deref(),
            kubeconfig: &self.target.server,
            own: preflight::own_addresses(&self.target).await,
        };
        let address = address::choose(&known)?;
        self.others = address::others(&known, &address.server);
        let uid = there.as_ref().and_then(|it| it.meta.uid.clone());
        self.would_be_taken(uid.as_deref(), &address.server).await?;

        for note in address.note.iter().chain(&self.insecure()) {
            progress(&format!("warning: {note}"));
        }
        if address.kept {
            progress(&format!(
                "source: the target's address stays {}; another one is given by --target-server",
                address.server
            ));
        }
        for right in self.lost_rights(there.as_ref()) {
            let copies = if right.starts_with("follow-") {
                "; copies that are there stay, and nobody deletes them"
            } else {
                ""
            };
            progress(&format!(
                "target: {} {} loses the right {right}{copies}",
                self.connection.source_kind(),
                self.connection.source_name
            ));
        }
        if let Some(note) = self.kept_kind() {
            progress(note);
        }
        self.let_in(uid.as_deref()).await?;
        let token = self.token(&earlier).await?;
        let good = earlier.kubeconfig.filter(|_| earlier.connected);
        let good = good.map(|good| token.in_place_of_the_old_one(&good));
        let written = self.kubeconfig(&address.server, &token.text).to_string();
        if let Some(good) = good.filter(|good| *good != written) {
            self.replace(&good, &written).await?;
        } else {
            let version = self.tell(&written).await?;
            self.label().await?;
            self.connected(version.as_deref()).await?;
        }
        for note in self.lacking().await {
            progress(&format!("warning: {note}"));
        }
        Ok(self.done(&address.server))
    }

    fn insecure(&self) -> Option<String> {
        self.target.trust.insecure.then(|| {
            "the kubeconfig doesn't check the target's certificate; the source refuses that unless it runs with \
             --allow-insecure-targets"
                .to_owned()
        })
    }

    /// What kind of token stays although it isn't the usual one, or the one that was asked for.
    fn kept_kind(&self) -> Option<&'static str> {
        let asked = self.args.token_life.unwrap_or_default();
        match (self.connection.life, self.args.token_life) {
            (Life::Endless, given) if given.is_none() || asked.ends() => Some(
                "target: the token that is there has no end, and stays; --renew-token makes one that is renewed",
            ),
            (Life::Renewed(_), Some(Life::Endless)) => Some(
                "target: the token that is there ends, and is renewed; one without an end is made by --renew-token",
            ),
            _ => None,
        }
    }

    /// Rights are taken away by whoever says so, and by nobody else.
    fn keep_rights(&mut self, there: Option<&Standing>) -> Result<(), Error> {
        let Some(there) = there else { return Ok(()) };
        if self.args.rights.is_some() {
            return Ok(());
        }
        let (kind, name) = (self.connection.source_kind(), &self.connection.source_name);
        let rights = there.rights.clone().ok_or_else(|| Error::Taken {
            what: format!("{kind} {name} of the target"),
            why: "gives rights that this version doesn't know".to_owned(),
            instead: "say by --rights which it should have, or take a newer version",
        })?;
        self.connection.rights = self.args.wanted(&rights);
        Ok(())
    }

    fn lost_rights(&self, there: Option<&Standing>) -> Vec<&'static str> {
        let has = there.and_then(|there| there.rights.as_deref());
        let gone = has.unwrap_or_default().iter();
        let gone = gone.filter(|it| !self.connection.rights.contains(it));
        gone.map(|it| it.flag()).collect()
    }

    /// The object that lets the source in; only the one that was looked at, if there is one.
    fn source_object(&self, uid: Option<&str>) -> Value {
        let mut object = self.connection.source();
        if let Some(uid) = uid {
            object["metadata"]["uid"] = json!(uid);
        }
        if self.args.says_rights() {
            // Also none: what isn't said stays as long as somebody else owns it.
            object["spec"]["rights"] = json!(self.connection.rights);
        }
        object
    }

    /// Both clusters would take everything: asked before anything is written.
    async fn would_be_taken(&self, uid: Option<&str>, server: &str) -> Result<(), Error> {
        let force = self.args.force_conflicts;
        let (source, target, connection) = (&self.source, &self.target, &self.connection);
        let (let_in, told) = (self.source_object(uid), connection.target());
        let secret = connection.secret(&self.kubeconfig(server, "the token comes later"));
        if connection.namespace.is_some() {
            target.would_apply::<Source>(&let_in, force).await?;
            source.would_apply::<Target>(&told, force).await?;
        } else {
            target.would_apply::<ClusterSource>(&let_in, force).await?;
            source.would_apply::<ClusterTarget>(&told, force).await?;
        }
        if connection.life.ends() {
            let (role, binding) = (connection.role(), connection.role_binding());
            target.would_apply::<Role>(&role, force).await?;
            target.would_apply::<RoleBinding>(&binding, force).await?;
        } else {
            let token = connection.token();
            target.would_apply::<Secret>(&token, force).await?;
        }
        source.would_apply::<Secret>(&secret, force).await?;
        if let Some(label) = self.namespace_label() {
            source.would_apply::<Namespace>(&label, force).await?;
        }
        Ok(())
    }

    /// The Source, and who it makes of it.
    async fn let_in(&self, uid: Option<&str>) -> Result<(), Error> {
        let name = &self.connection.source_name;
        let kind = self.connection.source_kind();
        progress(&format!("target: {kind} {name}"));
        let silent = "nobody has taken it up";
        let other = "another cluster has just taken it";
        let force = self.args.force_conflicts;
        let ready = |meta: &ObjectMeta, status: Option<&SourceStatus>| {
            let whose = meta
                .annotations
                .as_ref()
                .and_then(|all| all.get(keys::SOURCE_CLUSTER_UID));
            if whose != self.connection.source_uid.as_ref() {
                return Shows::Yet(other.to_owned());
            }
            if meta.deletion_timestamp.is_some() {
                return Shows::Yet(GOES.to_owned());
            }
            let generation = meta.generation;
            let all = status.map_or(&[][..], |status| &status.conditions);
            wait::conditions(all, generation, &[types::READY], silent)
        };
        let gone = || Shows::Yet("it was deleted".to_owned());
        let waited = if let Some(namespace) = &self.connection.namespace {
            self.target
                .apply::<Source>(&self.source_object(uid), force)
                .await?;
            let look = |it: Option<&Source>| {
                it.map_or_else(gone, |it| ready(&it.metadata, it.status.as_ref()))
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
                .apply::<ClusterSource>(&self.source_object(uid), force)
                .await?;
            let look = |it: Option<&ClusterSource>| {
                it.map_or_else(gone, |it| ready(&it.metadata, it.status.as_ref()))
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
            } else if last == other {
                "give another --source-name"
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

    fn namespace_label(&self) -> Option<Value> {
        let namespace = self.connection.namespace.as_deref();
        let namespace = namespace.filter(|_| self.args.label_namespace)?;
        let labels = json!({ keys::NAMESPACE_LABEL: keys::NAMESPACE_LABEL_VALUE });
        let metadata = json!({ "name": namespace, "labels": labels });
        Some(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))
    }

    async fn label(&self) -> Result<(), Error> {
        let Some(object) = self.namespace_label() else {
            return Ok(());
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        progress(&format!("source: label of namespace {name}"));
        let force = self.args.force_conflicts;
        self.source
            .apply::<Namespace>(&object, force)
            .await
            .map(drop)
    }

    /// Waits until the Target is connected by this version of its Secret: until then its conditions are of an earlier
    /// kubeconfig.
    async fn connected(&self, version: Option<&str>) -> Result<(), Error> {
        let Connection {
            target_name: name,
            namespace,
            ..
        } = &self.connection;
        let silent = "nobody has taken it up";
        let untried = "the new kubeconfig hasn't been tried yet";
        let connected = |meta: &ObjectMeta, status: Option<&TargetStatus>| {
            if meta.deletion_timestamp.is_some() {
                return Shows::Yet(GOES.to_owned());
            }
            let tried = status.and_then(|status| status.kubeconfig_version.as_deref());
            let all = status.map_or(&[][..], |status| &status.conditions);
            let is_new = |version| tried.is_some_and(|tried| plan::is_as_new(tried, version));
            if !all.is_empty() && !version.is_none_or(is_new) {
                return Shows::Yet(untried.to_owned());
            }
            let types = [types::VALID, types::CONNECTED, types::AUTHORIZED];
            wait::conditions(all, meta.generation, &types, silent)
        };
        let gone = || Shows::Yet("it was deleted".to_owned());
        let limit = self.args.timeout;
        let waited = if let Some(namespace) = namespace {
            let look = |it: Option<&Target>| {
                it.map_or_else(gone, |it| connected(&it.metadata, it.status.as_ref()))
            };
            wait::until(self.source.api::<Target>(namespace), name, limit, look).await
        } else {
            let look = |it: Option<&ClusterTarget>| {
                it.map_or_else(gone, |it| connected(&it.metadata, it.status.as_ref()))
            };
            wait::until(Api::all(self.source.client.clone()), name, limit, look).await
        };
        waited.map_err(|last| {
            let instead = if last == silent || last == untried {
                "see whether \"pilotage controllers\" of this version runs in the source, and give the same command \
                 again"
                    .to_owned()
            } else {
                remedy::instead(&last, &self.others)
            };
            let kind = self.connection.target_kind();
            self.late(format!("{kind} {name} of the source isn't connected"), last, &instead)
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
