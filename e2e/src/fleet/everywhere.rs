//! A source that may run pods of every namespace in all targets: ClusterSource and ClusterTarget.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Api;
use pilotage_api::{ClusterTarget, names};
use pilotage_testkit::{LIMIT, wait_for};
use serde_json::json;

use super::cluster::{HOME, is_connected, is_usable};
use super::error::Error;
use super::{Cluster, Fleet, SOURCE_ACCOUNT, secret};

impl Fleet {
    /// Lets the source run pods of any namespace in all targets, tells it of them, and waits until they are connected
    /// and their virtual nodes ready. A namespace must be there in all clusters before its pods are created.
    pub async fn connect_everywhere(&self) -> Result<(), Error> {
        try_join_all(
            self.targets
                .iter()
                .map(|target| self.add_cluster_target(target)),
        )
        .await?;
        Ok(())
    }

    async fn add_cluster_target(&self, target: &Cluster) -> Result<(), Error> {
        let name = target.name();
        let version = format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION);
        let account = json!({ "name": SOURCE_ACCOUNT, "namespace": HOME });
        let mut source = json!({
            "apiVersion": version,
            "kind": "ClusterSource",
            "metadata": { "name": SOURCE_ACCOUNT },
            "spec": { "serviceAccount": account },
        });
        let rights = target.rights();
        if !rights.is_empty() {
            source["spec"]["rights"] = json!(rights);
        }
        target.plane.apply_yaml(&source.to_string()).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(target.plane.admin(), HOME);
        let failure = format!("{name} made no service account for its ClusterSource");
        wait_for(&accounts, SOURCE_ACCOUNT, |_| true, LIMIT)
            .await
            .map_err(Error::wait(&failure))?;
        let kubeconfig = target.account_kubeconfig(SOURCE_ACCOUNT, HOME).await?;
        let cluster_target = json!({
            "apiVersion": version,
            "kind": "ClusterTarget",
            "metadata": { "name": name },
            "spec": { "kubeconfigSecret": { "name": name, "namespace": HOME } },
        });
        for object in [secret(name, HOME, &kubeconfig), cluster_target] {
            self.source.plane.apply_yaml(&object.to_string()).await?;
        }
        self.usable(name).await
    }

    /// Waits until a ClusterTarget is connected and its virtual node ready.
    pub async fn usable(&self, target: &str) -> Result<(), Error> {
        let client = self.source.plane.admin();
        let targets: Api<ClusterTarget> = Api::all(client.clone());
        let connected = |target: &ClusterTarget| is_connected(target.status.as_ref());
        wait_for(&targets, target, connected, LIMIT)
            .await
            .map_err(Error::wait(&format!(
                "the source is not connected to {target}"
            )))?;
        let nodes: Api<Node> = Api::all(client);
        wait_for(&nodes, &names::virtual_node(None, target), is_usable, LIMIT)
            .await
            .map(drop)
            .map_err(Error::wait(&format!(
                "the virtual node of {target} is not ready"
            )))
    }
}
