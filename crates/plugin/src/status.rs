//! `status` and `explain`: reads what a source shows of its targets and of one pod. It writes nothing.

mod watch;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_api::summary::ResourceList;
use pilotage_runtime::call::{CALL_LIMIT, find};
use pilotage_runtime::pages;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::explain::{ExplainArgs, Place, Story};
use crate::program::program;
use crate::table::{age, columns, one_line};
use crate::targets::{Seen, Targets, allowed, running_at, targets};
use crate::{Output, Side, preflight, progress, tokens, written};

/// Flags of `status` and `explain`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Go on, and print each target again whenever something of it changes.
    #[arg(short, long)]
    watch: bool,

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
pub(crate) struct FromArgs {
    /// Context of the source. Without it, the current one.
    #[arg(long, visible_alias = "context", value_name = "CONTEXT", global = true)]
    source: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Namespace. Without it, all of them for targets, and that of the context for a pod.
    #[arg(short, long, value_name = "NAMESPACE", global = true)]
    pub(crate) namespace: Option<String>,

    /// How the answer is written.
    #[arg(short, long, value_enum, default_value_t, global = true)]
    pub(crate) output: Output,
}

impl FromArgs {
    pub(crate) async fn open(&self) -> Result<Cluster, Error> {
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

/// What may not be known.
const UNKNOWN: &str = "?";

/// A target as its source sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Whether no new pod goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained: Option<bool>,
    /// Version of Pilotage in the source that looks after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocatable: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
}

/// Tells of all targets, or of one pod; returns what is to be printed.
pub(crate) async fn status(args: StatusArgs) -> Result<String, Error> {
    match args.about {
        Some(About::Pod(_)) if args.watch => Err(Error::NotNow {
            what: "only targets are watched".to_owned(),
            instead: "leave --watch away, or take \"kubectl get pod --watch\"".to_owned(),
        }),
        Some(About::Pod(pod)) => one(args.from, pod).await,
        None if args.watch => watch::all(args.from).await,
        None => all(args.from).await,
    }
}

/// Tells why a pod is where it is; returns what is to be printed.
pub(crate) async fn explain(args: ExplainCommand) -> Result<String, Error> {
    let About::Pod(pod) = args.about;
    one(args.from, pod).await
}

async fn all(from: FromArgs) -> Result<String, Error> {
    let source = from.open().await?;
    let Targets { all, mut notes } = targets(&source, from.namespace.as_deref()).await?;
    let now = Timestamp::now();
    notes.extend(tokens::ending(&source, &all, now).await);
    let rows = rows_of(&source, all).await?;
    for note in notes {
        progress(&format!("warning: {note}"));
    }
    written(from.output, &rows, || {
        if rows.is_empty() {
            return format!("there is no Target; \"{} connect\" makes one\n", program());
        }
        table(&rows, from.output, now)
    })
}

/// All rows, and what is missing in them.
async fn rows(source: &Cluster, namespace: Option<&str>) -> Result<(Vec<Row>, Vec<String>), Error> {
    let Targets { all, notes } = targets(source, namespace).await?;
    Ok((rows_of(source, all).await?, notes))
}

async fn rows_of(source: &Cluster, targets: Vec<Seen>) -> Result<Vec<Row>, Error> {
    try_join_all(targets.into_iter().map(|target| row(source, target))).await
}

/// The rows for people; a wide one has everything.
fn table(rows: &[Row], output: Output, now: Timestamp) -> String {
    let mut heading = vec![
        "NAMESPACE",
        "TARGET",
        "CONNECTED",
        "SINCE",
        "PODS",
        "FREE CPU",
        "FREE MEMORY",
    ];
    let wide = output == Output::Wide;
    if wide {
        heading.extend(["NEW PODS", "NODE", "PILOTAGE"]);
    }
    heading.push("WHY NOT");
    let cells: Vec<_> = rows.iter().map(|row| row.cells(wide, now)).collect();
    columns(&heading, &cells)
}

impl Row {
    fn cells(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let room = |resource: &str| {
            let of = |list: &Option<ResourceList>| {
                let amount = list.as_ref().and_then(|list| list.get(resource));
                amount.map_or(UNKNOWN.to_owned(), |Quantity(amount)| one_line(amount))
            };
            format!("{} of {}", of(&self.free), of(&self.allocatable))
        };
        let or_unknown = |known: Option<String>| known.unwrap_or_else(|| UNKNOWN.to_owned());
        let mut cells = vec![
            self.namespace.clone().unwrap_or_else(|| "(all)".to_owned()),
            self.name.clone(),
            self.connected.clone(),
            or_unknown(self.since.map(|since| age(since, now))),
            or_unknown(self.pods.map(|pods| pods.to_string())),
            room("cpu"),
            room("memory"),
        ];
        if wide {
            let version = or_unknown(self.version.clone());
            cells.extend([self.schedulable(), self.node.clone(), version]);
        }
        cells.push(self.why());
        cells
    }

    fn why(&self) -> String {
        if self.connected == "True" {
            return String::new();
        }
        one_line(&format!("{}: {}", self.reason, self.message))
    }

