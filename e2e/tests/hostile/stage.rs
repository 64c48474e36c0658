//! The stage: one source, one healthy target, and for each test a namespace of somebody honest and one of a tenant.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::{Fleet, Spec, secret, target_object};
use pilotage_testkit::{HostileServer, TestNamespace, build, shared, wait_for, wait_gone};
use tokio::sync::OnceCell;

/// For everything that has to happen.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// The fleet that all tests share; the process's end ends it.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    let start = || async {
        let nodes = build::nodes("east", 2, |node| node.cpu("4").memory("16Gi").pods(110));
        let spec = Spec::new().target("east", nodes);
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
    pub(crate) async fn new(prefix: &str) -> Self {
        let fleet = fleet().await;
        let name = |who| format!("{prefix}-{who}-{}", pilotage_testkit::unique());
        let (honest, own) = (name("honest"), name("tenant"));
        let mut namespaces = Vec::new();
        for (cluster, namespace) in fleet.all().zip([&honest, &honest]) {
            let made = cluster.plane.named_namespace(namespace, BTreeMap::new());
            namespaces.push(made.await.unwrap());
        }
        let made = fleet.source.plane.named_namespace(&own, BTreeMap::new());
        namespaces.push(made.await.unwrap());
        fleet.connect(&honest).await.unwrap();
        fleet.elect(&own).await.unwrap();
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
        let tenant = self.tenant().await;
        let kubeconfig = server.kubeconfig();
        let secret = serde_json::from_value(secret(name, &self.own, &kubeconfig)).unwrap();
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(tenant.clone(), &self.own);
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
        let target = serde_json::from_value(target_object(name, &self.own)).unwrap();
        let targets: Api<Target> = Api::namespaced(tenant, &self.own);
        targets
            .create(&PostParams::default(), &target)
            .await
            .unwrap();
    }

    /// Waits until a condition of the tenant's Target has this status; its reason and message.
    pub(crate) async fn condition(&self, target: &str, type_: &str, status: &str) -> String {
        let targets: Api<Target> = Api::namespaced(self.admin(), &self.own);
        let told = |target: &Target| {
            let conditions = target.status.iter().flat_map(|status| &status.conditions);
            let mut found = conditions.filter(|c| c.type_ == type_ && c.status == status);
            found.next().map(|c| format!("{}: {}", c.reason, c.message))
        };
        let found = wait_for(&targets, target, |target| told(target).is_some(), LIMIT).await;
        match found {
            Ok(target) => told(&target).unwrap(),
            Err(error) => panic!("{error}\nlogs: {:#?}", self.fleet.logs()),
        }
    }

    /// A pod of the honest namespace runs and goes again, whatever else happens.
    pub(crate) async fn is_well(&self, name: &str) {
        let pods = self.pods(&self.honest);
        let pod = elected(name, "100m");
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let runs = |pod: &Pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        if let Err(error) = wait_for(&pods, name, runs, LIMIT).await {
            panic!("{error}\nlogs: {:#?}", self.fleet.logs());
        }
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        if let Err(error) = wait_gone(&pods, name, LIMIT).await {
            panic!("{error}\nlogs: {:#?}", self.fleet.logs());
        }
        tokio::select! {
            biased;
            error = self.fleet.ended() => panic!("a process ended: {error}"),
            () = std::future::ready(()) => {}
        }
    }
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
