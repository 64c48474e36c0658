//! `uninstall`: takes away what `install` made, in an order in which nobody is kept from creating pods. It knows
//! nothing of the webhook's own objects and of finalizers: whoever calls it sees to those in between.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions, PropagationPolicy};
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt};
use pilotage_api::{VERSION, keys};
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};
use pilotage_runtime::pages;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::install::options::{self, Roles};
use crate::install::{manifest, no_release, not_elsewhere};
use crate::plan::MANAGER;
use crate::program::program;
use crate::targets::allowed;
use crate::wait::{self, Shows};
use crate::{Side, preflight, progress};

/// So many objects are looked at at the same time.
const TOGETHER: usize = 8;

/// Flags of `uninstall`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct UninstallArgs {
    /// Context of the cluster. Without it, the current one.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Namespace where Pilotage runs. It stays.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "pilotage")]
    namespace: String,

    /// Do it although pods run in targets, or here for sources: they run on, and nobody looks after them.
    #[arg(long)]
    pub leave_pods: bool,

    /// Delete the definitions, too, and with them all Targets, ClusterTargets, Sources, ClusterSources, PodChaperons
    /// and ClusterSummaries of the cluster.
    #[arg(long, conflicts_with = "leave_pods")]
    with_definitions: bool,

    /// Say what would be deleted, and delete nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// How long the parts may take to end.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    timeout: Duration,
}

/// What goes together, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// What lets the webhook install its configuration anew, while it still answers.
    WebhookRights,
    /// What runs.
    Parts,
    /// What it needed.
    Rest,
    /// The kinds, with all objects of them.
    Definitions,
}

/// When an object goes; `None`: it stays.
fn stage(object: &Value) -> Option<Stage> {
    let is_the_webhooks = object["metadata"]["labels"]["app.kubernetes.io/component"] == "webhook";
    match object["kind"].as_str() {
        // Others may have put something there.
        Some("Namespace") | None => None,
        Some("CustomResourceDefinition") => Some(Stage::Definitions),
        Some("Deployment") => Some(Stage::Parts),
        Some("RoleBinding" | "ClusterRoleBinding") if is_the_webhooks => Some(Stage::WebhookRights),
        Some(_) => Some(Stage::Rest),
    }
}

/// In the order in which they go: the reverse of that in which they came, by stages.
fn ordered(objects: Vec<Value>) -> Vec<(Stage, Value)> {
    let staged = objects.into_iter().rev();
    let mut all: Vec<_> = staged.filter_map(|it| Some((stage(&it)?, it))).collect();
    all.sort_by_key(|(stage, _)| *stage);
    all
}

/// An object that is there.
struct Found {
    stage: Stage,
    title: String,
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    /// Whether `install` made it.
    is_ours: bool,
}

impl Found {
    fn told(&self) -> String {
        let what = if self.is_ours {
            "would be deleted"
        } else {
            "stays, since \"install\" didn't make it"
        };
        format!("{}: {what}\n", self.title)
    }
}

/// What `install` made in a cluster.
pub struct Installed {
    cluster: Cluster,
    args: UninstallArgs,
    /// Those that may be there.
    roles: Roles,
    /// In the order in which they go.
    found: Vec<Found>,
}

impl Installed {
    /// A cluster that answers; what is there isn't known yet.
    pub async fn open(args: UninstallArgs, roles: Roles) -> Result<Self, Error> {
        let file = args.kubeconfig.as_deref();
        let cluster = Cluster::open(Side::Cluster, file, args.context.as_deref()).await?;
        preflight::identity(&cluster).await?;
        let found = Vec::new();
        Ok(Self {
            cluster,
            args,
            roles,
            found,
        })
    }

    /// For requests to the cluster.
    pub fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// The flags by which kubectl reaches the cluster.
    pub fn reach(&self) -> String {
        self.cluster.flags("--context")
    }

    /// Namespace where Pilotage runs.
    pub fn namespace(&self) -> &str {
        &self.args.namespace
    }

    /// Looks what is there and whether it may be deleted; whether there is anything.
    pub async fn look(&mut self) -> Result<bool, Error> {
        let (cluster, namespace) = (&self.cluster, &self.args.namespace);
        let objects = options::everything(namespace, self.roles)?;
        no_release(cluster, &objects, "uninstall that by \"helm uninstall\"").await?;
        not_elsewhere(cluster, &objects, namespace).await?;
        let goes = |stage: Stage| stage < Stage::Definitions || self.args.with_definitions;
        let objects = ordered(objects).into_iter().filter(|(it, _)| goes(*it));
        let looks =
            stream::iter(objects).map(async |(stage, object)| self.one(stage, &object).await);
        let found: Vec<_> = looks.buffered(TOGETHER).try_collect().await?;
        let found: Vec<Found> = found.into_iter().flatten().collect();
        let mut missing = BTreeSet::new();
        for it in found.iter().filter(|it| it.is_ours) {
            if !self.may_delete(it).await? {
                let plural = &it.resource.plural;
                missing.insert(match &it.namespace {
                    Some(namespace) => format!("delete {plural} of namespace {namespace}"),
                    None => format!("delete {plural}"),
                });
            }
        }
        if !missing.is_empty() {
            return Err(Error::Rights {
                side: self.cluster.side,
                missing: missing.into_iter().collect(),
            });
        }
        self.found = found;
        Ok(self.found.iter().any(|it| it.is_ours))
    }

