//! The summary controller (target side): tells sources what this cluster offers.
//!
//! Nodes and pods are tallied as they change (`tally`); what follows is written at most once a period, which is longer
//! where there are many nodes, and only if it differs. One object, `singleton`, by server-side apply. A node or pod
//! that panics is left as it was known, and tried again.

mod amounts;
#[cfg(test)]
mod fuzz;
pub mod rbac;
mod shapes;
mod tally;

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{ClusterSummary, GROUP, VERSION, keys};
use pilotage_clusters::{Event, Feed, Watch, WatchConfig};
use pilotage_runtime::args::parse_period;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use pilotage_runtime::caught::{PAUSES, caught, caught_async};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::Gate;
use pilotage_runtime::retries::Retries;
use pilotage_sched_driver::outline;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use tally::{Facts, Tally};

/// Owner of the summary's fields.
const FIELD_MANAGER: &str = "pilotage-summary";
/// Pods that are on a node and take room there.
const BOUND_PODS: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
/// Of a pod with more containers the sum is kept.
const CONTAINERS: usize = 64;
/// Pause after a failed write.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30)).spread(0.3);

/// So many nodes make the period as long again, since as many more change in it and a sum takes as much longer.
const NODES: usize = 1000;
/// But no longer than this many times.
const LONGER: usize = 5;
/// What changes a sum too little for a write is summed up no sooner again than after this part of a period.
const SUMS: f64 = 0.1;

/// How the cluster is summed up.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Cluster summary")]
pub struct SummaryArgs {
    /// Least time between two writes of the ClusterSummary: five times as long with 5,000 nodes and more, and in
    /// proportion from 1,000. The first change after a quiet time is written at once.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_period)]
    pub summary_period: Duration,
}

impl Default for SummaryArgs {
    fn default() -> Self {
        Self {
            summary_period: Duration::from_secs(1),
        }
    }
}

/// Keeps the `ClusterSummary` of this cluster, until `shutdown`; `ready` is released when nodes and pods are known.
pub fn run(
    client: Client,
    cluster: ClusterUid,
    args: SummaryArgs,
    leadership: Leadership,
    ready: Gate,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    async move {
        let controller = Controller::new(&client, cluster, args, leadership, &shutdown);
        let running = Box::pin(controller.run(ready));
        shutdown.run_until_cancelled(running).await;
    }
    .boxed()
}

/// What the tally is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Piece {
    /// The node of that name.
    Node(String),
    /// A pod.
    Pod {
        namespace: String,
        name: String,
        uid: String,
    },
}

impl Piece {
    fn node(node: &Node) -> Self {
        Self::Node(node.metadata.name.clone().unwrap_or_default())
    }