    /// Whether new pods go there.
    fn schedulable(&self) -> String {
        match self.drained {
            Some(true) => "no (drained)",
            Some(false) => "yes",
            None => UNKNOWN,
        }
        .to_owned()
    }
}

async fn row(source: &Cluster, target: Seen) -> Result<Row, Error> {
    let node_name = target.node();
    // Nodes are everybody's: who sees only his namespace is told what stands there.
    let nodes: Api<Node> = Api::all(source.client.clone());
    let node = allowed(find(CALL_LIMIT, nodes.get(&node_name), "nodes", &node_name).await);
    let node = node.map_err(source.unread(format!("read node {node_name}")))?;
    let node = node.flatten();
    // Pods of a Target are in its namespace.
    let pods: Api<Pod> = match &target.namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(source.client.clone()),
    };
    let there = running_at(&node_name);
    let pods = allowed(pages::count(CALL_LIMIT, &pods, there).await);
    let pods = pods.map_err(source.unread("list pods"))?;
    let free = node
        .as_ref()
        .and_then(|node| node.annotations().get(keys::FREE));
    let free = free.and_then(|json| serde_json::from_str(json).ok());
    let spec = node.as_ref().map(|node| node.spec.as_ref());
    let drained = spec.map(|spec| spec.and_then(|it| it.unschedulable) == Some(true));
    let status = node.and_then(|node| node.status);
    let info = status.as_ref().and_then(|it| it.node_info.as_ref());
    let version = info.and_then(|it| it.kubelet_version.split_once("-pilotage-"));
    let version = version.map(|(_, version)| version.to_owned());
    let (connected, since, reason, message) = target.connected();
    Ok(Row {
        allocatable: status.and_then(|it| it.allocatable),
        namespace: target.namespace,
        name: target.name,
        connected,
        since,
        reason,
        message,
        node: node_name,
        drained,
        version,
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
        .map_err(source.unread(format!("read pod {name}")))?
        .ok_or_else(|| Error::Missing {
            what: format!(
                "pod {namespace}/{name} in the source (context {:?})",
                source.context
            ),
            instead: "give its namespace by -n, and its cluster by --source".to_owned(),
        })?;
    let events: Api<Event> = source.api(&namespace);
    let about = format!(
        "involvedObject.uid={}",
        pod.metadata.uid.as_deref().unwrap_or_default()
    );
    let about = ListParams::default().fields(&about);
    let events = pages::all(CALL_LIMIT, &events, about).await;
    let events = allowed(events).map_err(source.unread("list events"))?;
    let Targets { all, mut notes } = targets(&source, Some(&namespace)).await?;
    let complete = notes.is_empty();
    if events.is_none() {
        notes.push(format!(
            "you may not list events of namespace {namespace} in the source: what they tell is missing"
        ));
    }
    for note in notes {
        progress(&format!("warning: {note}"));
    }
    let events = events.unwrap_or_default();
    let places: Vec<Place> = all.iter().map(place).collect();
    let story = Story::of(&pod, &events, &places, complete);
    written(from.output, &story, || story.table(Timestamp::now()))
}

pub(crate) fn place(target: &Seen) -> Place {
    let (connected, _, reason, message) = target.connected();
    Place {
        target: target.name.clone(),
        node: target.node(),
        lost: (connected != "True").then(|| format!("{reason}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_with_their_room_and_why_they_are_lost() {
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let list = |cpu: &str, memory: &str| -> ResourceList {
            let amount = |name: &str, amount: &str| (name.to_owned(), Quantity(amount.to_owned()));
            [amount("cpu", cpu), amount("memory", memory)].into()
        };
        let stands = Row {
            namespace: Some("shop".to_owned()),
            name: "paris".to_owned(),
            connected: "True".to_owned(),
            since: Some(at("2026-01-01T00:00:00Z")),
            reason: "Answering".to_owned(),
            message: "the API server of the target answers".to_owned(),
            node: "admiralty-shop-paris".to_owned(),
            drained: Some(true),
            version: Some("0.1.0".to_owned()),
            allocatable: Some(list("8", "16Gi")),
            free: Some(list("7500m", "12Gi")),
            pods: Some(2),
        };
        let lost = Row {
            namespace: None,
            name: "rome".to_owned(),
            connected: "False".to_owned(),
            since: Some(at("2026-01-01T00:08:00Z")),
            reason: "Unauthorized".to_owned(),
            message: "the API server refuses our credentials".to_owned(),
            node: "admiralty-rome".to_owned(),
            drained: None,
            version: None,
            allocatable: None,
            free: None,
            pods: None,
        };
        let (rows, now) = ([stands, lost], at("2026-01-01T00:10:00Z"));
        let narrow = "\
NAMESPACE   TARGET   CONNECTED   SINCE   PODS   FREE CPU     FREE MEMORY    WHY NOT
shop        paris    True        10m     2      7500m of 8   12Gi of 16Gi
(all)       rome     False       2m      ?      ? of ?       ? of ?         Unauthorized: the API server refuses our \
credentials
";
        assert_eq!(table(&rows, Output::Table, now), narrow);
        let wide = "\
NAMESPACE   TARGET   CONNECTED   SINCE   PODS   FREE CPU     FREE MEMORY    NEW PODS       NODE                   \
PILOTAGE   WHY NOT
shop        paris    True        10m     2      7500m of 8   12Gi of 16Gi   no (drained)   admiralty-shop-paris   0.1.0
(all)       rome     False       2m      ?      ? of ?       ? of ?         ?              admiralty-rome         \
?          Unauthorized: the API server refuses our credentials
";
        assert_eq!(table(&rows, Output::Wide, now), wide);
    }
}
