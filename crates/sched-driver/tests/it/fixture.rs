//! A running driver, and what it told.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::PostParams;
use pilotage_runtime::rbac::{self, Account};
use pilotage_sched::{Failure, NodeName, PodInfo, PodUid, ProfileBuilder, plugins};
use pilotage_sched_driver::{
    Driver, DriverError, DriverHandle, DriverOptions, Observer, PodBinder, rbac as driver_rbac,
};
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::{ControlPlane, TestNamespace, apply, build, shared};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the driver told of one namespace, as lines such as `failed a Unschedulable: 0/2 nodes …`.
#[derive(Clone)]
pub(crate) struct Told {
    namespace: String,
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Sender<usize>,
}

impl Told {
    fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            lines: Arc::default(),
            count: watch::Sender::new(0),
        }
    }

    fn tell(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.count.send_modify(|count| *count += 1);
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }

    /// Waits until `count` lines start like this; returns the last of them.
    pub(crate) async fn wait(&self, start: &str, count: usize) -> String {
        let mut changes = self.count.subscribe();
        let enough = changes.wait_for(|_| self.count(start) >= count);
        if tokio::time::timeout(LIMIT, enough).await.is_err() {
            let lines = self.lines.lock().unwrap();
            panic!("{count} lines {start:?} never came; told: {lines:#?}");
        }
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .rfind(|line| line.starts_with(start))
            .unwrap()
            .clone()
    }
}

impl Observer for Told {
    fn pod_applied(&self, pod: &Arc<Pod>) {
        if pod.metadata.namespace.as_ref() == Some(&self.namespace) {
            self.tell(format!("seen {}", pod.metadata.name.as_deref().unwrap()));
        }
    }

    fn pod_deleted(&self, namespace: &str, name: &str, _uid: &str) {
        if namespace == self.namespace {
            self.tell(format!("gone {name}"));
        }
    }

    fn assumed(&self, pod: &Arc<PodInfo>, node: &NodeName, held: bool) {
        self.tell(format!("assumed {} on {node} held={held}", pod.key.name));
    }

    fn failed(&self, failure: &Failure) {
        let Failure {
            pod,
            cause,
            aftermath,
            ..
        } = failure;
        self.tell(format!("failed {} {aftermath:?}: {cause}", pod.key.name));
    }

    fn bound(&self, pod: &Arc<PodInfo>, node: &NodeName) {
        self.tell(format!("bound {} to {node}", pod.key.name));
    }
}

/// A running driver.
pub(crate) struct Running {
    pub(crate) handle: DriverHandle,
    pub(crate) told: Told,
    pub(crate) registry: Registry,
    pub(crate) user: String,
    token: CancellationToken,
    task: JoinHandle<Result<(), DriverError>>,
}

impl Running {
    /// Starts a driver for the profile that `build` makes of a stock one, called as its namespace, under a
    /// service account of its own. `adjust` may change the options.
    pub(crate) async fn start(
        plane: &ControlPlane,
        namespace: &str,
        build: impl FnOnce(ProfileBuilder) -> ProfileBuilder,
        adjust: impl FnOnce(&mut DriverOptions),
    ) -> Self {
        let client = account(plane, namespace).await;
        let binder = Arc::new(PodBinder::new(client.clone()));
        let profile = build(plugins::stock_profile(namespace, binder))
            .build()
            .unwrap();
        let told = Told::new(namespace);
        let mut options = DriverOptions::new(client, vec![profile], "test".to_owned());
        options.observer = Arc::new(told.clone());
        adjust(&mut options);
        let mut registry = Registry::default();
        let health = options.health.clone();
        let (driver, handle) = Driver::new(options, &mut registry).unwrap();
        let missing = health.missing();
        for kind in ["nodes listed", "pods listed"] {
            assert!(missing.iter().any(|gate| gate == kind), "{missing:?}");
        }
        let token = CancellationToken::new();
        let task = tokio::spawn(driver.run(token.clone()));
        tokio::time::timeout(LIMIT, health.ready())
            .await
            .expect("ready in time");
        let user = format!("system:serviceaccount:{namespace}:driver");
        Self {
            handle,
            told,
            registry,
            user,
            token,
            task,
        }
    }

    pub(crate) async fn stop(self) {
        self.token.cancel();
        tokio::time::timeout(LIMIT, self.task)
            .await
            .expect("ends in time")
            .unwrap()
            .unwrap();
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

/// Makes the service account with its generated role.
async fn account(plane: &ControlPlane, namespace: &str) -> Client {
    plane.service_account(namespace, "driver").await.unwrap();
    let account = Account {
        namespace,
        name: "driver",
    };
    let role = format!("driver-{namespace}");
    let rules = driver_rbac::RULES
        .iter()
        .chain(driver_rbac::STOCK_RULES)
        .chain(driver_rbac::PREEMPTION)
        .chain(pilotage_runtime::lease::RULES);
    let roles = rbac::render(&role, account, rules);
    apply::apply_values(&plane.admin(), roles, namespace)
        .await
        .unwrap();
    plane
        .service_account_client(namespace, "driver")
        .await
        .unwrap()
}

/// The plane of all tests that leave it whole. Nodes are told apart by the label `pool`.
pub(crate) async fn plane() -> Arc<ControlPlane> {
    shared::plane("driver", || {
        ControlPlane::builder("driver")
            .no_crds()
            .audit(pilotage_testkit::audit::Policy::All)
            .kwok(build::nodes("hundred", 10, |node| {
                node.cpu("4")
                    .memory("16Gi")
                    .pods(110)
                    .label("pool", "hundred")
            }))
    })
    .await
    .unwrap()
}

pub(crate) fn uid(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_ref().unwrap())
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// A pod for the driver of this namespace.
pub(crate) fn pod(namespace: &TestNamespace, name: &str, pool: &str) -> build::PodBuilder {
    build::pod(name)
        .scheduler(namespace.name())
        .node_selector("pool", pool)
}

pub(crate) async fn create(namespace: &TestNamespace, pod: build::PodBuilder) -> Pod {
    namespace
        .api::<Pod>()
        .create(&PostParams::default(), &pod.build())
        .await
        .unwrap()
}