    async fn one(&self, stage: Stage, object: &Value) -> Result<Option<Found>, Error> {
        let text = |key: &str| object["metadata"][key].as_str().map(str::to_owned);
        let mut it = Found {
            stage,
            title: manifest::title(object),
            resource: manifest::resource(object),
            namespace: text("namespace"),
            name: text("name").unwrap_or_default(),
            uid: None,
            is_ours: false,
        };
        let api = self.api(&it);
        let there = api.get_metadata(&it.name);
        let there = find(CALL_LIMIT, there, &it.resource.plural, &it.name).await;
        let there = allowed(there).map_err(self.cluster.unread(format!("read {}", it.title)))?;
        let Some(there) = there else {
            return Err(Error::Rights {
                side: self.cluster.side,
                missing: vec![format!("get {}", it.resource.plural)],
            });
        };
        Ok(there.map(|there| {
            let manager = there.labels().get(keys::MANAGED_BY.0);
            it.is_ours = manager.is_some_and(|it| it == MANAGER);
            it.uid = there.uid();
            it
        }))
    }

    fn api(&self, it: &Found) -> Api<DynamicObject> {
        let client = self.cluster.client.clone();
        match &it.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &it.resource),
            None => Api::all_with(client, &it.resource),
        }
    }

    async fn may_delete(&self, it: &Found) -> Result<bool, Error> {
        let params = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        match within(CALL_LIMIT, self.api(it).delete(&it.name, &params)).await {
            Err(error) if error.kind() == Failure::Forbidden => Ok(false),
            // What else is wrong, the deletion itself will tell.
            _ => Ok(true),
        }
    }

    /// One line for each object: that it would be deleted, or why it stays.
    pub fn told(&self) -> String {
        self.found.iter().map(Found::told).collect()
    }

    /// Nobody installs the webhook's configuration anew, and the webhook still answers: its configuration can go now.
    pub async fn disarm(&self) -> Result<(), Error> {
        self.delete(Stage::WebhookRights).await
    }

    /// What runs ends, and what it needed goes.
    pub async fn delete_parts(&self) -> Result<(), Error> {
        self.delete(Stage::Parts).await?;
        self.gone(Stage::Parts, "its pods haven't ended").await?;
        self.delete(Stage::Rest).await
    }

    /// The kinds go, if that was asked for, with all their objects.
    pub async fn delete_definitions(&self) -> Result<(), Error> {
        self.warm().await;
        self.delete(Stage::Definitions).await?;
        self.gone(Stage::Definitions, "objects of the kind are still there")
            .await
    }

    /// Has the API server make the stores of the kinds, which it does at the first request. One that is still being
    /// made when its kind is deleted can keep the deletion waiting until the API server is started again.
    async fn warm(&self) {
        for it in self
            .found
            .iter()
            .filter(|it| it.stage == Stage::Definitions)
        {
            let Some((plural, group)) = it.name.split_once('.') else {
                continue;
            };
            let kind = ApiResource {
                group: group.to_owned(),
                version: VERSION.to_owned(),
                api_version: format!("{group}/{VERSION}"),
                kind: String::new(),
                plural: plural.to_owned(),
            };
            let all: Api<DynamicObject> = Api::all_with(self.cluster.client.clone(), &kind);
            // Who may not list them deletes them all the same.
            let _ = within(
                CALL_LIMIT,
                all.list_metadata(&ListParams::default().limit(1)),
            )
            .await;
        }
    }

    async fn delete(&self, stage: Stage) -> Result<(), Error> {
        for it in self.found.iter().filter(|it| it.stage == stage) {
            if !it.is_ours {
                let title = &it.title;
                progress(&format!(
                    "cluster: {title} stays: \"install\" didn't make it"
                ));
                continue;
            }
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: it.uid.clone(),
                    resource_version: None,
                }),
                // It is there until its pods are gone.
                propagation_policy: (stage == Stage::Parts)
                    .then_some(PropagationPolicy::Foreground),
                ..DeleteParams::default()
            };
            match within(CALL_LIMIT, self.api(it).delete(&it.name, &params)).await {
                Ok(_) => progress(&format!("cluster: {} is deleted", it.title)),
                // It is gone, or another one has its name.
                Err(error) if matches!(error.kind(), Failure::NotFound | Failure::Conflict) => {}
                Err(error) => {
                    let what = format!("delete {}", it.title);
                    return Err(self.cluster.failed(what)(error));
                }
            }
        }
        Ok(())
    }

    async fn gone(&self, stage: Stage, yet: &str) -> Result<(), Error> {
        let limit = self.args.timeout;
        let until = Instant::now().checked_add(limit);
        let all = self
            .found
            .iter()
            .filter(|it| it.stage == stage && it.is_ours);
        for it in all {
            let left = until.map_or(limit, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let look = |now: Option<&DynamicObject>| match now {
                Some(now) if now.uid() == it.uid => Shows::Yet(yet.to_owned()),
                _ => Shows::Done,
            };
            let waited = wait::until(self.api(it), &it.name, left, look).await;
            waited.map_err(|last| Error::Waited {
                what: format!("{} of the cluster is deleted and isn't gone", it.title),
                seconds: limit.as_secs(),
                last,
                instead: "give the same command again".to_owned(),
            })?;
        }
        Ok(())
    }

    /// What is to be said at the end.
    pub async fn gone_text(&self) -> Result<String, Error> {
        let (reach, namespace) = (self.cluster.flags("--context"), &self.args.namespace);
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        let selection = ListParams::default().labels(&virtual_nodes());
        let nodes = allowed(pages::count(CALL_LIMIT, &nodes, selection).await);
        let nodes = nodes.map_err(self.cluster.failed("list nodes"))?;
        let nodes = nodes.unwrap_or_default();
        let stay = !self.args.with_definitions;
        Ok(gone(namespace, stay, nodes, &reach))
    }

    /// What is to be said if there is nothing.
    pub fn nothing_text(&self) -> String {
        let (reach, program) = (self.cluster.flags("--context"), program());
        // It takes no kubeconfig but one that is named.
        let file = match self.cluster.file {
            Some(_) => "",
            None => " --kubeconfig FILE",
        };
        format!(
            "nothing is here that \"{program} install\" made in namespace {}; what may be left elsewhere is told by \
             \"{program} uninstall --check {reach}\", and taken away by \"{program} cleanup {reach}{file}\"\n",
            self.args.namespace
        )
    }
}

