//! The ask edge of the proxy scheduler: asks targets, records and grants choices, binds proxies.
//!
//! The edge of [`pilotage_proxy::decide()`]. One task owns all state; requests run beside it, several hundred pods at
//! once, and their answers come back through the same queue, so that no decision is made before the reply to one's own
//! write is known. The scheduling loop itself never waits: it meets the edge only through the board and the [`Port`].

mod act;
mod args;
mod changed;
mod edge;
mod expected;
mod metrics;
mod places;
mod port;
mod progress;
mod ranker;
pub mod rbac;
mod story;
mod told;
mod trace;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Event, Registry, Watch};
use pilotage_dashboard::Dashboard;
use pilotage_proxy::{Configuration, board::Board};
use pilotage_runtime::{lease::Leadership, otlp::Tracer, ready};
use pilotage_sched_driver::{DriverHandle, PodNews};
use tokio_util::sync::CancellationToken;

pub use crate::feedback::watch_proxies;
/// What a scheduler of proxies does to nodes before it looks at them.
pub use pilotage_model::virtual_node::tell_labels;

pub use args::AskArgs;
pub use metrics::AskMetrics;
pub use port::{Feed, Inbox, Port, connect};
pub use told::run_told;

pub use crate::teller::Teller;

use crate::fleet::{Fleet, FleetMetrics};
use crate::target::mistakes;

/// What the edge works with.
pub struct Ask {
    /// The source's own API server.
    pub client: Client,
    /// The source's identity.
    pub cluster: ClusterUid,
    /// The source's name, for people in targets.
    pub cluster_name: Option<String>,
    /// Its proxy pods.
    pub proxies: Watch<Pod>,
    /// Its targets.
    pub registry: Registry,
    /// What the scheduler's plugins read.
    pub board: Arc<Board>,
    /// The scheduling loop.
    pub scheduling: DriverHandle,
    /// What decides where pods go, and how targets are asked.
    pub configuration: Configuration,
    /// Where the tables of regions are that it names: the namespace of this process.
    pub namespace: String,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// What is counted of the targets' words.
    pub metrics: FleetMetrics,
    /// What it counts itself.
    pub counts: AskMetrics,
    /// Takes the spans of pods, if they are traced.
    pub tracer: Option<Tracer>,
    /// How many events a second may tell of stages on the ways of pods; 0 is none.
    pub stage_events: u16,
    /// Where it shows what it sees, if anybody may look.
    pub dashboard: Option<Dashboard>,
}

/// The same changes for the driver: it schedules proxies alone, and nobody else's pods take room on a virtual node.
pub fn news(proxies: &Watch<Pod>) -> BoxStream<'static, PodNews> {
    let events = stream::unfold(proxies.subscribe(), |mut events| async {
        Some((events.recv().await?, events))
    });
    let news = events.map(|event| match event {
        Event::Applied(pod) => PodNews::Applied(pod),
        Event::Deleted(pod) | Event::Gone(pod) => PodNews::Gone(pod),
        Event::Synced => PodNews::Listed,
    });
    news.boxed()
}

/// Runs the edge until `shutdown`; `ready` is released when the source's pods are known.
pub fn run(
    ask: Ask,
    inbox: Inbox,
    shutdown: CancellationToken,
    ready: ready::Gate,
) -> BoxFuture<'static, ()> {
    async move {
        let proxies = ask.proxies.clone();
        let watches = edge::Watches::of(&ask, &shutdown);
        let (client, cluster) = (ask.client.clone(), ask.cluster.clone());
        let readable = ask.configuration.readable();
        let (fleet, told) = Fleet::new(client, cluster, ask.metrics.clone(), Some(readable));
        let (registry, follower) = (ask.registry.clone(), fleet.clone());
        let events = ask.scheduling.recorder().clone();
        let telling = mistakes::tell(registry.mistakes(), events, ask.leadership.clone());
        let following = follower.follow(registry, proxies, shutdown.clone());
        let edge = edge::Edge::new(ask, fleet);
        let working = edge.run(watches, told, inbox, shutdown.clone(), ready);
        futures::join!(following, working, shutdown.run_until_cancelled(telling));
    }
    .boxed()
}

#[cfg(test)]
mod tests;
