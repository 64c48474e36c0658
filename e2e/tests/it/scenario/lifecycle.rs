//! A proxy looks like its delegate, and nothing is left of either when one of them goes.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    api::{DeleteParams, Patch, PatchParams},
    runtime::watcher,
};
use pilotage_api::{PodChaperon, keys};
use pilotage_testkit::{wait_count, wait_for, wait_gone};
use serde_json::json;

use super::{LIMIT, Shop, TARGETS, elected};

async fn assert_nothing_left(shop: &Shop) {
    for target in TARGETS {
        let all = watcher::Config::default;
        let chaperons = shop.chaperons_in(target);
        wait_count(&chaperons, all(), 0, |_: &PodChaperon| true, LIMIT)
            .await
            .unwrap();
        wait_count(&shop.pods_in(target), all(), 0, |_: &Pod| true, LIMIT)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_annotations_flow_back_and_a_deleted_proxy_takes_all_along() {
    let shop = Shop::open("status").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let (target, delegate) = shop.delegate(&proxy).await;
    let name = delegate.metadata.name.clone().unwrap();
    let ip = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    assert_eq!(ip(&proxy), ip(&delegate));

    let noted = json!({ "metadata": { "annotations": { "example.com/seen": "there" } } });
    shop.pods_in(target)
        .patch(&name, &PatchParams::default(), &Patch::Merge(noted))
        .await
        .unwrap();
    let has_note = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("example.com/seen"))
            .is_some_and(|v| v == "there")
    };
    wait_for(&shop.pods(), "web", has_note, LIMIT)
        .await
        .unwrap();

    let finalizers = proxy.metadata.finalizers.clone().unwrap_or_default();
    assert_eq!(finalizers, [keys::DELEGATE_GONE]);
    shop.delete("web").await;
    assert_nothing_left(&shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_goes_when_its_delegate_was_deleted_there() {
    let shop = Shop::open("evicted").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let (target, delegate) = shop.delegate(&proxy).await;
    let name = delegate.metadata.name.clone().unwrap();
    shop.pods_in(target)
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&shop.pods(), "web", LIMIT).await.unwrap();
    assert_nothing_left(&shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_while_it_waits_leaves_nothing() {
    let shop = Shop::open("unplaced").await;
    shop.create(&elected("giant", "640")).await;
    let chaperons = shop.chaperons_in("east");
    wait_count(&chaperons, watcher::Config::default(), 1, |_| true, LIMIT)
        .await
        .unwrap();
    shop.delete("giant").await;
    assert_nothing_left(&shop).await;
}
