//! All targets as the source's edges see them: who can be reached, and what happens to our chaperons there.
//!
//! Each target has its own task, so that a dead one delays nobody; what they tell meets in one queue. Nothing is decided
//! here.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, api::ListParams};
use pilotage_api::{
    self as api, PodChaperon, names,
    parent::{ClusterUid, selector_of_source},
};
use pilotage_clusters::{Event, Registry, Target, Watch, WatchConfig, WatchHealth};
use pilotage_proxy::{Reach, World, world::Change};
use pilotage_runtime::call::{CALL_LIMIT, CallError, within};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Live LIST: does any Target or `ClusterTarget` stand behind this virtual node?
///
/// A store without it proves nothing: it may be older than the target.
pub(crate) async fn has_target(client: &Client, node: &str) -> Result<bool, CallError> {
    let targets: Api<api::Target> = Api::all(client.clone());
    let cluster_targets: Api<api::ClusterTarget> = Api::all(client.clone());
    let all = ListParams::default();
    let named = within(CALL_LIMIT, targets.list_metadata(&all)).await?;
    let clusters = within(CALL_LIMIT, cluster_targets.list_metadata(&all)).await?;
    let is_it = |meta: &ObjectMeta| {
        let name = meta.name.as_deref().unwrap_or_default();
        names::virtual_node(meta.namespace.as_deref(), name) == node
    };
    Ok(named.items.iter().any(|target| is_it(&target.metadata))
        || clusters.items.iter().any(|target| is_it(&target.metadata)))
}

/// What happens in or to a target.
#[derive(Debug)]
pub(crate) enum FleetEvent {
    /// It can, or can't, be reached from now on.
    Reach {
        /// Its virtual node.
        node: String,
        /// Whether.
        reach: Reach,
    },
    /// Something happened to a chaperon of ours there.
    Chaperon {
        /// Its virtual node.
        node: String,
        /// What.
        event: Event<PodChaperon>,
    },
    /// Its Target or `ClusterTarget` is gone.
    Removed {
        /// Its virtual node.
        node: String,
    },
}

/// Takes what happened to a chaperon behind `node` into the store.
pub(crate) fn take_in(world: &mut World, node: &str, event: Event<PodChaperon>) -> Option<Change> {
    match event {
        Event::Applied(chaperon) => world.apply(node, chaperon),
        Event::Deleted(chaperon) => world.deleted(node, &chaperon),
        Event::Gone(chaperon) => world.vanished(node, &chaperon),
        Event::Synced => None,
    }
}

/// A target and our watch of its chaperons.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The target.
    pub(crate) target: Arc<Target>,
    /// Our chaperons there.
    pub(crate) chaperons: Watch<PodChaperon>,
}

/// The targets by their virtual nodes. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    members: Arc<RwLock<HashMap<String, Member>>>,
}

impl Fleet {
    /// One target, if it is known.
    pub(crate) fn member(&self, node: &str) -> Option<Member> {
        self.members
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(node)
            .cloned()
    }

    /// Follows the registry's targets and tells what happens there, until `shutdown`.
    pub(crate) async fn follow(
        self,
        registry: Registry,
        cluster: ClusterUid,
        tell: mpsc::UnboundedSender<FleetEvent>,
        shutdown: CancellationToken,
    ) {
        let selector = selector_of_source(&cluster);
        let (known, ending) = (registry.clone(), shutdown.clone());
        registry
            .for_each("chaperons", &shutdown, move |target, end| {
                let chaperons = target.watch(WatchConfig::all().labels(selector.clone()));
                let key = target.key().clone();
                let node = target.node().to_owned();
                let member = Member { target, chaperons };
                let (fleet, known, ending) = (self.clone(), known.clone(), ending.clone());
                let tell = tell.clone();
                async move {
                    fleet.clone().follow_one(member, tell.clone(), end).await;
                    // The end of this process is not the end of its targets.
                    if known.get(&key).is_none() && !ending.is_cancelled() {
                        fleet.forget(&node);
                        let _ = tell.send(FleetEvent::Removed { node });
                    }
                }
            })
            .await;
    }

    async fn follow_one(
        self,
        member: Member,
        tell: mpsc::UnboundedSender<FleetEvent>,
        end: CancellationToken,
    ) {
        let node = member.target.node().to_owned();
        self.members
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.clone(), member.clone());
        let mut events = member.chaperons.subscribe();
        let mut connection = member.target.state();
        let mut health = member.chaperons.health();
        let mut told = None;
        loop {
            // All that was listed is told before the target counts as reachable.
            while let Ok(event) = events.try_recv() {
                let _ = tell.send(FleetEvent::Chaperon {
                    node: node.clone(),
                    event,
                });
            }
            let connected = connection.borrow_and_update().is_connected();
            let live = *health.borrow_and_update() == WatchHealth::Live;
            let reach = if connected && live && member.chaperons.is_synced() {
                Reach::Reachable
            } else {
                Reach::Lost
            };
            if told != Some(reach) {
                told = Some(reach);
                tracing::info!(%node, ?reach, "target");
                let _ = tell.send(FleetEvent::Reach {
                    node: node.clone(),
                    reach,
                });
            }
            tokio::select! {
                biased;
                () = end.cancelled() => break,
                Some(event) = events.recv() => {
                    let _ = tell.send(FleetEvent::Chaperon { node: node.clone(), event });
                }
                Ok(()) = connection.changed() => {}
                Ok(()) = health.changed() => {}
            }
        }
    }

    fn forget(&self, node: &str) {
        self.members
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
    }
}
