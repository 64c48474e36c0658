//! Hostile numbers: what a tenant writes on pods and Targets ends no process and delays nobody else.

use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use pilotage_api::{conditions::types, keys};
use pilotage_testkit::{HostileServer, fault::Verb, hostile::Questions};
use serde_json::json;

use crate::stage::{LIMIT, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn absurd_times_and_amounts_end_no_process() {
    let stage = Stage::new("numbers").await;
    let server = HostileServer::start("numbers").await.unwrap();
    let most = i64::MAX;
    server.answer_questions(Questions::Run(json!({
        "metadata": { "annotations": { keys::ATTEMPT: u64::MAX.to_string() } },
    })));
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    let pods: Api<Pod> = Api::namespaced(stage.tenant().await, &stage.own);
    let amounts = json!({ "cpu": "9223372036854775807", "memory": "8Ei" });
    for (name, requests) in [("small", json!({ "cpu": "1m" })), ("large", amounts)] {
        let pod = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": {
                keys::ELECT: "", keys::REPLACE_AFTER: format!("{most}s"),
            } },
            "spec": {
                "terminationGracePeriodSeconds": most,
                "tolerations": [{
                    "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": most,
                }],
                "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }],
            },
        }));
        pods.create(&PostParams::default(), &pod.unwrap())
            .await
            .unwrap();
    }
    server
        .counted(Verb::Create, "podchaperons", 1, LIMIT)
        .await
        .unwrap();
    stage.is_well("beside").await;
    // Its end, while it can't be reached, is when policies are reckoned with.
    server.stop().await;
    stage.condition("evil", types::CONNECTED, "False").await;
    for name in ["small", "large"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    stage.is_well("after").await;
    // A step that panics is caught, and told on the pod.
    let events: Api<Event> = Api::namespaced(stage.fleet.source.plane.admin(), &stage.own);
    let events = events.list(&ListParams::default()).await.unwrap();
    let panicked = |event: &&Event| event.reason.as_deref() == Some("InternalError");
    assert_eq!(events.items.iter().find(panicked), None);
}
