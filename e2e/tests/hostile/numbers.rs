//! Hostile numbers: what a tenant writes on pods and Targets ends no process and delays nobody else.

use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use pilotage_api::{conditions::types, names};
use pilotage_e2e::hostile::written;
use pilotage_testkit::{HostileServer, build, create, fault::Verb, hostile::Questions, wait_for};
use serde_json::Value;

use crate::stage::{LIMIT, Stage};

/// Keeps others off a node.
const TAINT: &str = "example.com/all-cpu";

#[tokio::test(flavor = "multi_thread")]
async fn absurd_times_and_amounts_end_no_process() {
    let stage = Stage::new("numbers").await;
    let server = HostileServer::start("numbers").await.unwrap();
    server.answer_questions(Questions::Run(written::extreme_attempt()));
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    let pods: Api<Pod> = Api::namespaced(stage.tenant().await, &stage.own);
    let mut asked = Vec::new();
    for pod in written::extreme_pods() {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pod = create(&pods, &pod).await.unwrap();
        let (name, uid) = (pod.name_any(), pod.uid().unwrap());
        asked.push(names::chaperon(&stage.own, &name, &uid));
    }
    // Each was weighed, and found worth a question.
    for name in asked {
        let is_it = |chaperon: &Value| chaperon["metadata"]["name"] == *name;
        server.holds("podchaperons", is_it, LIMIT).await.unwrap();
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_all_cpu_leaves_a_real_node_as_it_was() {
    let stage = Stage::new("all-cpu").await;
    let east = &stage.fleet.targets[0].plane;
    let node = format!("all-{}", pilotage_testkit::unique());
    let real = build::node(&node).cpu("2").memory("8Gi").pods(10);
    // Other tests' pods go elsewhere.
    let real = real.taint(TAINT, "yes", "NoSchedule");
    east.add_nodes([real.build()]).await.unwrap();
    let there: Api<Pod> = Api::namespaced(east.admin(), &stage.honest);
    let huge = build::pod("huge").node_name(&node).grace(0);
    let huge = huge.request("cpu", "9223372036854775807");
    let huge = huge.request("memory", "7Ei").build();
    let params = PostParams::default();
    there.create(&params, &huge).await.unwrap();

    let pods = stage.pods(&stage.honest);
    let asks = async |name: &str, cpu: &str| {
        let pod = build::pod(name).elect().request("cpu", cpu);
        let pod = pod.node_selector("kubernetes.io/hostname", &node);
        let pod = pod.tolerate(Some(TAINT), None, Some("NoSchedule"));
        create(&pods, &pod.build()).await.unwrap();
    };
    let is_refused = |pod: &Pod| {
        let mut conditions = pod
            .status
            .iter()
            .flat_map(|it| it.conditions.iter().flatten());
        let message = conditions.find_map(|it| it.message.as_deref());
        message.is_some_and(|message| message.contains("1 Insufficient cpu"))
    };
    asks("all", "2").await;
    wait_for(&pods, "all", is_refused, LIMIT).await.unwrap();

    // It has all that the node has, and nobody has any more.
    there
        .delete("huge", &DeleteParams::default())
        .await
        .unwrap();
    let all = stage.runs(&stage.honest, "all").await;
    stage.has_one_delegate(&all).await;
    asks("more", "100m").await;
    wait_for(&pods, "more", is_refused, LIMIT).await.unwrap();
    stage.is_well("beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_absurd_room_is_asked_as_any_other() {
    let stage = Stage::new("room").await;
    let server = HostileServer::start("room").await.unwrap();
    let summary = written::extreme_summary(server.cluster_uid());
    server.put_everywhere(summary).unwrap();
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    stage.is_well("beside").await;

    // Who says to have room for everything is asked.
    let pods: Api<Pod> = Api::namespaced(stage.tenant().await, &stage.own);
    let pod = build::pod("web").elect().request("cpu", "100m").build();
    create(&pods, &pod).await.unwrap();
    server
        .counted(Verb::Create, "podchaperons", 1, LIMIT)
        .await
        .unwrap();
    stage.is_well("after").await;
}
