//! The crowd: pods of the targets' own that fill every node, each of them as large as a pod of the stream that may
//! evict it. It is there only in cells of states that need an eviction. It knows nothing of what becomes of it.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_e2e::fleet::{Cluster, Error};
use pilotage_testkit::{build, wait_count};
use serde_json::json;

use crate::stage::{LIMIT, NODES, Stage};

/// Label of each of them.
pub(crate) const LABEL: &str = "crowd";
/// What each of them asks for, and each pod that evicts.
pub(crate) const CPU: &str = "2";
/// How many a node takes.
const PER_NODE: usize = 4;
/// The class of pods that evict.
pub(crate) const URGENT: &str = "urgent";
/// The crowd's own.
const COMMON: &str = "common";

/// Makes both classes known in a cluster; a pod's class has to be there in source and target.
pub(crate) async fn classes(cluster: &Cluster) -> Result<(), Error> {
    for (name, value) in [(COMMON, 10), (URGENT, 1_000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": name },
            "value": value,
        });
        cluster.plane.apply_yaml(&class.to_string()).await?;
    }
    Ok(())
}

/// Fills all targets.
pub(crate) async fn gather(stage: &Stage, namespace: &str) -> Result<(), Error> {
    try_join_all(stage.fleet().targets.iter().map(|target| async move {
        let pods: Api<Pod> = Api::namespaced(target.plane.admin(), namespace);
        for node in 0..NODES {
            for number in 0..PER_NODE {
                let pod = build::pod(&format!("crowd-{node}-{number}"))
                    .label(LABEL, "")
                    .request("cpu", CPU)
                    .priority_class(COMMON)
                    .node_name(&format!("{}-{node}", target.name()))
                    .grace(0)
                    .build();
                pods.create(&PostParams::default(), &pod)
                    .await
                    .map_err(Error::request("can't fill a target"))?;
            }
        }
        let count = NODES * PER_NODE;
        wait_count(&pods, watcher::Config::default(), count, is_running, LIMIT)
            .await
            .map(drop)
            .map_err(Error::wait("the crowd doesn't run"))
    }))
    .await
    .map(drop)
}

/// Empties all targets, for the next cell.
pub(crate) async fn disperse(stage: &Stage, namespace: &str) -> Result<(), Error> {
    try_join_all(stage.fleet().targets.iter().map(|target| async {
        let client: Client = target.plane.admin();
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let its = ListParams::default().labels(LABEL);
        pods.delete_collection(&DeleteParams::default(), &its)
            .await
            .map_err(Error::request("can't delete the crowd"))?;
        let its = watcher::Config::default().labels(LABEL);
        wait_count(&pods, its, 0, |_| true, LIMIT)
            .await
            .map(drop)
            .map_err(Error::wait("the crowd doesn't go"))
    }))
    .await
    .map(drop)
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}
