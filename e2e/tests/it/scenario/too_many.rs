//! More Targets in a namespace than are connected: the youngest have no virtual node and no metric series, until others
//! go and it is their turn.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use pilotage_api::conditions::types;
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::{Cluster, Side, lone, target_object};
use pilotage_testkit::{ControlPlane, wait_for};

use super::LIMIT;
use super::kubelet::until;

const HOME: &str = "default";
/// So many of a namespace are connected.
const SEATS: usize = 100;
/// So many are made.
const TARGETS: usize = SEATS + 3;

/// In the order of their making.
fn name(number: usize) -> String {
    format!("t{number:03}")
}

fn node(number: usize) -> String {
    format!("admiralty-{HOME}-{}", name(number))
}

/// Waits until a part serves series of this metric for these virtual nodes, and for no others.
async fn has_series(cluster: &Cluster, part: &str, metric: &str, nodes: &BTreeSet<String>) {
    until(metric, async || {
        let (_, text) = cluster.processes[part]
            .admin_get("/metrics")
            .await
            .map_err(|error| error.to_string())?;
        let lines = text.lines().filter_map(|line| line.strip_prefix(metric));
        let told: BTreeSet<String> = lines
            .filter_map(|line| line.split_once("target=\"")?.1.split_once('"'))
            .map(|(node, _)| node.to_owned())
            .collect();
        if told == *nodes {
            Ok(())
        } else {
            Err(format!("{part}: {} nodes: {told:?}", told.len()))
        }
    })
    .await;
}

/// The virtual nodes are these, and these have series.
async fn are(cluster: &Cluster, nodes: &BTreeSet<String>) {
    for part in ["controllers", "proxy-scheduler"] {
        has_series(cluster, part, "pilotage_target_state{", nodes).await;
    }
    let (part, metric) = ("proxy-scheduler", "pilotage_target_asks_total{");
    has_series(cluster, part, metric, nodes).await;
    let all: Api<Node> = Api::all(cluster.plane.admin());
    let ours =
        ListParams::default().labels(&format!("{}={}", keys::PROVIDER, keys::PROVIDER_VALUE));
    until("virtual nodes", async || {
        let there = all.list(&ours).await.map_err(|error| error.to_string())?;
        let there: BTreeSet<_> = there
            .items
            .into_iter()
            .filter_map(|it| it.metadata.name)
            .collect();
        if there == *nodes {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_youngest_have_no_node_and_no_series_until_it_is_their_turn() {
    let plane = ControlPlane::builder("too-many").controller_manager();
    let mut cluster = lone(plane, Side::Source).await.unwrap();
    cluster.install().await.unwrap();
    let targets: Api<Target> = Api::namespaced(cluster.plane.admin(), HOME);
    for number in 0..TARGETS {
        // Nobody has written their Secrets: what becomes of the connection plays no part.
        let target = serde_json::from_value(target_object(&name(number), HOME)).unwrap();
        targets
            .create(&PostParams::default(), &target)
            .await
            .unwrap();
    }
    let is_told = |number: usize, reason: &'static str| {
        let targets = targets.clone();
        async move {
            let told = |target: &Target| {
                let mut conditions = target.status.iter().flat_map(|it| &it.conditions);
                conditions.any(|it| it.type_ == types::CONNECTED && it.reason == reason)
            };
            wait_for(&targets, &name(number), told, LIMIT)
                .await
                .unwrap();
        }
    };
    for number in 0..TARGETS {
        let reason = if number < SEATS {
            "SecretMissing"
        } else {
            "TooManyTargets"
        };
        is_told(number, reason).await;
    }
    let oldest: BTreeSet<String> = (0..SEATS).map(node).collect();
    are(&cluster, &oldest).await;

    targets
        .delete(&name(0), &DeleteParams::default())
        .await
        .unwrap();
    is_told(SEATS, "SecretMissing").await;
    let next: BTreeSet<String> = (1..=SEATS).map(node).collect();
    are(&cluster, &next).await;
    cluster.stop().await;
}
