//! The stage: one source, one healthy target, and for each test a namespace of somebody honest and one of a tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use pilotage_api::{Right, Target, conditions::types, keys};
use pilotage_e2e::fleet::{Fleet, Spec, secret, target_object};
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::plane::audit::Policy;
use pilotage_testkit::{HostileServer, TestNamespace, build, shared, wait_for};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::well;

/// Where Targets may lead: all servers of these tests are there.
pub(crate) const ALLOWED: &str = "127.0.0.1";
/// Who hasn't answered a question for so long isn't waited for alone. A busy machine is no reason to ask the next
/// target, too: honest namespaces have but one.
pub(crate) const SILENCE: Duration = Duration::from_secs(4);

/// The fleet that all tests share; the process's end ends it.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    let start = || async {
        let nodes = build::nodes("east", 2, |node| node.cpu("4").memory("16Gi").pods(110));
        let place = format!("--allow-targets-at={ALLOWED}");
        let silence = format!("--silence={}s", SILENCE.as_secs());
        let spec = Spec::new()
            .target("east", nodes)
            .source(|plane| plane.audit(lists_of_pods()))
            .rights(&[Right::FollowConfigMaps])
            .follow(&["configmaps"])
            .part_flag("controllers", &place)
            .part_flag("proxy-scheduler", &place)
            .part_flag("proxy-scheduler", &silence);
        let started = async {
            let mut fleet = spec.start().await.unwrap();
            fleet.install().await.unwrap();
            fleet
        };
        let runtime = shared::runtime().unwrap();
        runtime.spawn(started).await.unwrap()
    };
    FLEET.get_or_init(start).await
}

/// A namespace of somebody honest, whose pods may run in the healthy target; it is there until the clusters go.
async fn neighbours(fleet: &'static Fleet) -> &'static str {
    static NAMESPACE: OnceCell<String> = OnceCell::const_new();
    let open = || async {
        let name = format!("neighbours-{}", pilotage_testkit::unique());
        for cluster in fleet.all() {
            let made = cluster.plane.named_namespace(&name, BTreeMap::new());
            made.await.unwrap().keep();
        }
        fleet.connect(&name).await.unwrap();
        name
    };
    NAMESPACE.get_or_init(open).await
}

/// What the source's log has of its requests.
fn lists_of_pods() -> Policy {
    let pods = json!([{ "group": "", "resources": ["pods"] }]);
    Policy::Rules(json!([{ "level": "Metadata", "verbs": ["list"], "resources": pods }]))
}

/// Where one test plays.
pub(crate) struct Stage {
    pub(crate) fleet: &'static Fleet,
    /// Served by the healthy target.
    pub(crate) honest: String,
    /// The tenant's own, served by whatever the tenant names.
    pub(crate) own: String,
    _namespaces: Vec<TestNamespace>,
}

impl Stage {
    /// With an honest namespace of its own.
    pub(crate) async fn new(prefix: &str) -> Self {
        let fleet = fleet().await;
        let honest = format!("{prefix}-honest-{}", pilotage_testkit::unique());
        let clusters = fleet.all();
        let namespaces = clusters.map(|it| it.plane.named_namespace(&honest, BTreeMap::new()));
        let namespaces = try_join_all(namespaces).await.unwrap();
        fleet.connect(&honest).await.unwrap();
        Self::of(fleet, prefix, honest, namespaces, true).await
    }

    /// Beside an honest namespace that many tests share; the tenant's pods aren't delegated.
    pub(crate) async fn beside(prefix: &str) -> Self {
        let fleet = fleet().await;
        let honest = neighbours(fleet).await.to_owned();
        Self::of(fleet, prefix, honest, Vec::new(), false).await
    }

    async fn of(
        fleet: &'static Fleet,
        prefix: &str,
        honest: String,
        mut namespaces: Vec<TestNamespace>,
        elects: bool,
    ) -> Self {
        let own = format!("{prefix}-tenant-{}", pilotage_testkit::unique());
        let made = fleet.source.plane.named_namespace(&own, BTreeMap::new());
        namespaces.push(made.await.unwrap());
        if elects {
            fleet.elect(&own).await.unwrap();
        }
        Self {
            fleet,
            honest,
            own,
            _namespaces: namespaces,
        }
    }

    pub(crate) fn admin(&self) -> Client {
        self.fleet.source.plane.admin()
    }

    /// The tenant: `edit`, and Targets, in one namespace.
    pub(crate) async fn tenant(&self) -> Client {
        let plane = &self.fleet.source.plane;
        let access = plane.tenant(&self.own, "tenant").await.unwrap();
        access.client().unwrap()
    }

    /// The UID by which the source calls itself.
    pub(crate) async fn source_uid(&self) -> String {
        let namespaces: Api<Namespace> = Api::all(self.admin());
        let system = namespaces.get("kube-system").await.unwrap();
        system.metadata.uid.unwrap()
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.admin(), namespace)
    }

    /// The tenant has a Target that leads to `server`, by the tenant's own rights.
    pub(crate) async fn lead_to(&self, server: &HostileServer, name: &str) {
        name_target(self.tenant().await, &self.own, name, &server.kubeconfig()).await;
    }

    /// Waits until a condition of the tenant's Target has this status; its reason and message.
    pub(crate) async fn condition(&self, target: &str, type_: &str, status: &str) -> String {
        self.told(target, type_, status, |_| true).await
    }

    /// Waits until the tenant's Target is lost, with this in reason and message; all of these.
    pub(crate) async fn lost(&self, target: &str, reason: &str, words: &str) -> String {
        let reason = format!("{reason}: ");
        let fits = |told: &str| told.starts_with(&reason) && told.contains(words);
        self.told(target, types::CONNECTED, "False", fits).await
    }

    async fn told(
        &self,
        target: &str,
        type_: &str,
        status: &str,
        fits: impl Fn(&str) -> bool,
    ) -> String {
        let targets: Api<Target> = Api::namespaced(self.admin(), &self.own);
        let told = |target: &Target| {
            let conditions = target.status.iter().flat_map(|status| &status.conditions);
            let mut found = conditions.filter(|c| c.type_ == type_ && c.status == status);
            let told = found
                .next()
                .map(|c| format!("{}: {}", c.reason, c.message))?;
            fits(&told).then_some(told)
        };
        let found = wait_for(&targets, target, |target| told(target).is_some(), LIMIT).await;
        match found {
            Ok(target) => told(&target).unwrap(),
            Err(error) => panic!("{error}\nlogs: {:#?}", self.fleet.logs()),
        }
    }

    /// Pods of the honest namespace are bound in time, run once each and go again, whatever else happens, and nobody of
    /// ours has ended or isn't ready.
    pub(crate) async fn is_well(&self, name: &str) {
        if let Err(late) = well::in_time(self.fleet, &self.honest, name).await {
            panic!("{late}\nlogs: {:#?}", self.fleet.logs());
        }
        tokio::select! {
            biased;
            error = self.fleet.ended() => panic!("a process ended: {error}"),
            () = std::future::ready(()) => {}
        }
        for (command, process) in self.fleet.source.all_processes() {
            let (status, body) = process.admin_get("/readyz").await.unwrap();
            assert_eq!(status, 200, "{command} isn't ready: {body}");
        }
    }

    /// Waits until a pod runs.
    pub(crate) async fn runs(&self, namespace: &str, name: &str) -> Pod {
        match wait_for(&self.pods(namespace), name, is_running, LIMIT).await {
            Ok(pod) => pod,
            Err(error) => panic!("{error}\nlogs: {:#?}", self.fleet.logs()),
        }
    }

    /// See [`has_one_delegate`].
    pub(crate) async fn has_one_delegate(&self, proxy: &Pod) {
        has_one_delegate(self.fleet, proxy).await;
    }
}

