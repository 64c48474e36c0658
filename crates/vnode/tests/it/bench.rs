//! A source with its controller manager, a target, and virtual nodes in between.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_api::{ClusterSummary, KubeconfigSecret, Target, TargetSpec};
use pilotage_clusters::{Options, ProbeOptions, Registry, cluster_uid};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::rbac::{self, Account, Rule};
use pilotage_runtime::ready::Health;
use pilotage_runtime::throttle::{LONGEST_WAIT, Rate, Throttle, Unthrottled};
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::{ControlPlane, apply, list_until, wait_for};
use pilotage_vnode::{NodeArgs, VirtualNodes};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Namespace of the Targets.
pub(crate) const HOME: &str = "default";

/// What a target lets its sources read.
const VIEWER: &[Rule] = &[
    Rule::cluster(
        &[pilotage_api::GROUP],
        &["clustersummaries"],
        &["get", "list", "watch"],
    ),
    Rule::cluster(&[pilotage_api::GROUP], &["podchaperons"], &["list"]),
];

pub(crate) struct Bench {
    pub(crate) source: ControlPlane,
    /// What holds back all requests but those for Leases.
    throttle: Throttle,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Bench {
    pub(crate) async fn start(name: &str) -> Self {
        pilotage_runtime::client::install_crypto_provider();
        let source = ControlPlane::builder(name)
            .controller_manager()
            .start()
            .await
            .unwrap();
        // None is held back until somebody takes that many turns.
        let (qps, burst) = (0.000_1, 10_000);
        let mut bench = Self {
            source,
            throttle: Throttle::new(Rate { qps, burst }, "--test"),
            stop: CancellationToken::new(),
            running: None,
        };
        bench.run().await;
        bench
    }

    /// Starts a process under the generated role; an earlier one must have been stopped.
    pub(crate) async fn run(&mut self) {
        let rules = pilotage_clusters::rbac::RULES
            .iter()
            .chain(pilotage_vnode::rbac::RULES)
            .chain(pilotage_clusters::identity::RULES);
        let unthrottled = account(&self.source, "virtual-nodes", rules).await;
        let client = self.throttle.client(unthrottled.clone());
        self.stop = CancellationToken::new();
        let options = Options {
            probe: ProbeOptions {
                period: Duration::from_millis(500),
                timeout: Duration::from_secs(1),
                failures: 2,
            },
            ..Options::new("test")
        };
        let registry = Registry::start(&client, options, &self.stop);
        let cluster = cluster_uid(&client).await.unwrap();
        let (health, stop) = (Health::new(), self.stop.clone());
        let args = NodeArgs {
            node_heartbeat_period: Duration::from_secs(1),
            ..NodeArgs::default()
        };
        self.running = Some(tokio::spawn(async move {
            let with = VirtualNodes {
                client,
                leases: Unthrottled(unthrottled),
                cluster,
                registry,
                args,
                kubelet: None,
                follows: Vec::new(),
                leadership: Leadership::always(),
            };
            pilotage_vnode::run(with, &health, stop).await;
        }));
    }

    /// Ends the process as SIGTERM would.
    pub(crate) async fn end(&mut self) {
        self.stop.cancel();
        let running = self.running.take().expect("runs");
        timeout(LIMIT, running)
            .await
            .expect("ends in time")
            .unwrap();
    }

    /// Takes all turns, so that no request which waits for one is sent any more.
    pub(crate) async fn exhaust(&self) {
        while timeout(LONGEST_WAIT, self.throttle.turn()).await.is_ok() {}
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.source.admin())
    }

    pub(crate) fn targets(&self) -> Api<Target> {
        Api::namespaced(self.source.admin(), HOME)
    }

    /// Waits until the node is as it should be.
    pub(crate) async fn node(&self, name: &str, want: impl Fn(&Node) -> bool) -> Node {
        wait_for(&self.nodes(), name, want, LIMIT).await.unwrap()
    }

    /// Connects a target by a kubeconfig that may read its summary.
    pub(crate) async fn connect(&self, name: &str, target: &ControlPlane) {
        self.connect_in(HOME, name, target).await;
    }