/// Label selector for virtual nodes.
fn virtual_nodes() -> String {
    format!("{}={}", keys::PROVIDER, keys::PROVIDER_VALUE)
}

/// What is to be said when all is gone but this: the definitions, if they `stay`, and so many virtual nodes.
fn gone(namespace: &str, stay: bool, nodes: usize, reach: &str) -> String {
    let mut text = format!("uninstalled: Pilotage is gone; namespace {namespace} stays");
    if stay {
        text += ", and so do the definitions with all Targets and Sources (--with-definitions deletes them)";
    }
    let nodes = if nodes > 0 {
        format!(
            "{nodes} virtual node(s) are left, of Targets that are there: kubectl {reach} delete nodes --selector {}\n",
            virtual_nodes()
        )
    } else {
        String::new()
    };
    format!("{text}\n{nodes}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_creates_pods_is_let_go_first_and_kinds_go_last() {
        let all = ordered(manifest::of_any_image("ships").unwrap());
        let titles = |of: Stage| -> Vec<String> {
            let all = all.iter().filter(|(stage, _)| *stage == of);
            all.map(|(_, it)| manifest::title(it)).collect()
        };
        assert_eq!(
            titles(Stage::WebhookRights),
            [
                "RoleBinding ships/pilotage-webhook",
                "ClusterRoleBinding pilotage-webhook"
            ]
        );
        assert_eq!(titles(Stage::Parts).len(), 4);
        assert_eq!(titles(Stage::Definitions).len(), 6);
        let rest = titles(Stage::Rest);
        let last = rest.last().map(String::as_str);
        assert_eq!(last, Some("PriorityClass pilotage"));
        assert!(rest.contains(&"ServiceAccount ships/pilotage-webhook".to_owned()));
        assert!(all.is_sorted_by_key(|(stage, _)| *stage));
        let namespaces = all.iter().filter(|(_, it)| it["kind"] == "Namespace");
        assert_eq!(namespaces.count(), 0);
        assert_eq!(stage(&json!({})), None);
    }

    #[test]
    fn what_goes_and_what_stays_is_told() {
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a", "namespace": "ships" },
        });
        let told = |is_ours| {
            let found = Found {
                stage: Stage::Rest,
                title: manifest::title(&object),
                resource: manifest::resource(&object),
                namespace: Some("ships".to_owned()),
                name: "a".to_owned(),
                uid: None,
                is_ours,
            };
            found.told()
        };
        assert_eq!(told(true), "ServiceAccount ships/a: would be deleted\n");
        assert_eq!(
            told(false),
            "ServiceAccount ships/a: stays, since \"install\" didn't make it\n"
        );
        assert_eq!(
            gone("ships", false, 0, "--context london"),
            "uninstalled: Pilotage is gone; namespace ships stays\n"
        );
        assert_eq!(
            gone("ships", true, 1, "--context london"),
            "uninstalled: Pilotage is gone; namespace ships stays, and so do the definitions with all Targets and \
             Sources (--with-definitions deletes them)\n1 virtual node(s) are left, of Targets that are there: \
             kubectl --context london delete nodes --selector virtual-kubelet.io/provider=admiralty\n"
        );
    }
}
