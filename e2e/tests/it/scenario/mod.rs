//! Scenarios on real control planes: one source, three targets, each part of Pilotage a process under its own role.
//!
//! All tests share one fleet and keep to a namespace of their own; what needs more starts its own clusters.

mod admission;
mod apart;
mod autoscaling;
mod bad_line;
mod budgets;
mod bursts;
mod by_hand;
mod capacity;
mod changes;
mod commands;
mod connect;
mod daemons;
mod dashboard;
mod demo;
mod evictions;
mod follow;
mod follow_held;
mod follow_scale;
mod follow_services;
mod half;
mod hundred_pods;
mod identity;
mod kubelet;
mod leave;
mod lifecycle;
mod live_targets;
mod lost;
mod migration;
mod namespaces;
mod narrow;
mod nowhere;
mod one_cluster;
mod outage;
mod parts;
mod placement;
mod plain;
mod quiet;
mod race;
mod refused_binding;
mod reported;
mod self_target;
mod skew;
mod specs;
mod streams;
mod together;
mod tokens;
mod too_many;
mod traces;
mod turns;
mod two_sources;
mod uninstall;
mod unreserved;
mod usage;
mod user;
mod what_if;
mod workloads;
mod wrong_clocks;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use pilotage_api::{PodChaperon, keys, names};
use pilotage_e2e::fleet::{Cluster, Fleet, Spec};
use pilotage_testkit::{
    LIMIT, TestNamespace, build, plane::audit::Policy, shared, wait_for, wait_gone,
};
use serde_json::Value;
use tokio::sync::Mutex;

/// The names of the shared targets.
const TARGETS: [&str; 3] = ["east", "north", "west"];

/// Two nodes of four cores.
fn small_nodes(prefix: &str) -> Vec<Node> {
    build::nodes(prefix, 2, |node| node.cpu("4").memory("16Gi").pods(110))
}

/// The fleet that all tests share; the process's end ends it.
async fn shared_fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    static KEPT: OnceLock<Arc<Fleet>> = OnceLock::new();
    let spec = || {
        let mut spec = Spec::new().source(|plane| plane.audit(Policy::Writes));
        for name in TARGETS {
            let nodes = build::nodes(name, 4, |node| node.cpu("4").memory("16Gi").pods(110));
            let plane = pilotage_testkit::ControlPlane::builder(name)
                .controller_manager()
                .kwok(nodes)
                .audit(Policy::Writes);
            spec = spec.target_plane(plane);
        }
        spec
    };
    let fleet = FLEET.fleet(spec).await;
    KEPT.get_or_init(|| fleet).clone()
}

/// A fleet with Pilotage in it.
async fn started(spec: Spec) -> Arc<Fleet> {
    let mut fleet = spec.start().await.unwrap();
    if let Err(error) = fleet.install().await {
        panic!("{error}\nlogs: {:#?}", fleet.logs());
    }
    Arc::new(fleet)
}

/// A fleet for some tests, which take turns or run beside each other: it ends when none of them uses it. A fleet that
/// nobody needs would cost all other tests time.
struct Lasting(Mutex<Weak<Fleet>>);

impl Lasting {
    const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The fleet, with Pilotage in it. It lives on a runtime that no test ends.
    async fn fleet(&self, spec: impl FnOnce() -> Spec) -> Arc<Fleet> {
        let mut known = self.0.lock().await;
        if let Some(fleet) = known.upgrade() {
            return fleet;
        }
        let starting = shared::runtime().unwrap().spawn(started(spec()));
        let fleet = starting.await.unwrap();
        *known = Arc::downgrade(&fleet);
        fleet
    }
}

/// Whether a virtual node has been told the label of its target's nodes.
fn is_told(node: &Node, label: &str, value: &str) -> bool {
    let told = node.annotations().get(keys::LABELS);
    let told: Value = told.map_or(Value::Null, |text| text.parse().unwrap());
    told[label] == value
}

/// A namespace of one name in some clusters, from which pods are delegated.
struct Shop {
    name: String,
    fleet: Arc<Fleet>,
    // They go when this value goes.
    _namespaces: Vec<TestNamespace>,
}

impl Shop {
    /// In all clusters of the shared fleet, connected.
    async fn open(prefix: &str) -> Self {
        Self::connected(shared_fleet().await, prefix).await
    }

