//! Targets come, and their secrets change, while pods run: nothing is restarted.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use pilotage_api::{PodChaperon, Target, keys, names};
use pilotage_e2e::fleet::{SOURCE_ACCOUNT, secret, target_object};
use pilotage_testkit::{build, wait_for, wait_gone};
use serde_json::json;

use super::{LIMIT, Shop, elected, shared_fleet};

fn condition<'a>(target: &'a Target, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = &target.status.as_ref()?.conditions;
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == type_)?;
    Some((&condition.status, &condition.reason))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_added_live_takes_a_pod_that_nobody_could() {
    let shop = Shop::unconnected(shared_fleet().await, "added").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    shop.create(&elected("web", "100m")).await;
    let waits = |pod: &_| super::scheduled(pod).is_some_and(|(status, ..)| status == "False");
    wait_for(&shop.pods(), "web", waits, LIMIT).await.unwrap();
    shop.fleet
        .add_target(shop.target("north"), &shop.name)
        .await
        .unwrap();
    let proxy = shop.running("web").await;
    assert_eq!(shop.delegate(&proxy).await.0, "north");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_identity_is_a_lost_target_and_a_new_secret_brings_it_back() {
    let shop = Shop::unconnected(shared_fleet().await, "rotated").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let east = shop.target("east");
    shop.fleet.add_target(east, &shop.name).await.unwrap();
    shop.create(&elected("before", "100m")).await;
    shop.running("before").await;

    // Tokens are bound to the account's UID, so the new account of that name makes the old token worthless.
    let accounts: Api<ServiceAccount> = Api::namespaced(east.plane.admin(), &shop.name);
    let old = accounts.get(SOURCE_ACCOUNT).await.unwrap();
    accounts
        .delete(SOURCE_ACCOUNT, &DeleteParams::default())
        .await
        .unwrap();
    let is_new = |account: &ServiceAccount| account.metadata.uid != old.metadata.uid;
    wait_for(&accounts, SOURCE_ACCOUNT, is_new, LIMIT)
        .await
        .unwrap();

    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let refused =
        |target: &Target| condition(target, "Connected") == Some(("False", "Unauthorized"));
    wait_for(&targets, "east", refused, LIMIT).await.unwrap();

    let kubeconfig = east
        .source_kubeconfig(SOURCE_ACCOUNT, &shop.name)
        .await
        .unwrap();
    let rotated = secret("east", &shop.name, &kubeconfig).to_string();
    shop.fleet.source.plane.apply_yaml(&rotated).await.unwrap();
    shop.fleet
        .source
        .connected("east", &shop.name)
        .await
        .unwrap();
    shop.create(&elected("after", "100m")).await;
    shop.running("after").await;

    // What was placed before is still followed: its end there is its end here.
    let proxy = shop.pods().get("before").await.unwrap();
    assert!(super::is_running(&proxy));
    shop.pods()
        .delete("before", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&shop.pods(), "before", LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_made_anew_under_its_name_is_asked_anew() {
    let shop = Shop::unconnected(shared_fleet().await, "anew").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let north = shop.target("north");
    shop.fleet.add_target(north, &shop.name).await.unwrap();
    let web = build::pod("web").elect().request("cpu", "100m");
    let web = web.node_selector("pool", &shop.name).build();
    let uid = shop.create(&web).await.metadata.uid.unwrap();
    let (chaperons, chaperon) = (
        shop.chaperons_in("north"),
        names::chaperon(&shop.name, "web", &uid),
    );
    let refuses = |chaperon: &PodChaperon| {
        let annotations = chaperon.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(keys::REFUSAL))
    };
    wait_for(&chaperons, &chaperon, refuses, LIMIT)
        .await
        .unwrap();

    // What it answered goes while nobody watches, and the Target is another one before anybody watches again.
    let secrets: Api<Secret> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    secrets
        .delete("north", &DeleteParams::default())
        .await
        .unwrap();
    let blind =
        |target: &Target| condition(target, "Connected") == Some(("False", "SecretMissing"));
    wait_for(&targets, "north", blind, LIMIT).await.unwrap();
    chaperons
        .delete(&chaperon, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&chaperons, &chaperon, LIMIT).await.unwrap();
    let object: Target = serde_json::from_value(target_object("north", &shop.name)).unwrap();
    targets
        .delete("north", &DeleteParams::default())
        .await
        .unwrap();
    let torn = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    targets
        .patch("north", &PatchParams::default(), &torn)
        .await
        .unwrap();
    targets
        .create(&PostParams::default(), &object)
        .await
        .unwrap();

    let node = build::node(&format!("{}-late", shop.name)).label("pool", &shop.name);
    let node = node.cpu("4").memory("16Gi").pods(110).build();
    north.plane.add_nodes([node]).await.unwrap();
    shop.fleet.add_target(north, &shop.name).await.unwrap();
    shop.running("web").await;
}
