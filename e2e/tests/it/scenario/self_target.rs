//! A cluster that is a target of its own, with all parts in one process, for every namespace.

use kube::runtime::watcher;
use pilotage_api::{GROUP, PodChaperon, VERSION, names};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{build, wait_count};
use serde_json::json;

use super::{LIMIT, Shop, elected, node_of, small_nodes, started};

#[tokio::test(flavor = "multi_thread")]
async fn an_elected_pod_runs_on_a_node_of_its_own_cluster() {
    let spec = Spec::new()
        .one_process()
        .source(|plane| plane.kwok(small_nodes("own")));
    let shop = Shop::unconnected(started(spec).await, "self").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let target = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    shop.fleet
        .source
        .plane
        .apply_yaml(&target.to_string())
        .await
        .unwrap();
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    assert_eq!(
        node_of(&proxy),
        Some(names::virtual_node(None, "here").as_str())
    );
    let delegate = names::chaperon(&shop.name, "web", proxy.metadata.uid.as_deref().unwrap());
    let delegate = shop.pods().get(&delegate).await.unwrap();
    assert!(node_of(&delegate).is_some_and(|node| node.starts_with("own-")));

    // Its own scheduler takes it, in the target, after the choice.
    let unreserved = build::pod("plain")
        .elect()
        .annotation(pilotage_api::keys::NO_RESERVATION, "")
        .build();
    shop.create(&unreserved).await;
    let name = |pod: &k8s_openapi::api::core::v1::Pod| {
        let scheduler = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.scheduler_name.as_deref());
        scheduler == Some("default-scheduler") && node_of(pod).is_none()
    };
    wait_count(&shop.pods(), watcher::Config::default(), 1, name, LIMIT)
        .await
        .unwrap();
    let proxy = shop.pods().get("plain").await.unwrap();
    assert_eq!(
        node_of(&proxy),
        None,
        "nobody binds the delegate, so the proxy waits"
    );

    shop.delete("web").await;
    shop.delete("plain").await;
    let chaperons: kube::Api<PodChaperon> =
        kube::Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    wait_count(&chaperons, watcher::Config::default(), 0, |_| true, LIMIT)
        .await
        .unwrap();
    wait_count(&shop.pods(), watcher::Config::default(), 0, |_| true, LIMIT)
        .await
        .unwrap();
}
