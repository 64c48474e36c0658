//! A virtual node from its first day: what it shows, whom it leaves alone, and when it isn't ready.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::keys;
use pilotage_testkit::{ControlPlane, Part, Signal, wait_for};
use serde_json::json;

use crate::bench::{Bench, LIMIT, allocatable, label, ready, summarize, taints};

const NODE: &str = "admiralty-default-c2";

/// The region that a node tells.
fn region(node: &Node) -> Option<String> {
    let told = node.metadata.annotations.as_ref()?.get(keys::LABELS)?;
    let told: serde_json::Value = told.parse().ok()?;
    let region = told["topology.kubernetes.io/region"].as_str()?;
    Some(region.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_its_target_and_is_ready_as_long_as_that_answers() {
    let target = ControlPlane::builder("vnode-target").start().await.unwrap();
    let mut bench = Bench::start("vnode-source").await;
    let labels = json!({ "topology.kubernetes.io/region": "eu", "tier": "gold", "hidden": "yes" });
    summarize(&target, labels, "8").await;
    bench.connect("c2", &target).await;

    // What it shows. Node lifecycle takes the taint of new nodes away and adds labels of its own.
    let node = bench
        .node(NODE, |node| {
            ready(node) == ("True", "TargetConnected")
                && allocatable(node, "cpu") == "8"
                && taints(node) == [keys::PROVIDER]
        })
        .await;
    for (key, want) in [
        (keys::PROVIDER, Some("admiralty")),
        (keys::TARGET_NAMESPACE, Some("default")),
        (keys::TARGET_NAME, Some("c2")),
        ("type", Some("virtual-kubelet")),
        ("kubernetes.io/role", Some("cluster")),
        ("topology.kubernetes.io/region", None),
        ("tier", Some("gold")),
        ("hidden", None),
    ] {
        assert_eq!(label(&node, key), want, "{key}");
    }
    let shapes = node
        .metadata
        .annotations
        .as_ref()
        .unwrap()
        .get(keys::FREE_SHAPES)
        .unwrap();
    assert_eq!(shapes, r#"[{"free":{"cpu":"8","pods":"100"},"nodes":1}]"#);
    // What Kubernetes would act on is told to who schedules proxies.
    assert_eq!(region(&node).as_deref(), Some("eu"));
    let uid = node.metadata.uid.clone();

    // What others put there stays, while what the target doesn't share any more goes.
    let foreign = json!({
        "metadata": { "labels": { "team": "blue" }, "annotations": { "note": "x" } },
        "spec": { "taints": [
            { "key": keys::PROVIDER, "value": "admiralty", "effect": "NoSchedule" },
            { "key": "team", "value": "blue", "effect": "NoSchedule" },
        ] },
    });
    let merge = Patch::Merge(&foreign);
    bench
        .nodes()
        .patch(NODE, &PatchParams::default(), &merge)
        .await
        .unwrap();
    summarize(
        &target,
        json!({ "topology.kubernetes.io/region": "us" }),
        "16",
    )
    .await;
    let node = bench
        .node(NODE, |node| {
            allocatable(node, "cpu") == "16" && region(node).as_deref() == Some("us")
        })
        .await;
    assert_eq!(
        (label(&node, "tier"), label(&node, "team")),
        (None, Some("blue"))
    );
    assert_eq!(taints(&node), [keys::PROVIDER, "team"]);
    assert_eq!(
        node.metadata
            .annotations
            .as_ref()
            .unwrap()
            .get("note")
            .map(String::as_str),
        Some("x")
    );

    // Our own taint comes back.
    let bare = json!({ "spec": { "taints": [{ "key": "team", "effect": "NoSchedule" }] } });
    bench
        .nodes()
        .patch(NODE, &PatchParams::default(), &Patch::Merge(&bare))
        .await
        .unwrap();
    bench
        .node(NODE, |node| taints(node) == ["team", keys::PROVIDER])
        .await;

    // A frozen target: NotReady, although our heartbeat goes on; room and labels stay.
    target.signal(Part::ApiServer, Signal::Stop).await.unwrap();
    let node = bench
        .node(NODE, |node| ready(node) == ("False", "TargetLost"))
        .await;
    assert_eq!(allocatable(&node, "cpu"), "16");
    let leases: Api<Lease> = Api::namespaced(bench.source.admin(), "kube-node-lease");
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let before = renewed(&leases.get(NODE).await.unwrap());
    let lease = wait_for(&leases, NODE, |lease| renewed(lease) > before, LIMIT)
        .await
        .unwrap();
    assert_eq!(
        lease.metadata.owner_references.unwrap()[0].uid,
        uid.clone().unwrap()
    );

    // A process that starts while the target is away takes nothing back either.
    bench.end().await;
    let stamp = |node: &Node| node.metadata.resource_version.clone();
    bench.run().await;
    let merge = json!({ "metadata": { "labels": { keys::TARGET_NAME: "wrong" } } });
    bench
        .nodes()
        .patch(NODE, &PatchParams::default(), &Patch::Merge(&merge))
        .await
        .unwrap();
    let node = bench
        .node(NODE, |node| label(node, keys::TARGET_NAME) == Some("c2"))
        .await;
    assert_eq!(
        (allocatable(&node, "cpu"), ready(&node).0),
        ("16", "False"),
        "{:?}",
        stamp(&node)
    );

    target
        .signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
    let node = bench
        .node(NODE, |node| ready(node) == ("True", "TargetConnected"))
        .await;
    assert_eq!(
        (node.metadata.uid.clone(), label(&node, "team")),
        (uid, Some("blue"))
    );
    bench.end().await;
    bench.source.stop().await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_when_no_other_request_is_sent_any_more() {
    let bench = Bench::start("vnode-throttled").await;
    bench.connect_nothing("c2").await;
    let leases: Api<Lease> = Api::namespaced(bench.source.admin(), "kube-node-lease");
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let is_renewed = |lease: &Lease| renewed(lease).is_some();
    let mut lease = wait_for(&leases, NODE, is_renewed, LIMIT).await.unwrap();
    bench.exhaust().await;
    // The first one may have been on its way.
    for _ in 0..3 {
        let before = renewed(&lease);
        let later = |lease: &Lease| renewed(lease) > before;
        lease = wait_for(&leases, NODE, later, LIMIT).await.unwrap();
    }
}
