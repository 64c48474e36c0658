//! How virtual nodes go: after their proxies, never before; and whom they must not be taken for.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::{PodChaperon, keys, names};
use pilotage_clusters::cluster_uid;
use pilotage_testkit::{ControlPlane, Part, Signal, build, list_until, wait_for, wait_gone};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_target_is_waited_for_unless_nothing_was_ever_there() {
    let target = ControlPlane::builder("vnode-away").start().await.unwrap();
    let mut bench = Bench::start("vnode-left").await;
    for name in ["asked", "forgotten"] {
        bench.connect(name, &target).await;
        let node = names::virtual_node(Some(HOME), name);
        bench.node(&node, |node| ready(node).0 == "True").await;
    }
    // What a replaced pod leaves there: no record names it any more, no proxy holds it.
    let source = cluster_uid(&bench.source.admin()).await.unwrap();
    let spec = serde_json::from_value(json!({ "containers": [] })).unwrap();
    let mut left = PodChaperon::new("left", spec);
    left.metadata.labels = Some([(keys::PARENT_CLUSTER_UID.to_owned(), source.0)].into());
    let chaperons: Api<PodChaperon> = Api::namespaced(target.admin(), HOME);
    chaperons
        .create(&PostParams::default(), &left)
        .await
        .unwrap();

    target.signal(Part::ApiServer, Signal::Stop).await.unwrap();
    bench.connect_nothing("never").await;
    for name in ["asked", "forgotten", "never"] {
        let node = names::virtual_node(Some(HOME), name);
        bench
            .node(&node, |node| ready(node).1 == "TargetLost")
            .await;
        let targets = bench.targets();
        targets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    wait_gone(&bench.targets(), "never", LIMIT).await.unwrap();
    for name in ["asked", "forgotten"] {
        bench
            .is_told(name, "TargetUnreachable", "can't be reached")
            .await;
    }
    let word = json!({ "metadata": { "annotations": { keys::FORGET: keys::TRUE } } });
    bench
        .targets()
        .patch("forgotten", &PatchParams::default(), &Patch::Merge(&word))
        .await
        .unwrap();
    wait_gone(&bench.targets(), "forgotten", LIMIT)
        .await
        .unwrap();

    // Another process knows as well that something may be there.
    bench.end().await;
    let events: Api<Event> = Api::namespaced(bench.source.admin(), HOME);
    let (how, which) = (DeleteParams::default(), ListParams::default());
    events.delete_collection(&how, &which).await.unwrap();
    bench.run().await;
    bench
        .is_told("asked", "TargetUnreachable", "can't be reached")
        .await;
    bench.node("admiralty-default-asked", is_cordoned).await;

    target
        .signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
    bench
        .is_told("asked", "TargetInUse", "are still there")
        .await;
    chaperons
        .delete("left", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bench.targets(), "asked", LIMIT).await.unwrap();
    bench.end().await;
    bench.source.stop().await;
    target.stop().await;
}
