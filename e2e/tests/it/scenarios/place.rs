//! The clusters that scenarios share, and a namespace in all of them for one scenario, which must be empty in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{PodChaperon, Target, names};
use pilotage_e2e::fleet::{Cluster, Fleet, Spec};
use pilotage_testkit::build::nodes;
use pilotage_testkit::{audit, list_until, shared, unique, wait_for};
use tokio::sync::OnceCell;

/// How long something may take that needs a few requests; far more than it needs on an idle machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The targets, by name. Each has four nodes with 8 CPUs, and Kubernetes' own scheduler beside ours.
pub(crate) const TARGETS: [&str; 3] = ["t1", "t2", "t3"];

/// A namespace in all clusters.
pub(crate) struct Place {
    pub(crate) fleet: &'static Fleet,
    pub(crate) namespace: String,
}

/// The clusters, started by the first scenario that asks. They end with the test process.
pub(crate) async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET
        .get_or_init(|| async {
            let start = async {
                let mut spec = Spec::new().source(|source| source.audit(audit::Policy::All));
                for name in TARGETS {
                    let plane = pilotage_testkit::ControlPlane::builder(name)
                        .controller_manager()
                        .scheduler()
                        .audit(audit::Policy::All)
                        .kwok(nodes(name, 4, |node| node.cpu("8")));
                    spec = spec.target_plane(plane);
                }
                let mut fleet = spec.start().await.unwrap();
                fleet.install().await.unwrap();
                fleet
            };
            // Not in the runtime of the test that happens to be first: it ends with that test.
            shared::runtime().unwrap().spawn(start).await.unwrap()
        })
        .await
}

impl Place {
    /// A namespace of its own, whose elected pods may run in these targets.
    pub(crate) async fn open(prefix: &str, targets: &[&str]) -> Self {
        let fleet = fleet().await;
        let namespace = format!("{prefix}-{}", unique());
        for cluster in fleet.all() {
            cluster
                .plane
                .named_namespace(&namespace, BTreeMap::new())
                .await
                .unwrap()
                .keep();
        }
        let place = Self { fleet, namespace };
        fleet.elect(&place.namespace).await.unwrap();
        for target in targets {
            place.add_target(target).await;
        }
        place
    }

    /// Tells the source of one more target.
    pub(crate) async fn add_target(&self, name: &str) {
        self.fleet
            .add_target(self.target(name), &self.namespace)
            .await
            .unwrap();
    }

    /// A target.
    pub(crate) fn target(&self, name: &str) -> &'static Cluster {
        self.fleet.target(name).unwrap()
    }

    /// Name of the virtual node of a target for this namespace.
    pub(crate) fn node(&self, target: &str) -> String {
        names::virtual_node(Some(&self.namespace), target)
    }

    /// Pods in the source.
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.fleet.source.plane.admin(), &self.namespace)
    }

    /// Pods in a target.
    pub(crate) fn delegates(&self, target: &str) -> Api<Pod> {
        Api::namespaced(self.target(target).plane.admin(), &self.namespace)
    }

    /// Chaperons in a target.
    pub(crate) fn chaperons(&self, target: &str) -> Api<PodChaperon> {
        Api::namespaced(self.target(target).plane.admin(), &self.namespace)
    }

    /// Creates a pod in the source.
    pub(crate) async fn create(&self, pod: &Pod) -> Pod {
        self.pods()
            .create(&PostParams::default(), pod)
            .await
            .unwrap()
    }

    /// Waits until a pod of the source runs, and returns it.
    pub(crate) async fn runs(&self, name: &str) -> Pod {
        wait_for(&self.pods(), name, is_running, LIMIT)
            .await
            .unwrap()
    }

    /// Deletes all pods and Targets, and waits until nothing is left of them anywhere.
    pub(crate) async fn close(self) {
        let delete = DeleteParams::default();
        let all = ListParams::default();
        self.pods().delete_collection(&delete, &all).await.unwrap();
        let everything = watcher::Config::default;
        list_until(&self.pods(), everything(), BTreeMap::is_empty, LIMIT)
            .await
            .unwrap();
        for target in TARGETS {
            let chaperons = self.chaperons(target);
            list_until(&chaperons, everything(), BTreeMap::is_empty, LIMIT)
                .await
                .unwrap();
            let delegates = self.delegates(target);
            list_until(&delegates, everything(), BTreeMap::is_empty, LIMIT)
                .await
                .unwrap();
        }
        let targets: Api<Target> =
            Api::namespaced(self.fleet.source.plane.admin(), &self.namespace);
        targets.delete_collection(&delete, &all).await.unwrap();
        list_until(&targets, everything(), BTreeMap::is_empty, LIMIT)
            .await
            .unwrap();
        for cluster in self.fleet.all() {
            let namespaces: Api<Namespace> = Api::all(cluster.plane.admin());
            namespaces.delete(&self.namespace, &delete).await.unwrap();
        }
    }
}

/// Its status says that it runs.
pub(crate) fn is_running(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Running")
}

/// The node that it is bound to.
pub(crate) fn node_of(pod: &Pod) -> String {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone())
        .unwrap_or_default()
}

/// Reason and message of its condition `PodScheduled` if that is false.
pub(crate) fn unscheduled(pod: &Pod) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some((condition.reason.clone()?, condition.message.clone()?))
}

/// UID of the pod in the source that an object of a target belongs to.
pub(crate) fn parent<K: kube::Resource>(object: &K) -> String {
    object
        .labels()
        .get(pilotage_api::keys::PARENT_UID)
        .cloned()
        .unwrap_or_default()
}