/// A pod has exactly one delegate in the healthy target, on a real node.
pub(crate) async fn has_one_delegate(fleet: &Fleet, proxy: &Pod) {
    let (meta, east) = (&proxy.metadata, &fleet.targets[0]);
    let (namespace, uid) = (meta.namespace.as_deref(), meta.uid.as_deref());
    let delegates: Api<Pod> = Api::namespaced(east.plane.admin(), namespace.unwrap());
    let own = ListParams::default().labels(&format!("{}={}", keys::PARENT_UID, uid.unwrap()));
    let delegates = delegates.list(&own).await.unwrap().items;
    let nodes: Vec<_> = delegates.iter().map(node_of).collect();
    assert!(matches!(nodes[..], [Some(_)]), "{nodes:?}");
}

/// Somebody makes a Target in a namespace, with this text as its kubeconfig.
pub(crate) async fn name_target(client: Client, namespace: &str, name: &str, kubeconfig: &str) {
    let secret = serde_json::from_value(secret(name, namespace, kubeconfig)).unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let target = serde_json::from_value(target_object(name, namespace)).unwrap();
    let targets: Api<Target> = Api::namespaced(client, namespace);
    targets
        .create(&PostParams::default(), &target)
        .await
        .unwrap();
}

/// Where a pod is bound.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref();
    node.filter(|node| !node.is_empty())
}

/// Whether a pod runs.
pub(crate) fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// An ordinary elected pod that asks for this much CPU.
pub(crate) fn elected(name: &str, cpu: &str) -> Pod {
    build::pod(name).elect().request("cpu", cpu).build()
}

/// The record of a pod.
pub(crate) fn record(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(keys::GRANTED_TO).map(String::as_str)
}
