//! Virtual nodes: Node object and lease heartbeat for each target, and the kubelet that their pods are asked for.
//!
//! ```text
//! run ── a keeper a target  ── observe → decide (pure) → act
//!     ├─ a heartbeat a node ── lease
//!     ├─ strays: pods on a virtual node that are nobody's proxies, as sight shows them
//!     ├─ orphans: nodes whose Target went without us
//!     └─ secrets: our finalizer on those that Targets use
//! kubelet ── logs and shells of the pods there, from their targets; if it is asked for
//! ```
//!
//! Only the leader writes. Labels, taints and annotations of others are never touched. A Target that was never among
//! the oldest of its namespace has no node, and what follows from a node begins with it.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod act;
pub mod args;
mod bells;
pub mod decide;
mod followed;
#[cfg(test)]
mod fuzz;
mod heartbeat;
mod huge_pages;
mod keeper;
mod kept;
pub mod kubelet;
pub mod rbac;
pub mod secrets;
mod sight;
pub mod strays;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{Right, keys};
use pilotage_clusters::{Lookup, Registry, TargetKey, Watch, WatchConfig};
use pilotage_runtime::caught::{caught, retried};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::Health;
use pilotage_runtime::throttle::Unthrottled;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use args::{KubeletArgs, NodeArgs};
pub use pilotage_model::virtual_node::KubeletEndpoint;

use crate::act::ActError;
use crate::bells::{Bell, Bells};
use crate::followed::Followed;
use crate::keeper::{Conflicts, Shared, Subject};
use crate::sight::Sight;

/// Pause between two live reads for a target that isn't known.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What virtual nodes are kept with.
pub struct VirtualNodes {
    /// The source's own API server.
    pub client: Client,
    /// The same, for Leases.
    pub leases: Unthrottled,
    /// The source's identity.
    pub cluster: ClusterUid,
    /// Its targets.
    pub registry: Registry,
    /// Numbers.
    pub args: NodeArgs,
    /// Where logs and shells of their pods are asked for, if this process answers ([`kubelet`]).
    pub kubelet: Option<KubeletEndpoint>,
    /// Rights by which objects follow pods into targets: a Target goes after them.
    pub follows: Vec<Right>,
    /// Whether this process may write.
    pub leadership: Leadership,
}

/// Keeps a virtual node for each target, until `shutdown`. What fails is tried again; nothing here ends the process.
pub fn run(with: VirtualNodes, health: &Health, shutdown: CancellationToken) -> BoxFuture<'_, ()> {
    async move {
        let VirtualNodes {
            client,
            leases: Unthrottled(leases),
            cluster,
            registry,
            args,
            kubelet,
            follows,
            leadership,
        } = with;
        let gate = health.gate("virtual nodes listed");
        let selector = format!("{}={}", keys::PROVIDER, keys::PROVIDER_VALUE);
        let nodes = Watch::of_client(
            client.clone(),
            WatchConfig::all().labels(selector),
            &shutdown,
        );
        let bells = Bells::new(nodes.clone());
        let reporter = Reporter {
            controller: "pilotage".into(),
            instance: None,
        };
        let recorder = Recorder::new(client.clone(), reporter);
        let shared = Shared {
            client: client.clone(),
            lookup: Lookup::new(client.clone()),
            records: Arc::default(),
            leadership: leadership.clone(),
            nodes: nodes.clone(),
            huge_pages: Arc::default(),
            conflicts: conflicts(recorder.clone()),
            cluster,
            kubelet: kubelet.map(Arc::new),
            followed: Followed {
                rights: follows.into(),
                registry: registry.clone(),
            },
        };
        let ringing = bells.clone().ring();
        let keepers = {
            let (shared, bells) = (shared.clone(), bells.clone());
            registry.for_each("virtual node", &shutdown, move |target, stop| {
                let bell = bells.of(target.node());
                keeper::run(shared.clone(), Subject::Target(target), bell, stop)
            })
        };
        let heartbeats = {
            let (shared, bells) = (shared.clone(), bells.clone());
            registry.for_each("heartbeat", &shutdown, move |target, stop| {
                let Shared {
                    leadership, nodes, ..
                } = shared.clone();
                let (leases, node) = (leases.clone(), target.node().to_owned());
                let bell = bells.of(&node);
                let beat = heartbeat::run(leases, leadership, nodes, node, args);
                async move {
                    let beating = async {
                        bell.is_there().await;
                        beat.await;
                    };
                    stop.run_until_cancelled(beating).await;
                }
            })
        };
        let strays = {
            let (client, leadership) = (client.clone(), leadership.clone());
            let (bells, sight) = (bells.clone(), Sight::new(client.clone(), &shutdown));
            registry.for_each("strays", &shutdown, move |target, stop| {
                let (client, leadership) = (client.clone(), leadership.clone());
                let recorder = recorder.clone();
                let (sight, bell) = (sight.clone(), bells.of(target.node()));
                async move {
                    let ending = async {
                        bell.is_there().await;
                        let look = sight.look(target.node());
                        strays::run(client, recorder, leadership, look).await;
                    };
                    stop.run_until_cancelled(Box::pin(ending)).await;
                }
            })
        };
        let secrets = secrets::run(client, leadership, registry.clone(), shutdown.clone());
        let orphans = orphans(shared, registry.clone(), bells, shutdown.clone());
        let synced = async {
            nodes.synced().await;
            registry.synced().await;
            gate.release();
            std::future::pending::<()>().await;
        };
        let background = async { tokio::join!(ringing, synced) };
        tokio::join!(
            keepers,
            heartbeats,
            strays,
            secrets,
            orphans,
            shutdown.run_until_cancelled(background)
        );
    }
    .boxed()
}

