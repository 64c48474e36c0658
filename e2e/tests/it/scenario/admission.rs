//! A target whose admission refuses the pod answers with its reason; the pod goes elsewhere, or is told.

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::{Api, api::PostParams};
use pilotage_testkit::{build, wait_admission, wait_for};
use serde_json::json;

use super::{LIMIT, Shop, TARGETS, elected, scheduled};

async fn forbid_pods(shop: &Shop, target: &str) {
    let quotas: Api<ResourceQuota> = Api::namespaced(shop.target(target).plane.admin(), &shop.name);
    let quota = serde_json::from_value(json!({
        "metadata": { "name": "no-pods" },
        "spec": { "hard": { "pods": "0" } },
    }))
    .unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let counted = |quota: &ResourceQuota| {
        quota
            .status
            .as_ref()
            .is_some_and(|status| status.used.is_some())
    };
    wait_for(&quotas, "no-pods", counted, LIMIT).await.unwrap();
    // Admission knows quotas by a watch of its own.
    let probe = build::pod("probe").build();
    wait_admission(&shop.pods_in(target), &probe, Result::is_err, LIMIT)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_in_two_targets_sends_the_pod_to_the_third() {
    let shop = Shop::open("quota").await;
    forbid_pods(&shop, "east").await;
    forbid_pods(&shop, "north").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    assert_eq!(shop.delegate(&proxy).await.0, "west");
    shop.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_service_account_everywhere_is_told_with_the_api_servers_words() {
    let shop = Shop::open("account").await;
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let account = build::service_account(&shop.name, "robot");
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let pod = build::pod("web").elect().service_account("robot").build();
    shop.create(&pod).await;
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(_, _, message)| {
            message
                .matches("serviceaccount \"robot\" not found")
                .count()
                == TARGETS.len()
        })
    };
    if let Err(error) = wait_for(&shop.pods(), "web", told, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }

    // The refusal is lifted as soon as the target would take the pod.
    let there: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(shop.target("north").plane.admin(), &shop.name);
    there
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let proxy = shop.running("web").await;
    assert_eq!(shop.delegate(&proxy).await.0, "north");
}
