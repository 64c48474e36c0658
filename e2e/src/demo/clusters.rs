//! The demo's three clusters: starting them with Pilotage in each, and connecting the source to the targets.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::{join_all, select_all};
use futures::{FutureExt, TryFutureExt};
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::{Target, keys, names};
use pilotage_testkit::build::nodes;
use pilotage_testkit::pilotage::{ADMIN_PORT, apply_output, binary};
use pilotage_testkit::{ControlPlane, PilotageProcess, wait_for, workspace_root};
use serde_json::json;

use super::error::Error;

/// Where the workloads run, in all clusters.
pub(super) const NAMESPACE: &str = "default";
/// Where Pilotage runs, and as whom.
const HOME: &str = "pilotage";
/// The service account in the targets that `source-of-target.yaml` names.
const SOURCE_ACCOUNT: &str = "source";
/// How long connecting may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// A cluster with Pilotage in it.
pub(super) struct Cluster {
    pub(super) plane: ControlPlane,
    pub(super) pilotage: Option<PilotageProcess>,
}

/// All clusters.
pub(super) struct Fleet {
    pub(super) source: Cluster,
    pub(super) targets: Vec<Cluster>,
}

/// Text of a manifest in `e2e/demo/`.
pub(super) fn manifest(name: &str) -> Result<String, Error> {
    let path = workspace_root().join("e2e/demo").join(name);
    fs::read_to_string(&path).map_err(|source| Error::Manifest { path, source })
}

impl Fleet {
    /// Starts the control planes: no nodes in the source, small ones and large ones in the targets.
    pub(super) async fn start() -> Result<Self, Error> {
        let plane = |name: &str, cpus: &str| {
            let builder = ControlPlane::builder(name).controller_manager();
            let builder = if cpus.is_empty() {
                builder
            } else {
                builder.kwok(nodes(name, 2, |node| node.cpu(cpus)))
            };
            builder.start()
        };
        let (source, small, large) = tokio::try_join!(
            plane("source", ""),
            plane("small", "4"),
            plane("large", "8")
        )?;
        let cluster = |plane| Cluster {
            plane,
            pilotage: None,
        };
        Ok(Self {
            source: cluster(source),
            targets: vec![cluster(small), cluster(large)],
        })
    }

    /// Starts Pilotage in each cluster, under no more rights than its generated roles give.
    pub(super) async fn install(&mut self) -> Result<(), Error> {
        let Self { source, targets } = self;
        let all = std::iter::once(source).chain(targets).map(Cluster::install);
        join_all(all).await.into_iter().collect()
    }

