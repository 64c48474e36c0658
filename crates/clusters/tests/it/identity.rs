//! A kubeconfig that leads elsewhere: another cluster is not the target.

use std::sync::Arc;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilotage_api::ClusterSummary;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::Target;
use pilotage_runtime::rbac::Rule;
use pilotage_testkit::ControlPlane;
use pilotage_testkit::access::Credential;
use serde_json::json;
use tokio::time::timeout;

use crate::bench::{Bench, LIMIT, account, connects, is_lost};

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

/// It doesn't say so any more.
async fn say_nothing(plane: &ControlPlane) {
    let summaries: Api<ClusterSummary> = Api::all(plane.admin());
    summaries
        .delete("singleton", &DeleteParams::default())
        .await
        .unwrap();
}

/// What a source may read of a target, to know it again.
const VIEWER: &[Rule] = &[Rule::cluster(
    &["multicluster.admiralty.io"],
    &["clustersummaries"],
    &["get", "list", "watch"],
)];

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_at_the_targets_address_is_a_loss_until_the_right_one_answers() {
    let plane = Arc::new(ControlPlane::builder("identity").start().await.unwrap());
    let bench = Bench::on(plane.clone(), "identity").await;
    let token = account(&plane, bench.name(), "source", VIEWER).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_say_who_it_is_is_not_the_target() {
    let plane = Arc::new(ControlPlane::builder("silent").start().await.unwrap());
    let bench = Bench::on(plane.clone(), "silent").await;
    let token = account(&plane, bench.name(), "source", VIEWER).await;
    let here = plane.admin_access().with(Credential::Token(token));
    let there = here.via(&here.server().replace("127.0.0.1", "localhost"));

    // Before it has ever said so, nothing is known to compare with.
    let target = bench.target("c2").await;
    bench.secret("c2", "config", &here.kubeconfig_yaml()).await;
    connects(&target).await;
    say(&plane, "first").await;
    let mut identity = target.identity();
    let known = identity.wait_for(|uid| *uid == Some(ClusterUid("first".into())));
    timeout(LIMIT, known)
        .await
        .expect("is asked again")
        .unwrap();

    // Another address, where nobody has written a summary yet.
    say_nothing(&plane).await;
    bench.secret("c2", "config", &there.kubeconfig_yaml()).await;
    let text = is_lost(&target, "Unidentified").await;
    assert!(text.contains("first"), "{text}");
    assert!(target.client().is_none(), "nobody reads or writes there");
    say(&plane, "first").await;
    connects(&target).await;

    // Credentials that may not read who it is, at an address that is new.
    let token = account(&plane, bench.name(), "blind", &[]).await;
    let blind = plane.admin_access().with(Credential::Token(token));
    bench.secret("c2", "config", &blind.kubeconfig_yaml()).await;
    let text = is_lost(&target, "Unidentified").await;
    assert!(text.contains("permitted"), "{text}");
    assert!(target.client().is_none());
    bench.secret("c2", "config", &here.kubeconfig_yaml()).await;
    connects(&target).await;
    drop(bench);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_at_the_same_address_is_noticed_without_any_failure() {
    let plane = Arc::new(ControlPlane::builder("swapped").start().await.unwrap());
    let bench = Bench::on(plane.clone(), "swapped").await;
    let token = account(&plane, bench.name(), "source", VIEWER).await;
    let access = plane.admin_access().with(Credential::Token(token));
    say(&plane, "first").await;
    let target = bench.target("c2").await;
    bench
        .secret("c2", "config", &access.kubeconfig_yaml())
        .await;
    connects(&target).await;
    let generation = |target: &Target| target.sessions().borrow().as_ref().unwrap().generation;
    let before = generation(&target);

    say(&plane, "second").await;
    is_lost(&target, "OtherCluster").await;
    assert!(target.client().is_none(), "nobody reads or writes there");
    say(&plane, "first").await;
    connects(&target).await;
    assert!(
        generation(&target) > before,
        "nothing of the other one is used"
    );
    drop(bench);
}
