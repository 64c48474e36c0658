//! Pilotage that may read the Secrets of one namespace of its source, and no others.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use pilotage_api::{ClusterTarget, GROUP, Target, TargetStatus, VERSION, keys};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, Spec, secret, target_object};
use pilotage_testkit::{build, unique, wait_for, wait_gone};
use serde_json::json;

use super::identity::may;
use super::{LIMIT, Shop, small_nodes};

/// Where Pilotage runs.
const HOME: &str = "pilotage";

/// A fleet with two namespaces in each cluster; in the source Pilotage may read Secrets in the first one.
async fn started(open: &str, shut: &str) -> Shop {
    let spec = Spec::new()
        .target("near", small_nodes("near"))
        .target_namespaces([open]);
    let mut fleet = spec.start().await.unwrap();
    let mut namespaces = Vec::new();
    for cluster in fleet.all() {
        for name in [open, shut] {
            let made = cluster.plane.named_namespace(name, BTreeMap::new());
            namespaces.push(made.await.unwrap());
        }
    }
    // Earlier roles were wider.
    let mut left = secret("left", open, "");
    left["metadata"]["labels"] = json!({ keys::HAS_FINALIZER: keys::TRUE });
    left["metadata"]["finalizers"] = json!([keys::TARGET_GONE]);
    apply(&fleet, [left]).await;
    if let Err(error) = fleet.install().await {
        panic!("{error}\nlogs: {:#?}", fleet.logs());
    }
    Shop {
        name: open.to_owned(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    }
}

async fn apply<const N: usize>(fleet: &Fleet, objects: [serde_json::Value; N]) {
    for object in objects {
        let text = object.to_string();
        fleet.source.plane.apply_yaml(&text).await.unwrap();
    }
}

/// Whether a target is lost since nobody may read its Secret, and says so.
fn is_shut_out(status: Option<&TargetStatus>, place: &str) -> bool {
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|it| {
        let word = (it.type_.as_str(), it.status.as_str(), it.reason.as_str());
        word == ("Connected", "False", "NamespaceNotAllowed")
            && it.message.contains(&format!("secret {place}/near"))
            && it.message.contains("--target-namespaces")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_read_in_named_namespaces_only() {
    let (open, shut) = (format!("open-{}", unique()), format!("shut-{}", unique()));
    let shop = started(&open, &shut).await;
    let (fleet, source) = (&shop.fleet, &shop.fleet.source.plane);

    // A Target in the one works.
    fleet.connect(&open).await.unwrap();
    // A namespace is looked at again after half of its pods' grace.
    let web = build::pod("web").elect().request("cpu", "100m").grace(1);
    shop.create(&web.build()).await;
    shop.running("web").await;

    // One in the other is lost, and so is a ClusterTarget with its Secret there.
    let near = shop.target("near");
    let kubeconfig = near.let_in(SOURCE_ACCOUNT, &shut).await.unwrap();
    let everybodys = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "everybodys" },
        "spec": { "kubeconfigSecret": { "name": "near", "namespace": shut } },
    });
    let objects = [
        secret("near", &shut, &kubeconfig),
        target_object("near", &shut),
        everybodys,
    ];
    apply(fleet, objects).await;
    let targets: Api<Target> = Api::namespaced(source.admin(), &shut);
    let lost = |target: &Target| is_shut_out(target.status.as_ref(), &shut);
    wait_for(&targets, "near", lost, LIMIT).await.unwrap();
    let cluster_targets: Api<ClusterTarget> = Api::all(source.admin());
    let lost = |target: &ClusterTarget| is_shut_out(target.status.as_ref(), &shut);
    wait_for(&cluster_targets, "everybodys", lost, LIMIT)
        .await
        .unwrap();

    // Nobody has a right there.
    for (part, marks) in [("controllers", true), ("proxy-scheduler", false)] {
        let client = source.service_account_client(HOME, part).await.unwrap();
        for (namespace, verb, allowed) in [
            (open.as_str(), "list", true),
            (&open, "watch", true),
            (&open, "patch", marks),
            (&open, "get", false),
            (&open, "create", false),
            (&shut, "list", false),
            (&shut, "watch", false),
            (&shut, "get", false),
            (&shut, "patch", false),
            (HOME, "list", false),
            ("", "list", false),
            ("", "watch", false),
            ("", "patch", false),
        ] {
            let is = may(&client, namespace, verb, "secrets").await;
            assert_eq!(is, allowed, "{part}: {verb} in {namespace:?}");
        }
        let elsewhere: Api<Secret> = Api::namespaced(client, &shut);
        let listed = elsewhere.list(&ListParams::default()).await;
        assert!(matches!(listed, Err(kube::Error::Api(status)) if status.code == 403));
    }

    // These rights go with their namespace, so nothing of ours may keep it: no finalizer on a Secret, new or old.
    let secrets: Api<Secret> = Api::namespaced(source.admin(), &open);
    let free = |secret: &Secret| secret.metadata.finalizers.is_none();
    wait_for(&secrets, "left", free, LIMIT).await.unwrap();
    assert!(free(&secrets.get("near").await.unwrap()));
    let namespaces: Api<Namespace> = Api::all(source.admin());
    namespaces
        .delete(&open, &DeleteParams::default())
        .await
        .unwrap();
    if let Err(error) = wait_gone(&namespaces, &open, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
}