    /// Lets the source run pods in the targets, and tells it of them.
    pub(super) async fn connect(&self) -> Result<(), Error> {
        let label = json!({ "metadata": { "labels": { keys::NAMESPACE_LABEL: keys::NAMESPACE_LABEL_VALUE } } });
        let namespaces: Api<Namespace> = Api::all(self.source.plane.admin());
        namespaces
            .patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(label))
            .await
            .map_err(Error::request("can't label the namespace"))?;
        for target in &self.targets {
            let name = target.plane.name();
            target
                .plane
                .apply_yaml(&manifest("source-of-target.yaml")?)
                .await?;
            // Pilotage in the target makes it for the Source.
            let accounts: Api<ServiceAccount> = Api::namespaced(target.plane.admin(), NAMESPACE);
            wait_for(&accounts, SOURCE_ACCOUNT, |_| true, LIMIT)
                .await
                .map_err(Error::wait(&format!(
                    "{name} made no service account for its Source"
                )))?;
            let kubeconfig = target
                .plane
                .kubeconfig_for_service_account(NAMESPACE, SOURCE_ACCOUNT)
                .await?;
            let secret = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "stringData": { "config": kubeconfig },
            });
            self.source.plane.apply_yaml(&secret.to_string()).await?;
        }
        self.source
            .plane
            .apply_yaml(&manifest("targets.yaml")?)
            .await?;
        for target in &self.targets {
            self.source.connected(target.plane.name()).await?;
        }
        Ok(())
    }

    /// All clusters, the source first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.source).chain(&self.targets)
    }

    /// Log files and directories of everything that runs.
    pub(super) fn logs(&self) -> Vec<PathBuf> {
        self.all()
            .flat_map(|cluster| {
                let own = cluster
                    .pilotage
                    .as_ref()
                    .map(|pilotage| pilotage.log().to_owned());
                own.into_iter()
                    .chain([cluster.plane.directory().to_owned()])
            })
            .collect()
    }

    /// Completes when a Pilotage process ends, which none should.
    pub(super) async fn ended(&self) -> Error {
        let processes = self
            .all()
            .filter_map(|cluster| Some((cluster, cluster.pilotage.as_ref()?)));
        let ends: Vec<_> = processes
            .map(|(cluster, pilotage)| {
                async move {
                    pilotage.process().wait().await;
                    Error::Ended {
                        process: format!("pilotage of {}", cluster.plane.name()),
                        tail: pilotage.tail(),
                    }
                }
                .boxed()
            })
            .collect();
        if ends.is_empty() {
            return std::future::pending().await;
        }
        select_all(ends).await.0
    }

    /// Stops everything, Pilotage first.
    pub(super) async fn stop(self) {
        let Self { source, targets } = self;
        let clusters: Vec<Cluster> = std::iter::once(source).chain(targets).collect();
        join_all(clusters.into_iter().map(Cluster::stop)).await;
    }
}

impl Cluster {
    async fn install(&mut self) -> Result<(), Error> {
        let name = self.plane.name();
        self.plane
            .named_namespace(HOME, BTreeMap::new())
            .await?
            .keep();
        let pilotage = binary()?;
        let account = format!("{HOME}/{HOME}");
        apply_output(
            &self.plane,
            &pilotage,
            ["rbac", "--service-account", &account],
        )
        .await?;
        let kubeconfig = self
            .plane
            .kubeconfig_file_for_service_account(HOME, HOME)
            .await?;
        let process = PilotageProcess::builder(&format!("pilotage-{name}"))
            .binary(pilotage)
            .args(["all", "--log-format=text", "--cluster-name", name])
            .args(["--admin-addr", &format!("127.0.0.1:{ADMIN_PORT}")])
            .args(["--kubeconfig", &kubeconfig.display().to_string()])
            .start()
            .map_err(Error::from)
            .await?;
        self.pilotage = Some(process);
        Ok(())
    }

    /// Waits until a Target is connected and its virtual node is ready.
    async fn connected(&self, target: &str) -> Result<(), Error> {
        let targets: Api<Target> = Api::namespaced(self.plane.admin(), NAMESPACE);
        let is_connected = |target: &Target| {
            let conditions = target
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice());
            conditions.is_some_and(|all| {
                all.iter()
                    .any(|c| c.type_ == "Connected" && c.status == "True")
            })
        };
        wait_for(&targets, target, is_connected, LIMIT)
            .await
            .map_err(Error::wait(&format!(
                "the source is not connected to {target}"
            )))?;
        let nodes: Api<Node> = Api::all(self.plane.admin());
        let is_ready = |node: &Node| {
            let conditions = node
                .status
                .as_ref()
                .and_then(|status| status.conditions.as_ref());
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            conditions
                .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
                && !taints
                    .is_some_and(|all| all.iter().any(|taint| taint.key == keys::NOT_READY_TAINT))
        };
        wait_for(
            &nodes,
            &names::virtual_node(Some(NAMESPACE), target),
            is_ready,
            LIMIT,
        )
        .await
        .map(drop)
        .map_err(Error::wait(&format!(
            "the virtual node of {target} is not ready"
        )))
    }

    async fn stop(self) {
        if let Some(pilotage) = &self.pilotage {
            pilotage.stop(GRACE).await;
        }
        self.plane.stop().await;
    }
}
