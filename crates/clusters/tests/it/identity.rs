//! A kubeconfig that leads elsewhere: another cluster is not the target.

use std::sync::Arc;

use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::ClusterSummary;
use pilotage_api::parent::ClusterUid;
use pilotage_runtime::rbac::Rule;
use pilotage_testkit::ControlPlane;
use pilotage_testkit::access::Credential;
use serde_json::json;

use crate::bench::{Bench, account, connects, is_lost};

/// The cluster says who it is, as its own Pilotage would.
async fn say(plane: &ControlPlane, uid: &str) {
    let summaries: Api<ClusterSummary> = Api::all(plane.admin());
    let summary = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "ClusterSummary",
        "metadata": { "name": "singleton" },
        "clusterUid": uid,
    });
    let params = PatchParams::apply("test").force();
    summaries
        .patch("singleton", &params, &Patch::Apply(&summary))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_at_the_targets_address_is_a_loss_until_the_right_one_answers() {
    let plane = Arc::new(ControlPlane::builder("identity").start().await.unwrap());
    let bench = Bench::on(plane.clone(), "identity").await;
    let rules = [Rule::cluster(
        &["multicluster.admiralty.io"],
        &["clustersummaries"],
        &["get", "list", "watch"],
    )];
    let token = account(&plane, bench.name(), "source", &rules).await;
    let here = plane.admin_access().with(Credential::Token(token));
    let there = here.via(&here.server().replace("127.0.0.1", "localhost"));
    assert_ne!(here.server(), there.server());

    say(&plane, "first").await;
    let target = bench.target("c2").await;
    bench.secret("c2", "config", &here.kubeconfig_yaml()).await;
    connects(&target).await;
    assert_eq!(
        *target.identity().borrow(),
        Some(ClusterUid("first".into()))
    );

    // What answers at the new address is another cluster.
    say(&plane, "second").await;
    bench.secret("c2", "config", &there.kubeconfig_yaml()).await;
    let text = is_lost(&target, "OtherCluster").await;
    assert!(text.contains("second") && text.contains("first"), "{text}");
    assert!(target.client().is_none(), "nobody reads or writes there");

    say(&plane, "first").await;
    connects(&target).await;
    assert!(target.client().is_some());
    drop(bench);
}
