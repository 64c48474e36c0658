//! What a tenant may write at most: long names and odd kubeconfigs are refused with a message, and nobody else notices.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::{Target, conditions::types, keys};
use pilotage_e2e::hostile::written::long_region;
use pilotage_testkit::{HostileServer, build, create};
use serde_json::json;

use crate::stage::{Stage, name_target};

#[tokio::test(flavor = "multi_thread")]
async fn a_region_of_90_kilobytes_is_refused_wherever_it_is_written() {
    let stage = Stage::new("regions").await;
    let server = HostileServer::start("regions").await.unwrap();
    stage.lead_to(&server, "evil").await;
    let tenant = stage.tenant().await;
    let pods: Api<Pod> = Api::namespaced(tenant.clone(), &stage.own);
    let long = long_region();
    let params = PatchParams::default();

    let pod = |name: &str| build::pod(name).elect().request("cpu", "1m");
    let asked = pod("long").annotation(keys::REGION, &*long).build();
    let refused = create(&pods, &asked).await.unwrap_err().to_string();
    assert!(
        refused.contains("has 90000 bytes, and may have 63"),
        "{refused}"
    );
    assert!(
        refused.len() < 2_000,
        "it is told in few words: {}",
        refused.len()
    );
    create(&pods, &pod("short").build()).await.unwrap();
    let patch = json!({ "metadata": { "annotations": { keys::REGION: long } } });
    let patch = Patch::Merge(&patch);
    let refused = pods.patch("short", &params, &patch).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("may have 63 characters"),
        "{refused:.2000}"
    );

    let targets: Api<Target> = Api::namespaced(tenant, &stage.own);
    let refused = targets.patch("evil", &params, &patch).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("may have 63 characters"),
        "{refused:.2000}"
    );
    // A policy knows no lists: a long name in a short one is told by the Target.
    let zones = format!("a,{}", "z".repeat(900));
    let patch = json!({ "metadata": { "annotations": { keys::ZONES: zones } } });
    let patch = Patch::Merge(&patch);
    targets.patch("evil", &params, &patch).await.unwrap();
    let told = stage.condition("evil", types::VALID, "False").await;
    assert!(told.starts_with("InvalidAnnotation: "), "{told}");
    assert!(told.contains("has 900 bytes, and may have 63"), "{told}");
    stage.is_well("beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_leads_to_http_is_refused() {
    let stage = Stage::beside("http").await;
    let server = HostileServer::start("http").await.unwrap();
    let plain = server.kubeconfig().replace("https://", "http://");
    name_target(stage.tenant().await, &stage.own, "evil", &plain).await;
    stage
        .lost("evil", "InsecureServer", "--allow-insecure-targets")
        .await;
    stage.is_well("beside").await;
    assert_eq!(server.accepted(), 0, "somebody came");
}
