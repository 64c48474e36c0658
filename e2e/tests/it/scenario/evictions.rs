//! Pods that fit in a target only if others are evicted there.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::PostParams};
use pilotage_e2e::fleet::{Cluster, Spec};
use pilotage_testkit::{build::pod, wait_for, wait_gone};
use serde_json::json;

use super::leave::{audited_target, steps};
use super::{LIMIT, Shop, is_running, node_of, started};

/// Three priority classes, on every cluster.
pub(super) async fn with_classes(cluster: &Cluster) {
    for (name, value) in [("low", 10), ("middle", 20), ("urgent", 1000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": name },
            "value": value,
        });
        cluster.plane.apply_yaml(&class.to_string()).await.unwrap();
    }
}

/// A pod of the target's own that fills a node of it, by which it is called.
pub(super) async fn occupied(shop: &Shop, target: &str, node: &str, class: &str) -> Pod {
    let name = format!("on-{node}");
    let occupant = pod(&name).request("cpu", "1").label("on", node);
    let occupant = occupant.node_name(node).priority_class(class).grace(0);
    let pods: Api<Pod> = shop.pods_in(target);
    pods.create(&PostParams::default(), &occupant.build())
        .await
        .unwrap();
    wait_for(&pods, &name, is_running, LIMIT).await.unwrap()
}

/// A pod of the source that fills a node, and evicts all but its like; returns where it runs.
pub(super) async fn urgent(shop: &Shop, name: &str) -> (String, Pod) {
    let pod = pod(name).elect().request("cpu", "1");
    shop.create(&pod.priority_class("urgent").build()).await;
    let (target, delegate) = shop.delegate(&shop.running(name).await).await;
    (target.to_owned(), delegate)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_goes_where_others_have_room_and_else_those_who_matter_least() {
    let mut spec = Spec::new();
    for name in ["cheap", "dear", "free"] {
        spec = spec.target_plane(audited_target(name, [name]));
    }
    let shop = Shop::unconnected(started(spec).await, "evict").await;
    for cluster in shop.fleet.all() {
        with_classes(cluster).await;
    }
    let cheap = occupied(&shop, "cheap", "cheap", "low").await;
    let dear = occupied(&shop, "dear", "dear", "middle").await;
    shop.fleet.connect(&shop.name).await.unwrap();

    let (target, _) = urgent(&shop, "first").await;
    assert_eq!(target, "free");
    for (target, occupant) in [("cheap", &cheap), ("dear", &dear)] {
        let name = occupant.name_any();
        let now = shop.pods_in(target).get(&name).await.unwrap();
        assert_eq!(now.uid(), occupant.uid());
        assert_eq!(now.metadata.deletion_timestamp, None);
        assert_eq!(steps(&shop, target).await, [""; 0], "{target}");
    }

    // Everybody is full now: one of the own priority isn't evicted.
    let (target, delegate) = urgent(&shop, "second").await;
    assert_eq!((&*target, node_of(&delegate)), ("cheap", Some("cheap")));
    wait_gone(&shop.pods_in("cheap"), "on-cheap", LIMIT)
        .await
        .unwrap();

    let (target, _) = urgent(&shop, "third").await;
    assert_eq!(target, "dear");
    // The grant was leave to it in each case.
    for (target, expected) in [
        ("free", &["grant", "bind"][..]),
        ("cheap", &["grant", "evict on-cheap", "bind"][..]),
        ("dear", &["grant", "evict on-dear", "bind"][..]),
    ] {
        assert_eq!(steps(&shop, target).await, expected, "{target}");
    }
}
