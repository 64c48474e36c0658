//! Which huge pages of a target a virtual node shows.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pilotage_api::ClusterSummary;
use pilotage_testkit::{ControlPlane, build};
use serde_json::{Value, json};

use crate::bench::{Bench, allocatable, summarize};

const NODE: &str = "admiralty-default-c2";
const SIZES: [&str; 2] = ["hugepages-1Gi", "hugepages-2Mi"];

/// What the target has of these, as its own controllers would say it.
async fn has(target: &ControlPlane, amounts: Value) {
    let api: Api<ClusterSummary> = Api::all(target.admin());
    let patch = Patch::Merge(json!({ "capacity": amounts, "allocatable": amounts }));
    api.patch("singleton", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_sizes_are_shown_only_where_a_node_of_the_source_has_several() {
    let target = ControlPlane::builder("pages-target").start().await.unwrap();
    let mut bench = Bench::start("pages-source").await;
    summarize(&target, json!({}), "8").await;
    has(
        &target,
        json!({ "hugepages-2Mi": "1Gi", "example.com/gpu": "2" }),
    )
    .await;
    bench.connect("c2", &target).await;
    let shows = |gpus: &'static str, pages: [&'static str; 2]| {
        move |node: &Node| {
            let shown = SIZES.map(|size| allocatable(node, size));
            allocatable(node, "example.com/gpu") == gpus && shown == pages
        }
    };
    // One size is every cluster's.
    bench.node(NODE, shows("2", ["", "1Gi"])).await;
    has(
        &target,
        json!({ "hugepages-1Gi": "4Gi", "example.com/gpu": "3" }),
    )
    .await;
    bench.node(NODE, shows("3", ["", ""])).await;

    // This source's tools know several sizes, since its own nodes have them.
    bench.end().await;
    let own = build::node("own").resource("hugepages-1Gi", "0");
    let own = own.resource("hugepages-2Mi", "0").build();
    bench
        .nodes()
        .create(&PostParams::default(), &own)
        .await
        .unwrap();
    bench.run().await;
    bench.node(NODE, shows("3", ["4Gi", "1Gi"])).await;
    bench.end().await;
    bench.source.stop().await;
    target.stop().await;
}