    fn pod(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self::Pod {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

/// How a turn ended.
enum Turn {
    /// There was nothing to be done.
    Nothing,
    /// All was summed up, and what is written already tells it well enough.
    Summed,
    /// The summary was written.
    Written,
}

struct Controller {
    api: Api<ClusterSummary>,
    /// Who this cluster is.
    cluster: ClusterUid,
    period: Duration,
    leadership: Leadership,
    nodes: Watch<Node>,
    pods: Watch<Pod>,
    summaries: Watch<ClusterSummary>,
    tally: Tally,
    /// What followed from it last.
    facts: Facts,
    /// What panicked when it was taken in.
    retries: Retries<Piece>,
    /// What was written last, so that labels that aren't shared any more are taken off.
    written: Option<Facts>,
}

impl Controller {
    fn new(
        client: &Client,
        cluster: ClusterUid,
        args: SummaryArgs,
        leadership: Leadership,
        stop: &CancellationToken,
    ) -> Self {
        let own = format!("metadata.name={}", keys::CLUSTER_SUMMARY_NAME);
        let pods = WatchConfig::all().fields(BOUND_PODS).trim(trim_pod);
        let pods = pods.slim(outline::fold).heavy(outline::read);
        let nodes = WatchConfig::all().trim(trim_node);
        Self {
            api: Api::all(client.clone()),
            cluster,
            period: args.summary_period,
            leadership,
            nodes: Watch::of_client(client.clone(), nodes, stop),
            pods: Watch::of_client(client.clone(), pods, stop),
            summaries: Watch::of_client(client.clone(), WatchConfig::all().fields(own), stop),
            tally: Tally::default(),
            facts: Facts::default(),
            retries: Retries::new(PAUSES),
            written: None,
        }
    }

    async fn run(self, ready: Gate) {
        let (nodes, pods) = (self.nodes.subscribe(), self.pods.subscribe());
        tokio::join!(
            self.nodes.synced(),
            self.pods.synced(),
            self.summaries.synced()
        );
        ready.release();
        self.follow(nodes, pods).await;
    }

    async fn follow(mut self, mut nodes: Feed<Node>, mut pods: Feed<Pod>) {
        let mut summaries = self.summaries.changes();
        let mut failures = 0_u32;
        loop {
            let leadership = self.leadership.clone();
            let leads = leadership.acquired();
            self.take_until(leads, &mut nodes, &mut pods).await;
            self.again();
            let ended = caught_async(self.turn()).await;
            failures = match &ended {
                Ok(Ok(_)) => 0,
                _ => failures.saturating_add(1),
            };
            let pause = match ended {
                Ok(Ok(Turn::Written)) => self.pause(),
                Ok(Ok(Turn::Summed)) => self.period.mul_f64(SUMS),
                Ok(Ok(Turn::Nothing)) => {
                    let next = self.retries.next();
                    tokio::select! {
                        Some(event) = nodes.recv() => self.node(&event),
                        Some(event) = pods.recv() => self.pod(&event),
                        Ok(()) = summaries.changed() => {}
                        () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                        else => return,
                    }
                    continue;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to write the summary of this cluster");
                    BACKOFF.delay(failures, dice())
                }
                Err(panic) => {
                    tracing::error!(panic, "the summary of this cluster panicked");
                    PAUSES.delay(failures, dice())
                }
            };
            self.take_until(sleep(pause), &mut nodes, &mut pods).await;
        }
    }

    /// Writes what isn't written yet.
    async fn turn(&mut self) -> Result<Turn, CallError> {
        let has_changed = self.tally.has_changed();
        if has_changed {
            self.facts = self.tally.facts();
            self.tally.told();
        }
        if !self.stands(&self.facts) {
            self.write(self.facts.clone()).await?;
            return Ok(Turn::Written);
        }
        Ok(if has_changed {
            Turn::Summed
        } else {
            Turn::Nothing
        })
    }

    /// How long nothing is written after a write.
    fn pause(&self) -> Duration {
        let longer = self.tally.nodes().clamp(NODES, NODES * LONGER);
        // Both are small numbers.
        self.period.mul_f64(longer as f64 / NODES as f64)
    }

    /// Takes in all changes until then, and all that are there then: who doesn't lead, or pauses, leaves none in a
    /// queue.
    async fn take_until(
        &mut self,
        then: impl Future<Output = ()>,
        nodes: &mut Feed<Node>,
        pods: &mut Feed<Pod>,
    ) {
        let mut then = pin!(then);
        loop {
            tokio::select! {
                Some(event) = nodes.recv() => self.node(&event),
                Some(event) = pods.recv() => self.pod(&event),
                () = &mut then => break,
            }
        }
        while let Ok(event) = nodes.try_recv() {
            self.node(&event);
        }
        while let Ok(event) = pods.try_recv() {
            self.pod(&event);
        }
    }

    fn node(&mut self, event: &Event<Node>) {
        match event {
            Event::Applied(node) => self.step(Piece::node(node), |tally| tally.node(node)),
            Event::Deleted(node) | Event::Gone(node) => {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                self.step(Piece::node(node), |tally| tally.no_node(name));
            }
            Event::Synced => {}
        }
    }

    fn pod(&mut self, event: &Event<Pod>) {
        match event {
            Event::Applied(pod) => self.step(Piece::pod(pod), |tally| tally.pod(pod)),
            Event::Deleted(pod) | Event::Gone(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.step(Piece::pod(pod), |tally| tally.no_pod(uid));
            }
            Event::Synced => {}
        }
    }

    /// Takes one piece in.
    fn step(&mut self, piece: Piece, take: impl FnOnce(&mut Tally)) {
        match caught(|| take(&mut self.tally)) {
            Ok(()) => self.retries.succeeded(&piece),
            Err(panic) => {
                tracing::error!(?piece, panic, "to sum an object up panicked");
                self.retries.failed(piece, Instant::now());
            }
        }
    }

    /// Takes those in again whose time has come, as they are now.
    fn again(&mut self) {
        for piece in self.retries.due(Instant::now()) {
            match &piece {
                Piece::Node(name) => {
                    let node = self.nodes.get(None, name);
                    self.step(piece.clone(), |tally| match &node {
                        Some(node) => tally.node(node),
                        None => tally.no_node(name),
                    });
                }
                Piece::Pod {
                    namespace,
                    name,
                    uid,
                } => {
                    let pod = self.pods.get(Some(namespace), name);
                    let pod = pod.filter(|pod| pod.metadata.uid.as_ref() == Some(uid));
                    self.step(piece.clone(), |tally| match &pod {
                        Some(pod) => tally.pod(pod),
                        None => tally.no_pod(uid),
                    });
                }
            }
        }
    }

    /// Whether the object says this already.
    fn stands(&self, facts: &Facts) -> bool {
        let Some(summary) = self.summaries.get(None, keys::CLUSTER_SUMMARY_NAME) else {
            return false;
        };
        let labels = summary.metadata.labels.clone().unwrap_or_default();
        let annotations = summary.metadata.annotations.as_ref();
        let zones = annotations.and_then(|annotations| annotations.get(keys::ZONES));
        let Some(written) = &self.written else {
            return false;
        };
        facts.is_told_by(written)
            && summary.free.as_ref() == Some(&written.free.list())
            && summary.cluster_uid.as_ref() == Some(&self.cluster)
            && zones.map_or("", |zones| &**zones) == facts.zones
            && summary.capacity.as_ref() == Some(&facts.capacity)
            && summary.allocatable.as_ref() == Some(&facts.allocatable)
            && summary.free_shapes.as_ref() == Some(&facts.free_shapes)
            && facts
                .labels
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    }

    async fn write(&mut self, facts: Facts) -> Result<(), CallError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let value = Patch::Apply(render(&self.cluster, &facts));
        let call = self.api.patch(keys::CLUSTER_SUMMARY_NAME, &params, &value);
        let summary = call::within(CALL_LIMIT, call).await?;
        // Without this the watch's older version would look like somebody's change.
        self.summaries.fold(summary);
        self.written = Some(facts);
        Ok(())
    }
}

fn render(cluster: &ClusterUid, facts: &Facts) -> Value {
    let Facts {
        labels,
        zones,
        capacity,
        allocatable,
        free,
        free_shapes,
    } = facts;
    let mut metadata = json!({ "name": keys::CLUSTER_SUMMARY_NAME, "labels": labels });
    if !zones.is_empty() {
        metadata["annotations"] = json!({ keys::ZONES: zones });
    }
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterSummary",
        "metadata": metadata,
        "clusterUid": cluster,
        "capacity": capacity,
        "allocatable": allocatable,
        "free": free.list(),
        "freeShapes": free_shapes,
    })
}

/// Leaves of a pod only what its requests are made of.
fn trim_pod(pod: &mut Pod) {
    let bare = |container: &mut Container| {
        *container = Container {
            name: std::mem::take(&mut container.name),
            resources: container.resources.take(),
            restart_policy: container.restart_policy.take(),
            ..Container::default()
        };
    };
    pod.metadata.annotations = None;
    pod.metadata.labels = None;
    if let Some(spec) = &mut pod.spec {
        spec.containers.iter_mut().for_each(bare);
        spec.init_containers.iter_mut().flatten().for_each(bare);
        spec.volumes = None;
        spec.affinity = None;
        spec.topology_spread_constraints = None;
        spec.tolerations = None;
        let inits = spec.init_containers.as_ref().map_or(0, Vec::len);
        if spec.containers.len().saturating_add(inits) > CONTAINERS {
            outline::fold(pod);
        }
    }
}

/// Leaves the images out, which are most of a node.
fn trim_node(node: &mut Node) {
    node.metadata.annotations = None;
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}

#[cfg(test)]
mod tests;
