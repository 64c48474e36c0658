//! The Secret of a Target: it stays as long as there is something to clean up with it, and no longer.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_api::{PodChaperon, Target, keys, names};
use pilotage_clusters::cluster_uid;
use pilotage_testkit::{ControlPlane, wait_for, wait_gone};
use serde_json::json;

use crate::bench::{Bench, HOME, LIMIT, ready};

fn is_held(secret: &Secret) -> bool {
    let finalizers = secret.metadata.finalizers.as_deref();
    finalizers.is_some_and(|all| all.iter().any(|name| name == keys::TARGET_GONE))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_keeps_the_kubeconfig_until_the_target_is_cleaned_up() {
    let target = ControlPlane::builder("vnode-held").start().await.unwrap();
    let mut bench = Bench::start("vnode-home").await;
    let home = bench.source.namespace("team").await.unwrap();
    let name = "c2";
    let node = names::virtual_node(Some(home.name()), name);
    bench.connect_in(home.name(), name, &target).await;
    bench.node(&node, |node| ready(node).0 == "True").await;
    let secrets: Api<Secret> = home.api();
    let first = wait_for(&secrets, name, is_held, LIMIT).await.unwrap();

    // Rotation by deleting and making anew.
    secrets
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&secrets, name, LIMIT).await.unwrap();
    bench
        .node(&node, |node| ready(node).1 == "TargetLost")
        .await;
    bench.give_secret(home.name(), name, &target).await;
    bench.node(&node, |node| ready(node).0 == "True").await;
    let second = wait_for(&secrets, name, is_held, LIMIT).await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);

    // Something of ours is left in the target.
    let source = cluster_uid(&bench.source.admin()).await.unwrap();
    let spec = serde_json::from_value(json!({ "containers": [] })).unwrap();
    let mut left = PodChaperon::new("left", spec);
    left.metadata.labels = Some([(keys::PARENT_CLUSTER_UID.to_owned(), source.0)].into());
    let place = home.name().to_owned();
    let there = target
        .named_namespace(&place, BTreeMap::new())
        .await
        .unwrap();
    let chaperons: Api<PodChaperon> = there.api();
    chaperons
        .create(&PostParams::default(), &left)
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(bench.source.admin());
    namespaces
        .delete(&place, &DeleteParams::default())
        .await
        .unwrap();
    let targets: Api<Target> = home.api();
    let ending = |target: &Target| target.metadata.deletion_timestamp.is_some();
    wait_for(&targets, name, ending, LIMIT).await.unwrap();
    let ending = |secret: &Secret| secret.metadata.deletion_timestamp.is_some();
    wait_for(&secrets, name, ending, LIMIT).await.unwrap();

    // Another process, which has never seen the Secret whole, reads it all the same.
    bench.end().await;
    bench.run().await;
    chaperons
        .delete("left", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&namespaces, &place, LIMIT).await.unwrap();
    drop((home, there));
    bench.end().await;
    bench.source.stop().await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_a_kubeconfig_is_none_of_ours() {
    let mut bench = Bench::start("vnode-strangers").await;
    let secrets: Api<Secret> = Api::namespaced(bench.source.admin(), HOME);
    let write = async |name: &str, text: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": { "config": text },
        });
        let params = PatchParams::apply("test").force();
        let patch = Patch::Apply(&secret);
        secrets.patch(name, &params, &patch).await.unwrap();
    };
    // Where it leads plays no part.
    let kubeconfig = json!({
        "current-context": "a", "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "" } }],
        "clusters": [{ "name": "a", "cluster": { "server": "https://127.0.0.1:1" } }],
    });
    write("password", "hunter2").await;
    bench.connect_nothing("password").await;
    write("far", &kubeconfig.to_string()).await;
    bench.connect_nothing("far").await;
    wait_for(&secrets, "far", is_held, LIMIT).await.unwrap();
    let other = secrets.get("password").await.unwrap();
    let labels = other.metadata.labels.unwrap_or_default();
    assert!(other.metadata.finalizers.is_none() && labels.is_empty());

    // What is in a Secret may change.
    write("password", &kubeconfig.to_string()).await;
    wait_for(&secrets, "password", is_held, LIMIT)
        .await
        .unwrap();
    write("far", "hunter2").await;
    let free = |secret: &Secret| !is_held(secret);
    wait_for(&secrets, "far", free, LIMIT).await.unwrap();
    bench.end().await;
    bench.source.stop().await;
}
