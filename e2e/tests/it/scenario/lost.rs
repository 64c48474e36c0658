//! A target that is lost, forgotten, back, and at last removed: which pods wait for it, and which go elsewhere.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{Part, Signal, build, wait_count, wait_gone};
use serde_json::json;

use super::{LIMIT, Shop, is_running, node_of, small_nodes, started};

/// A Deployment of one elected pod.
async fn deploy(shop: &Shop, name: &str, replace_after: Option<&str>) {
    let deployment = build::deployment(name).replicas(1).pod(|pod| {
        let pod = pod.elect().request("cpu", "100m");
        match replace_after {
            Some(after) => pod.annotation(keys::REPLACE_AFTER, after),
            None => pod,
        }
    });
    let deployments: Api<Deployment> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    deployments
        .create(&PostParams::default(), &deployment.build())
        .await
        .unwrap();
}

/// The one running pod of a Deployment that is bound to the virtual node of `target`.
async fn runs_at(shop: &Shop, deployment: &str, target: &str) -> Pod {
    let node = shop.virtual_node(target);
    let prefix = format!("{deployment}-");
    let found = |pod: &Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        name.starts_with(&prefix)
            && is_running(pod)
            && pod.metadata.deletion_timestamp.is_none()
            && node_of(pod) == Some(&node)
    };
    match wait_count(&shop.pods(), watcher::Config::default(), 1, found, LIMIT).await {
        Ok(mut pods) => pods.remove(0),
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    }
}

async fn forget(shop: &Shop, target: &str, value: Option<&str>) {
    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let patch = json!({ "metadata": { "annotations": { keys::FORGET: value } } });
    targets
        .patch(target, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn is_empty(shop: &Shop, target: &str) {
    let all = watcher::Config::default;
    let (chaperons, pods) = (shop.chaperons_in(target), shop.pods_in(target));
    wait_count(&chaperons, all(), 0, |_| true, LIMIT)
        .await
        .unwrap();
    wait_count(&pods, all(), 0, |_| true, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_lost_target_wait_or_move_as_somebody_said_and_a_removed_one_keeps_nothing() {
    let spec = Spec::new()
        .one_process()
        .flag("--target-probe-period=1s")
        .target("near", small_nodes("near"))
        .target("far", small_nodes("far"));
    let shop = Shop::unconnected(started(spec).await, "lost").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let (near, far) = (shop.target("near"), shop.target("far"));
    shop.fleet.add_target(near, &shop.name).await.unwrap();
    deploy(&shop, "patient", None).await;
    deploy(&shop, "hasty", Some("2s")).await;
    let patient = runs_at(&shop, "patient", "near").await;
    runs_at(&shop, "hasty", "near").await;
    shop.fleet.add_target(far, &shop.name).await.unwrap();

    near.plane
        .signal(Part::ApiServer, Signal::Stop)
        .await
        .unwrap();
    runs_at(&shop, "hasty", "far").await;
    let held = runs_at(&shop, "patient", "near").await;
    assert_eq!(held.metadata.uid, patient.metadata.uid, "held");
    forget(&shop, "near", Some(keys::TRUE)).await;
    runs_at(&shop, "patient", "far").await;

    // What ran there goes when its cluster answers again.
    near.plane
        .signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
    forget(&shop, "near", None).await;
    is_empty(&shop, "near").await;

    // The other way round, by removing the Target: its pods move, nothing stays, the node goes.
    shop.fleet
        .source
        .connected("near", &shop.name)
        .await
        .unwrap();
    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    targets
        .delete("far", &DeleteParams::default())
        .await
        .unwrap();
    runs_at(&shop, "patient", "near").await;
    runs_at(&shop, "hasty", "near").await;
    wait_gone(&targets, "far", LIMIT).await.unwrap();
    let left = shop
        .chaperons_in("far")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(left.items.is_empty(), "the Target goes last");
    is_empty(&shop, "far").await;
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    wait_gone(&nodes, &shop.virtual_node("far"), LIMIT)
        .await
        .unwrap();
}
