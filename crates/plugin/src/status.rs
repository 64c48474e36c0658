//! `status` and `explain`: reads what a source shows of its targets and of one pod. It writes nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_api::conditions::types;
use pilotage_api::summary::ResourceList;
use pilotage_api::{ClusterTarget, Target, TargetStatus, keys, names};
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::explain::{ExplainArgs, Place, Story};
use crate::table::{age, columns, one_line};
use crate::{Output, Side, preflight, written};

/// Flags of `status` and `explain`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Of one pod: its stages, each target's answer, and where it is.
    #[command(subcommand)]
    about: Option<About>,

    #[command(flatten)]
    from: FromArgs,
}

/// Flags of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainCommand {
    #[command(subcommand)]
    about: About,

    #[command(flatten)]
    from: FromArgs,
}

/// What it is about.
#[derive(Clone, Debug, Subcommand)]
enum About {
    /// A pod: its stages, each target's answer, and where it is.
    Pod(ExplainArgs),
}

/// Which cluster is asked, and how it is told.
#[derive(Clone, Debug, Args)]
struct FromArgs {
    /// Context of the source. Without it, the current one.
    #[arg(long, visible_alias = "context", value_name = "CONTEXT", global = true)]
    source: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Namespace. Without it, all of them for targets, and that of the context for a pod.
    #[arg(short, long, value_name = "NAMESPACE", global = true)]
    namespace: Option<String>,

    /// How the answer is written.
    #[arg(short, long, value_enum, default_value_t, global = true)]
    output: Output,
}

impl FromArgs {
    async fn open(&self) -> Result<Cluster, Error> {
        let source = Cluster::open(
            Side::Source,
            self.kubeconfig.as_deref(),
            self.source.as_deref(),
        )
        .await?;
        preflight::identity(&source).await?;
        Ok(source)
    }
}

/// A target as its source sees it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    connected: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    reason: String,
    message: String,
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocatable: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<ResourceList>,
    pods: usize,
}

/// Tells of all targets, or of one pod; returns what is to be printed.
pub async fn status(args: StatusArgs) -> Result<String, Error> {
    match args.about {
        Some(About::Pod(pod)) => one(args.from, pod).await,
        None => all(args.from).await,
    }
}

/// Tells why a pod is where it is; returns what is to be printed.
pub async fn explain(args: ExplainCommand) -> Result<String, Error> {
    let About::Pod(pod) = args.about;
    one(args.from, pod).await
}

async fn all(from: FromArgs) -> Result<String, Error> {
    let source = from.open().await?;
    let targets = targets(&source, from.namespace.as_deref()).await?;
    let rows = try_join_all(targets.into_iter().map(|target| row(&source, target))).await?;
    written(from.output, &rows, || {
        if rows.is_empty() {
            return "there is no Target; \"pilotage connect\" makes one\n".to_owned();
        }
        let now = Timestamp::now();
        let cells: Vec<_> = rows.iter().map(|row| row.cells(now)).collect();
        let heading = [
            "NAMESPACE",
            "TARGET",
            "CONNECTED",
            "SINCE",
            "PODS",
            "FREE CPU",
            "FREE MEMORY",
            "WHY NOT",
        ];
        columns(heading, &cells)
    })
}

impl Row {
    fn cells(&self, now: Timestamp) -> [String; 8] {
        let room = |resource: &str| {
            let of = |list: &Option<ResourceList>| {
                let amount = list.as_ref().and_then(|list| list.get(resource));
                amount.map_or("?".to_owned(), |Quantity(amount)| one_line(amount))
            };
            format!("{} of {}", of(&self.free), of(&self.allocatable))
        };
        let why = if self.connected == "True" {
            String::new()
        } else {
            one_line(&format!("{}: {}", self.reason, self.message))
        };
        [
            self.namespace.clone().unwrap_or_else(|| "(all)".to_owned()),
            self.name.clone(),
            self.connected.clone(),
            self.since
                .map_or_else(|| "?".to_owned(), |since| age(since, now)),
            self.pods.to_string(),
            room("cpu"),
            room("memory"),
            why,
        ]
    }
}

/// What is read of a Target or a `ClusterTarget`.
struct Seen {
    namespace: Option<String>,
    name: String,
    status: TargetStatus,
}

