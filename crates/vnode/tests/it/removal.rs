//! How virtual nodes go: after their proxies, never before; and whom they must not be taken for.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_testkit::{build, list_until, wait_for, wait_gone};
use serde_json::json;

use crate::bench::{Bench, HOME, LIMIT, ready};

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_after_the_last_of_its_proxies() {
    let mut bench = Bench::start("vnode-removal").await;
    let node = "admiralty-default-here";
    bench.connect_self("here").await;
    bench.node(node, |node| ready(node).0 == "True").await;
    let target = bench.targets().get("here").await.unwrap();
    assert_eq!(
        target.metadata.finalizers,
        Some(vec![keys::VIRTUAL_NODE_GONE.to_owned()])
    );

    // A proxy that something still holds, and a pod of a DaemonSet.
    let pods: Api<Pod> = Api::namespaced(bench.source.admin(), HOME);
    let mut proxy = build::pod("proxy")
        .annotation(keys::SOURCE_POD_MANIFEST, "{}")
        .node_name(node)
        .build();
    // As the webhook makes it: no kubelet will ever confirm its end.
    proxy
        .spec
        .as_mut()
        .unwrap()
        .termination_grace_period_seconds = Some(0);
    proxy.metadata.finalizers = Some(vec![keys::DELEGATE_GONE.to_owned()]);
    pods.create(&PostParams::default(), &proxy).await.unwrap();
    let daemon = build::pod("daemon").node_name(node).build();
    pods.create(&PostParams::default(), &daemon).await.unwrap();

    bench
        .targets()
        .delete("here", &DeleteParams::default())
        .await
        .unwrap();
    bench.node(node, is_cordoned).await;
    let ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    wait_for(&pods, "proxy", ending, LIMIT).await.unwrap();
    // A restart in the middle changes nothing: the node waits for the proxy.
    bench.end().await;
    bench.run().await;
    bench
        .node(node, |node| ready(node).0 == "True" && is_cordoned(node))
        .await;
    assert!(bench.targets().get_opt("here").await.unwrap().is_some());

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pods.patch("proxy", &PatchParams::default(), &release)
        .await
        .unwrap();
    wait_gone(&bench.targets(), "here", LIMIT).await.unwrap();
    assert!(
        bench.nodes().get_opt(node).await.unwrap().is_none(),
        "the node went first"
    );
    let leases: Api<Lease> = Api::namespaced(bench.source.admin(), "kube-node-lease");
    wait_gone(&leases, node, LIMIT).await.unwrap();

    // A Target that was torn away without its finalizer: the node finds out by itself.
    bench.connect_self("torn").await;
    let node = "admiralty-default-torn";
    bench.node(node, |node| ready(node).0 == "True").await;
    bench.end().await;
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    bench
        .targets()
        .patch("torn", &PatchParams::default(), &release)
        .await
        .unwrap();
    bench
        .targets()
        .delete("torn", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bench.targets(), "torn", LIMIT).await.unwrap();
    bench.run().await;
    wait_gone(&bench.nodes(), node, LIMIT).await.unwrap();

    bench.end().await;
    bench.source.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_that_name_is_left_alone_and_its_namesake_told() {
    let mut bench = Bench::start("vnode-conflict").await;
    let machine = build::node("admiralty-default-taken")
        .label("rack", "7")
        .build();
    bench
        .nodes()
        .create(&PostParams::default(), &machine)
        .await
        .unwrap();
    bench.connect_self("taken").await;
    let events: Api<Event> = Api::namespaced(bench.source.admin(), HOME);
    let told = list_until(
        &events,
        watcher::Config::default(),
        |seen| {
            seen.values()
                .any(|event| event.reason.as_deref() == Some("VirtualNodeConflict"))
        },
        LIMIT,
    );
    told.await.unwrap();
    let machine = bench.nodes().get("admiralty-default-taken").await.unwrap();
    assert_eq!(
        machine
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(keys::PROVIDER)),
        None
    );

    // It doesn't hold up the others, nor the Target's own end.
    bench.connect_self("free").await;
    bench
        .node("admiralty-default-free", |node| ready(node).0 == "True")
        .await;
    bench
        .targets()
        .delete("taken", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bench.targets(), "taken", LIMIT).await.unwrap();
    assert!(
        bench
            .nodes()
            .get_opt("admiralty-default-taken")
            .await
            .unwrap()
            .is_some()
    );
    bench.end().await;
    bench.source.stop().await;
}
