//! The feedback controller: brings delegates' statuses back to their proxies and cleans up after them.
//!
//! The edge of [`pilotage_proxy::feedback`]: it feeds watches to the state machine and sends what that asks for. One
//! task owns all state; requests run beside it, and their answers come back through the same queue, so that no decision
//! is made before the reply to one's own write is known.

mod act;
mod edge;
pub mod rbac;
mod told;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Registry, Watch};
use pilotage_proxy::Settings;
use pilotage_runtime::{lease::Leadership, ready::Gate};
use pilotage_sched_driver::publish::Recorder;
use tokio_util::sync::CancellationToken;

pub use told::run_told;

pub use crate::{proxies::watch_proxies, teller::Teller};

use crate::fleet::{Fleet, FleetMetrics};

/// What the controller works with.
pub struct Feedback {
    /// The source's own API server.
    pub client: Client,
    /// The source's identity.
    pub cluster: ClusterUid,
    /// Its targets.
    pub registry: Registry,
    /// Its proxy pods ([`watch_proxies`]).
    pub proxies: Watch<Pod>,
    /// Numbers.
    pub settings: Settings,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// What it counts.
    pub metrics: FleetMetrics,
    /// Takes events about pods.
    pub events: Recorder,
}

/// Runs the controller until `shutdown`; `ready` is released when the source's pods are known.
pub fn run(feedback: Feedback, shutdown: CancellationToken, ready: Gate) -> BoxFuture<'static, ()> {
    async move {
        let proxies = feedback.proxies.clone();
        let (client, cluster) = (feedback.client.clone(), feedback.cluster.clone());
        let (fleet, told) = Fleet::new(client, cluster, feedback.metrics.clone(), None);
        let (registry, follower) = (feedback.registry.clone(), fleet.clone());
        let following = follower.follow(registry, proxies.clone(), shutdown.clone());
        let edge = edge::Edge::new(Arc::new(feedback), fleet);
        let working = edge.run(proxies, told, shutdown, ready);
        futures::join!(following, working);
    }
    .boxed()
}

#[cfg(test)]
mod tests;
