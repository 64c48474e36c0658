//! Secrets that a tenant's Target names and that hold no kubeconfig: they stay as they are, and no status shows what is
//! in them.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::target_object;
use pilotage_testkit::{HostileServer, wait_for};
use serde_json::json;

use crate::stage::{LIMIT, Stage, name_target};

/// What is in them.
const PASSWORD: &str = "hunter2";

fn is_marked(secret: &Secret) -> bool {
    let meta = &secret.metadata;
    let ours = |name: &String| name == keys::TARGET_GONE;
    let is_held = meta.finalizers.iter().flatten().any(ours);
    let labels = meta.labels.as_ref();
    is_held && labels.is_some_and(|all| all.contains_key(keys::HAS_FINALIZER))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_holds_no_kubeconfig_is_neither_marked_nor_shown() {
    let stage = Stage::beside("secrets").await;
    let server = HostileServer::start("secrets").await.unwrap();
    let tenant = stage.tenant().await;
    let secrets: Api<Secret> = Api::namespaced(tenant.clone(), &stage.own);
    let targets: Api<Target> = Api::namespaced(tenant.clone(), &stage.own);

    // One with the right key and something else in it, and one without the key.
    name_target(tenant, &stage.own, "wrong", PASSWORD).await;
    let other = json!({ "metadata": { "name": "other" }, "stringData": { "password": PASSWORD } });
    let other = serde_json::from_value(other).unwrap();
    let params = PostParams::default();
    secrets.create(&params, &other).await.unwrap();
    let target = serde_json::from_value(target_object("other", &stage.own)).unwrap();
    targets.create(&params, &target).await.unwrap();
    for (name, reason, words) in [
        ("wrong", "KubeconfigUnreadable", "the kubeconfig in secret"),
        ("other", "KeyMissing", r#"has no key "config""#),
    ] {
        let told = stage.lost(name, reason, words).await;
        assert!(!told.contains(PASSWORD), "{told}");
    }

    // Whoever marks Secrets has seen these before this one.
    stage.lead_to(&server, "evil").await;
    wait_for(&secrets, "evil", is_marked, LIMIT).await.unwrap();
    for name in ["wrong", "other"] {
        let meta = secrets.get(name).await.unwrap().metadata;
        assert_eq!((meta.finalizers, meta.labels), (None, None), "{name}");
    }
    stage.is_well("beside").await;
}
