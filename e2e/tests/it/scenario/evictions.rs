//! Pods that fit in a target only if others are evicted there.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::PostParams};
use pilotage_e2e::fleet::{Cluster, Spec};
use pilotage_testkit::{
    build::{node, pod},
    wait_for, wait_gone,
};
use serde_json::{from_value, json};

use super::{LIMIT, Shop, is_running, node_of, started};

/// Three priority classes, on every cluster.
async fn with_classes(cluster: &Cluster) {
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

/// A pod of the target's own that fills its node.
async fn occupied(shop: &Shop, target: &str, class: &str) -> Pod {
    let mut occupant = pod("occupant").request("cpu", "1").value();
    occupant["spec"]["nodeName"] = target.into();
    occupant["spec"]["priorityClassName"] = class.into();
    occupant["spec"]["terminationGracePeriodSeconds"] = 0.into();
    let pods: Api<Pod> = shop.pods_in(target);
    let occupant = from_value(occupant).unwrap();
    pods.create(&PostParams::default(), &occupant)
        .await
        .unwrap();
    wait_for(&pods, "occupant", is_running, LIMIT)
        .await
        .unwrap()
}

async fn urgent(shop: &Shop, name: &str) {
    let mut urgent = pod(name).elect().request("cpu", "1").value();
    urgent["spec"]["priorityClassName"] = "urgent".into();
    shop.create(&from_value(urgent).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_goes_where_others_have_room_and_else_those_who_matter_least() {
    let mut spec = Spec::new();
    for name in ["cheap", "dear", "free"] {
        spec = spec.target(name, vec![node(name).cpu("1").build()]);
    }
    let shop = Shop::unconnected(started(spec).await, "evict").await;
    for cluster in shop.fleet.all() {
        with_classes(cluster).await;
    }
    let cheap = occupied(&shop, "cheap", "low").await;
    let dear = occupied(&shop, "dear", "middle").await;
    shop.fleet.connect(&shop.name).await.unwrap();

    urgent(&shop, "first").await;
    let (target, _) = shop.delegate(&shop.running("first").await).await;
    assert_eq!(target, "free");
    for (target, occupant) in [("cheap", &cheap), ("dear", &dear)] {
        let now = shop.pods_in(target).get("occupant").await.unwrap();
        assert_eq!(now.uid(), occupant.uid());
        assert_eq!(now.metadata.deletion_timestamp, None);
    }

    // Everybody is full now: one of the own priority isn't evicted.
    urgent(&shop, "second").await;
    let (target, delegate) = shop.delegate(&shop.running("second").await).await;
    assert_eq!((target, node_of(&delegate)), ("cheap", Some("cheap")));
    wait_gone(&shop.pods_in("cheap"), "occupant", LIMIT)
        .await
        .unwrap();

    urgent(&shop, "third").await;
    let (target, _) = shop.delegate(&shop.running("third").await).await;
    assert_eq!(target, "dear");
}
