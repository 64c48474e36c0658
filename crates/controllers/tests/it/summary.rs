//! What a cluster tells of itself, as its nodes and pods change.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{ClusterSummary, keys};
use pilotage_controllers::summary::{self, SummaryArgs, rbac as rules};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::rbac::{self, Account};
use pilotage_runtime::ready::Health;
use pilotage_testkit::{ControlPlane, apply, build, wait_for};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::target::LIMIT;

const HOME: &str = "default";

/// `NODES x CPU` of all shapes, and the summed CPU.
fn told(summary: &ClusterSummary) -> (String, Vec<String>) {
    let cpu = |list: Option<&pilotage_api::summary::ResourceList>| {
        list.and_then(|list| list.get("cpu"))
            .map(|cpu| cpu.0.clone())
            .unwrap_or_default()
    };
    let shapes = summary.free_shapes.iter().flatten();
    let shapes = shapes.map(|shape| format!("{} x {}", shape.nodes, cpu(Some(&shape.free))));
    (cpu(summary.allocatable.as_ref()), shapes.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_tells_room_and_shared_labels() {
    let shared = |name: &str, cpu: &str| build::node(name).cpu(cpu).label("tier", "gold");
    let nodes = [
        shared("small", "4").label("zone", "a").build(),
        shared("large", "16").label("zone", "b").build(),
        build::node("admiralty-x")
            .cpu("100")
            .label(keys::PROVIDER, keys::PROVIDER_VALUE)
            .build(),
    ];
    let plane = ControlPlane::builder("summary")
        .kwok(nodes)
        .start()
        .await
        .unwrap();
    plane.service_account(HOME, "summary").await.unwrap();
    let own = rbac::render(
        "pilotage-controllers",
        Account {
            namespace: HOME,
            name: "summary",
        },
        rules::RULES,
    );
    apply::apply_values(&plane.admin(), own, HOME)
        .await
        .unwrap();
    let client = plane.part_client(HOME, "summary", "controllers").await;
    let client = client.unwrap();
    let (stop, gate) = (CancellationToken::new(), Health::new().gate("summary"));
    let args = SummaryArgs::default();
    tokio::spawn(summary::run(
        client,
        ClusterUid("u1".into()),
        args,
        Leadership::always(),
        gate,
        stop.clone(),
    ));

    let summaries: Api<ClusterSummary> = Api::all(plane.admin());
    let reaches = async |cpu: &str, shapes: &[&str]| {
        let want = (
            cpu.to_owned(),
            shapes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        );
        let name = keys::CLUSTER_SUMMARY_NAME;
        wait_for(&summaries, name, |summary| told(summary) == want, LIMIT)
            .await
            .unwrap()
    };
    let label = |summary: &ClusterSummary, key: &str| {
        summary
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key))
            .cloned()
    };
    let summary = reaches("20", &["1 x 16", "1 x 4"]).await;
    assert_eq!(
        (label(&summary, "tier").as_deref(), label(&summary, "zone")),
        (Some("gold"), None)
    );

    // A pod takes room on its node, until it is gone.
    let pods: Api<Pod> = Api::namespaced(plane.admin(), HOME);
    let pod = build::pod("p")
        .request("cpu", "1500m")
        .node_name("large")
        .build();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    reaches("20", &["1 x 14500m", "1 x 4"]).await;
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    reaches("20", &["1 x 16", "1 x 4"]).await;

    // A label that isn't shared any more goes; a label of somebody else stays.
    let foreign = Patch::Merge(json!({ "metadata": { "labels": { "team": "blue" } } }));
    summaries
        .patch("singleton", &PatchParams::default(), &foreign)
        .await
        .unwrap();
    let nodes: Api<Node> = Api::all(plane.admin());
    let silver = Patch::Merge(json!({ "metadata": { "labels": { "tier": "silver" } } }));
    nodes
        .patch("small", &PatchParams::default(), &silver)
        .await
        .unwrap();
    let mixed = |summary: &ClusterSummary| label(summary, "tier").is_none();
    let summary = wait_for(&summaries, "singleton", mixed, LIMIT)
        .await
        .unwrap();
    assert_eq!(label(&summary, "team").as_deref(), Some("blue"));

    // A cordoned node gives no pod anything; a deleted summary comes back.
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes
        .patch("large", &PatchParams::default(), &cordon)
        .await
        .unwrap();
    reaches("4", &["1 x 4"]).await;
    summaries
        .delete("singleton", &DeleteParams::default())
        .await
        .unwrap();
    reaches("4", &["1 x 4"]).await;

    // Where all are cordoned that is said in numbers: an empty list would be taken for the whole capacity.
    nodes
        .patch("small", &PatchParams::default(), &cordon)
        .await
        .unwrap();
    reaches("0", &[]).await;
    stop.cancel();
    plane.stop().await;
}