/// Empties and removes nodes of ours whose Target is gone although our finalizer should have kept it.
async fn orphans(shared: Shared, registry: Registry, bells: Bells, shutdown: CancellationToken) {
    let known = async {
        shared.nodes.synced().await;
        registry.synced().await;
    };
    if shutdown.run_until_cancelled(known).await.is_none() {
        return;
    }
    let tracker = TaskTracker::new();
    let running: Arc<Mutex<HashMap<String, CancellationToken>>> = Arc::default();
    let (mut nodes, mut targets) = (shared.nodes.changes(), registry.changes());
    loop {
        for (node, key) in nobodys(&shared.nodes, &registry) {
            let mut tasks = running.lock().unwrap_or_else(PoisonError::into_inner);
            if tasks.contains_key(&node) {
                continue;
            }
            tracing::warn!(
                node,
                "no Target is known for this virtual node; if there is none, the node goes"
            );
            let stop = shutdown.child_token();
            tasks.insert(node.clone(), stop.clone());
            let (shared, bell) = (shared.clone(), bells.of(&node));
            let running = running.clone();
            tracker.spawn(async move {
                let remove = || remove(shared.clone(), key.clone(), bell.clone(), stop.clone());
                let panicked =
                    |panic: &str| tracing::error!(node, panic, "to remove a node panicked");
                let removing = Box::pin(retried(remove, panicked));
                stop.run_until_cancelled(removing).await;
                running
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&node);
            });
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            // One look for all that has changed meanwhile.
            Ok(()) = nodes.changed() => {}
            Ok(()) = targets.changed() => {
                let tasks = running.lock().unwrap_or_else(PoisonError::into_inner);
                for target in registry.targets() {
                    // Somebody's again.
                    if let Some(stop) = tasks.get(target.node()) {
                        stop.cancel();
                    }
                }
            }
        }
    }
    tracker.close();
    tracker.wait().await;
}

/// Removes the node of a Target that doesn't exist.
async fn remove(shared: Shared, key: TargetKey, bell: Arc<Bell>, stop: CancellationToken) {
    // A store without the target may be older than the target.
    has_no_target(&shared.lookup, &key.node()).await;
    keeper::run(shared, Subject::Orphan(key), bell, stop).await;
}

/// Completes when a live read has found no Target behind a node.
async fn has_no_target(lookup: &Lookup, node: &str) {
    loop {
        match lookup.has_target(node).await {
            Ok(false) => return,
            // The registry's watch will bring it.
            Ok(true) => {}
            Err(error) => tracing::warn!(node, %error, "can't look for the Target of a node"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Virtual nodes that say whose they are, and whose Target doesn't exist.
fn nobodys(nodes: &Watch<Node>, registry: &Registry) -> Vec<(String, TargetKey)> {
    let unclaimed = nodes.list().into_iter().filter_map(|node| {
        caught(|| nobodys_key(&node, registry)).unwrap_or_else(|panic| {
            let name = node.metadata.name.as_deref();
            tracing::error!(name, panic, "to find whose a node is panicked");
            None
        })
    });
    unclaimed.collect()
}

fn nobodys_key(node: &Node, registry: &Registry) -> Option<(String, TargetKey)> {
    let name = node.metadata.name.clone()?;
    let labels = node.metadata.labels.as_ref()?;
    let key = match labels.get(keys::CLUSTER_TARGET_NAME) {
        Some(target) => TargetKey::cluster(target),
        None => TargetKey::namespaced(
            labels.get(keys::TARGET_NAMESPACE)?,
            labels.get(keys::TARGET_NAME)?,
        ),
    };
    // A node that only claims to be a virtual node of that target is left alone.
    (key.node() == name && registry.by_node(&name).is_none()).then_some((name, key))
}

/// Tells the author of a Target what only a person can mend.
fn conflicts(recorder: Recorder) -> Conflicts {
    Arc::new(move |target, error| {
        let (reason, action) = match error {
            ActError::Occupied(_) | ActError::Followed(_) => ("TargetInUse", "RemoveNode"),
            // Repeated events of one reason show the first one's note.
            ActError::Away { .. } => ("TargetUnreachable", "RemoveNode"),
            _ => ("VirtualNodeConflict", "CreateNode"),
        };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(error.to_string()),
            action: action.to_owned(),
            secondary: None,
        };
        let (recorder, reference) = (recorder.clone(), target.reference());
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!(%error, "failed to publish an event");
            }
        });
    })
}