async fn targets(source: &Cluster, namespace: Option<&str>) -> Result<Vec<Seen>, Error> {
    let list: Api<Target> = match namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(source.client.clone()),
    };
    let everywhere: Api<ClusterTarget> = Api::all(source.client.clone());
    let params = ListParams::default();
    let (here, everywhere) = tokio::join!(
        within(CALL_LIMIT, list.list(&params)),
        within(CALL_LIMIT, everywhere.list(&params))
    );
    let installed = |error: pilotage_runtime::call::CallError| {
        if error.kind() == Failure::NotFound {
            let (side, context) = (source.side, source.context.clone());
            return Error::NotInstalled {
                side,
                context,
                kind: "Target",
            };
        }
        source.failed("list Targets")(error)
    };
    let here = here.map_err(installed)?.into_iter().map(|it| Seen {
        namespace: it.namespace(),
        name: it.name_any(),
        status: it.status.unwrap_or_default(),
    });
    let everywhere = everywhere.map_err(installed)?.into_iter().map(|it| Seen {
        namespace: None,
        name: it.name_any(),
        status: it.status.unwrap_or_default(),
    });
    Ok(here.chain(everywhere).collect())
}

impl Seen {
    fn node(&self) -> String {
        let known = self.status.node.clone();
        known.unwrap_or_else(|| names::virtual_node(self.namespace.as_deref(), &self.name))
    }

    /// Whether it is connected, since when, and why.
    fn connected(&self) -> (String, Option<Timestamp>, String, String) {
        let conditions = &self.status.conditions;
        let Some(it) = conditions.iter().find(|it| it.type_ == types::CONNECTED) else {
            let why = "see whether \"pilotage controllers\" runs".to_owned();
            return ("Unknown".to_owned(), None, "NotTakenUp".to_owned(), why);
        };
        (
            it.status.clone(),
            Some(it.last_transition_time.0),
            it.reason.clone(),
            it.message.clone(),
        )
    }
}

async fn row(source: &Cluster, target: Seen) -> Result<Row, Error> {
    let node_name = target.node();
    let nodes: Api<Node> = Api::all(source.client.clone());
    let node = find(CALL_LIMIT, nodes.get(&node_name), "nodes", &node_name).await;
    let node = node.map_err(source.failed(format!("read node {node_name}")))?;
    let pods: Api<Pod> = Api::all(source.client.clone());
    let there = ListParams::default().fields(&format!("spec.nodeName={node_name}"));
    let pods = within(CALL_LIMIT, pods.list_metadata(&there)).await;
    let pods = pods.map_err(source.failed("list pods"))?.items.len();
    let free = node
        .as_ref()
        .and_then(|node| node.annotations().get(keys::FREE));
    let free = free.and_then(|json| serde_json::from_str(json).ok());
    let (connected, since, reason, message) = target.connected();
    Ok(Row {
        allocatable: node.and_then(|node| node.status?.allocatable),
        namespace: target.namespace,
        name: target.name,
        connected,
        since,
        reason,
        message,
        node: node_name,
        free,
        pods,
    })
}

async fn one(from: FromArgs, pod: ExplainArgs) -> Result<String, Error> {
    let source = from.open().await?;
    let (namespace, name) = match pod.pod.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (
            from.namespace
                .clone()
                .unwrap_or_else(|| source.namespace.clone()),
            pod.pod,
        ),
    };
    let pods: Api<Pod> = source.api(&namespace);
    let found = find(CALL_LIMIT, pods.get(&name), "pods", &name).await;
    let pod = found
        .map_err(source.failed(format!("read pod {name}")))?
        .ok_or_else(|| Error::Missing {
            what: format!(
                "pod {namespace}/{name} in the source (context {:?})",
                source.context
            ),
            instead: "give its namespace by -n, and its cluster by --source",
        })?;
    let events: Api<Event> = source.api(&namespace);
    let about = format!(
        "involvedObject.uid={}",
        pod.metadata.uid.as_deref().unwrap_or_default()
    );
    let events = within(
        CALL_LIMIT,
        events.list(&ListParams::default().fields(&about)),
    )
    .await;
    let events = events.map_err(source.failed("list events"))?.items;
    let places: Vec<Place> = targets(&source, Some(&namespace))
        .await?
        .iter()
        .map(place)
        .collect();
    let story = Story::of(&pod, &events, &places);
    written(from.output, &story, || story.table(Timestamp::now()))
}

fn place(target: &Seen) -> Place {
    let (connected, _, reason, message) = target.connected();
    Place {
        target: target.name.clone(),
        node: target.node(),
        lost: (connected != "True").then(|| format!("{reason}: {message}")),
    }
}