    /// In all clusters of a fleet, connected.
    async fn connected(fleet: Arc<Fleet>, prefix: &str) -> Self {
        let shop = Self::unconnected(fleet, prefix).await;
        shop.fleet.connect(&shop.name).await.unwrap();
        shop
    }

    /// In all clusters of a fleet; no Target yet.
    async fn unconnected(fleet: Arc<Fleet>, prefix: &str) -> Self {
        let name = format!("{prefix}-{}", pilotage_testkit::unique());
        let clusters = fleet.all();
        let namespaces = clusters.map(|it| it.plane.named_namespace(&name, BTreeMap::new()));
        let namespaces = try_join_all(namespaces).await.unwrap();
        Self {
            name,
            fleet,
            _namespaces: namespaces,
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.fleet.source.plane.admin(), &self.name)
    }

    fn target(&self, name: &str) -> &Cluster {
        self.fleet.target(name).unwrap()
    }

    fn pods_in(&self, target: &str) -> Api<Pod> {
        Api::namespaced(self.target(target).plane.admin(), &self.name)
    }

    fn chaperons_in(&self, target: &str) -> Api<PodChaperon> {
        Api::namespaced(self.target(target).plane.admin(), &self.name)
    }

    /// The objects of a kind in a cluster: `source`, or a target.
    fn of<K>(&self, cluster: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let plane = match cluster {
            "source" => &self.fleet.source.plane,
            target => &self.target(target).plane,
        };
        Api::namespaced(plane.admin(), &self.name)
    }

    /// Applies an object in the namespace, in this cluster.
    async fn apply(&self, cluster: &str, mut object: Value) {
        object["metadata"]["namespace"] = self.name.as_str().into();
        let plane = match cluster {
            "source" => &self.fleet.source.plane,
            target => &self.target(target).plane,
        };
        plane.apply_yaml(&object.to_string()).await.unwrap();
    }

    /// What becomes of a wait, with the logs if it failed.
    fn seen<T, E: std::fmt::Display>(&self, waited: Result<T, E>) -> T {
        waited.unwrap_or_else(|error| panic!("{error}\nlogs: {:#?}", self.fleet.logs()))
    }

    fn virtual_node(&self, target: &str) -> String {
        names::virtual_node(Some(&self.name), target)
    }

    /// Creates a pod of the source.
    async fn create(&self, pod: &Pod) -> Pod {
        let pods = self.pods();
        Box::pin(pilotage_testkit::create(&pods, pod))
            .await
            .unwrap()
    }

    /// Waits until the proxy says Running.
    async fn running(&self, name: &str) -> Pod {
        match wait_for(&self.pods(), name, is_running, LIMIT).await {
            Ok(pod) => pod,
            Err(error) => panic!("{error}\nlogs: {:#?}", self.fleet.logs()),
        }
    }

    /// The delegate of a running proxy, with the target where it runs.
    async fn delegate(&self, proxy: &Pod) -> (&str, Pod) {
        let uid = proxy.metadata.uid.as_deref().unwrap();
        let selector = ListParams::default().labels(&format!("{}={uid}", keys::PARENT_UID));
        let mut found = Vec::new();
        for cluster in &self.fleet.targets {
            let pods = self.pods_in(cluster.name()).list(&selector).await.unwrap();
            found.extend(pods.items.into_iter().map(|pod| (cluster.name(), pod)));
        }
        found.retain(|(_, pod)| node_of(pod).is_some());
        assert_eq!(found.len(), 1, "one bound delegate, not {}", found.len());
        found.remove(0)
    }

    async fn delete(&self, name: &str) {
        self.pods()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        wait_gone(&self.pods(), name, LIMIT).await.unwrap();
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Running")
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|node| !node.is_empty())
}

/// Status, reason and message of the pod's `PodScheduled` condition.
pub(crate) fn scheduled(pod: &Pod) -> Option<(&str, &str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    Some((
        &condition.status,
        condition.reason.as_deref().unwrap_or_default(),
        condition.message.as_deref().unwrap_or_default(),
    ))
}

/// An ordinary elected pod that asks for this much CPU.
fn elected(name: &str, cpu: &str) -> Pod {
    build::pod(name).elect().request("cpu", cpu).build()
}