    /// The same, by a Target in this namespace.
    pub(crate) async fn connect_in(&self, namespace: &str, name: &str, target: &ControlPlane) {
        self.give_secret(namespace, name, target).await;
        let spec = TargetSpec {
            kubeconfig_secret: Some(KubeconfigSecret {
                name: name.into(),
                ..Default::default()
            }),
            excluded_labels_regexp: Some("^hidden=".into()),
            ..TargetSpec::default()
        };
        let targets: Api<Target> = Api::namespaced(self.source.admin(), namespace);
        targets
            .create(&PostParams::default(), &Target::new(name, spec))
            .await
            .unwrap();
    }

    /// Writes the Secret with a kubeconfig of `target`.
    pub(crate) async fn give_secret(&self, namespace: &str, name: &str, target: &ControlPlane) {
        account(target, "source", VIEWER).await;
        let kubeconfig = target
            .kubeconfig_for_service_account(HOME, "source")
            .await
            .unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": { "config": kubeconfig },
        });
        let secrets: Api<Secret> = Api::namespaced(self.source.admin(), namespace);
        let params = PatchParams::apply("test").force();
        secrets
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    /// Makes a Target whose secret nobody has written.
    pub(crate) async fn connect_nothing(&self, name: &str) {
        let spec = TargetSpec {
            kubeconfig_secret: Some(KubeconfigSecret {
                name: name.into(),
                ..Default::default()
            }),
            ..TargetSpec::default()
        };
        self.targets()
            .create(&PostParams::default(), &Target::new(name, spec))
            .await
            .unwrap();
    }

    /// Waits until the author of the Target `name` is told why it doesn't go yet.
    pub(crate) async fn is_told(&self, name: &str, reason: &str, why: &str) {
        let events: Api<Event> = Api::namespaced(self.source.admin(), HOME);
        let about = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|it| it.name.as_deref());
            event.reason.as_deref() == Some(reason)
                && regarding == Some(name)
                && event.note.as_deref().is_some_and(|note| note.contains(why))
        };
        let all = watcher::Config::default();
        let told = list_until(&events, all, |seen| seen.values().any(about), LIMIT);
        told.await.unwrap();
    }

    /// Makes a Target that is this very cluster.
    pub(crate) async fn connect_self(&self, name: &str) {
        let spec = TargetSpec {
            self_: Some(true),
            ..TargetSpec::default()
        };
        self.targets()
            .create(&PostParams::default(), &Target::new(name, spec))
            .await
            .unwrap();
    }
}

async fn account<'r>(
    plane: &ControlPlane,
    name: &str,
    rules: impl IntoIterator<Item = &'r Rule>,
) -> Client {
    plane.service_account(HOME, name).await.unwrap();
    let roles = rbac::render(
        "pilotage-controllers",
        Account {
            namespace: HOME,
            name,
        },
        rules,
    );
    apply::apply_values(&plane.admin(), roles, HOME)
        .await
        .unwrap();
    let client = plane.part_client(HOME, name, "controllers").await;
    client.unwrap()
}

/// Writes the target's summary, as its own controllers would.
pub(crate) async fn summarize(target: &ControlPlane, labels: Value, cpu: &str) {
    let summary = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "ClusterSummary",
        "metadata": { "name": "singleton", "labels": labels },
        "capacity": { "cpu": cpu, "memory": "64Gi", "pods": "110" },
        "allocatable": { "cpu": cpu, "memory": "60Gi", "pods": "110" },
        "freeShapes": [{ "nodes": 1, "free": { "cpu": cpu, "pods": "100" } }],
    });
    let api: Api<ClusterSummary> = Api::all(target.admin());
    let params = PatchParams::apply("test").force();
    api.patch("singleton", &params, &Patch::Apply(&summary))
        .await
        .unwrap();
}

pub(crate) fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Status and reason of the node's Ready condition.
pub(crate) fn ready(node: &Node) -> (&str, &str) {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .and_then(|conditions| {
            conditions
                .iter()
                .find(|condition| condition.type_ == "Ready")
        })
        .map_or(("", ""), |ready| {
            (&ready.status, ready.reason.as_deref().unwrap_or_default())
        })
}

pub(crate) fn allocatable<'a>(node: &'a Node, name: &str) -> &'a str {
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    allocatable
        .and_then(|list| list.get(name))
        .map_or("", |amount| &amount.0)
}

pub(crate) fn taints(node: &Node) -> Vec<&str> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .map(|taint| taint.key.as_str())
        .collect()
}
