//! The summary controller (target side): tells sources what this cluster offers.
//!
//! Nodes and pods are tallied as they change (`tally`); what follows is written at most once a period, and only
//! if it differs. One object, `singleton`, by server-side apply.

mod amounts;
#[cfg(test)]
mod fuzz;
pub mod rbac;
mod shapes;
mod tally;

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{ClusterSummary, GROUP, VERSION, keys};
use pilotage_clusters::{Event, Watch, WatchConfig};
use pilotage_runtime::args::parse_period;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::Gate;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use tally::{Facts, Tally};

/// Owner of the summary's fields.
const FIELD_MANAGER: &str = "pilotage-summary";
/// Pods that are on a node and take room there.
const BOUND_PODS: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
/// Pause after a failed write.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30)).spread(0.3);

/// How the cluster is summed up.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Cluster summary")]
pub struct SummaryArgs {
    /// Least time between two writes of the ClusterSummary. The first change after a quiet time is written at once.
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
pub async fn run(
    client: Client,
    cluster: ClusterUid,
    args: SummaryArgs,
    leadership: Leadership,
    ready: Gate,
    shutdown: CancellationToken,
) {
    let controller = Controller::new(&client, cluster, args, leadership, &shutdown);
    shutdown.run_until_cancelled(controller.run(ready)).await;
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
            written: None,
        }
    }

    async fn run(mut self, ready: Gate) {
        let (mut nodes, mut pods) = (self.nodes.subscribe(), self.pods.subscribe());
        let mut summaries = self.summaries.subscribe();
        tokio::join!(
            self.nodes.synced(),
            self.pods.synced(),
            self.summaries.synced()
        );
        ready.release();
        let mut failures = 0_u32;
        loop {
            self.take(&mut nodes, &mut pods);
            while summaries.try_recv().is_ok() {}
            self.leadership.acquired().await;
            let facts = self.tally.facts();
            if self.stands(&facts) {
                tokio::select! {
                    Some(event) = nodes.recv() => self.node(&event),
                    Some(event) = pods.recv() => self.pod(&event),
                    Some(_) = summaries.recv() => {}
                    else => return,
                }
                continue;
            }
            let pause = match self.write(facts).await {
                Ok(()) => {
                    failures = 0;
                    self.period
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to write the summary of this cluster");
                    failures = failures.saturating_add(1);
                    BACKOFF.delay(failures, dice())
                }
            };
            sleep(pause).await;
        }
    }

    /// Takes in all changes that are there.
    fn take(
        &mut self,
        nodes: &mut UnboundedReceiver<Event<Node>>,
        pods: &mut UnboundedReceiver<Event<Pod>>,
    ) {
        while let Ok(event) = nodes.try_recv() {
            self.node(&event);
        }
        while let Ok(event) = pods.try_recv() {
            self.pod(&event);
        }
    }

    fn node(&mut self, event: &Event<Node>) {
        match event {
            Event::Applied(node) => self.tally.node(node),
            Event::Deleted(node) | Event::Gone(node) => {
                self.tally
                    .no_node(node.metadata.name.as_deref().unwrap_or_default());
            }
            Event::Synced => {}
        }
    }

    fn pod(&mut self, event: &Event<Pod>) {
        match event {
            Event::Applied(pod) => self.tally.pod(pod),
            Event::Deleted(pod) | Event::Gone(pod) => {
                self.tally
                    .no_pod(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            Event::Synced => {}
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
mod tests {
    use pilotage_sched::PodInfo;

    use super::*;

    #[test]
    fn a_trimmed_pod_asks_for_the_same() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "p", "uid": "u" },
            "spec": {
                "nodeName": "n",
                "overhead": { "cpu": "10m" },
                "initContainers": [{
                    "name": "sidecar", "restartPolicy": "Always", "image": "i",
                    "resources": { "requests": { "cpu": "200m" } },
                }],
                "containers": [{
                    "name": "c", "image": "i", "env": [{ "name": "A", "value": "b" }],
                    "resources": { "requests": { "cpu": "1", "a.b/gpu": "2" } },
                }],
                "volumes": [{ "name": "v", "emptyDir": {} }],
            },
            "status": {
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                    "allocatedResources": { "cpu": "3" }, "resources": { "requests": { "cpu": "3" } },
                }],
            },
        }))
        .unwrap();
        let mut trimmed = pod.clone();
        trim_pod(&mut trimmed);
        assert!(trimmed.spec.as_ref().unwrap().volumes.is_none());
        let requests = |pod: Pod| PodInfo::parse(pod.into()).unwrap().requests;
        assert_eq!(requests(trimmed), requests(pod.clone()));
        assert_eq!(requests(pod).total.milli_cpu, 3210);
    }
}
