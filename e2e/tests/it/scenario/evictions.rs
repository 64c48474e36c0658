//! Pods that fit in a target only if others are evicted there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::preempts::Preempts;
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::{Cluster, Spec};
use pilotage_testkit::{build::pod, list_until, wait_admission, wait_for, wait_gone};
use serde_json::json;

use super::leave::{audited_target, every_step, steps};
use super::{LIMIT, Shop, is_running, node_of, started};

/// Until a node that is held for an answer would be free again if nobody granted it, and some more.
const PAST_HOLD: Duration = Duration::from_secs(12);

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
        // Admission knows classes by a watch of its own.
        let pods: Api<Pod> = Api::namespaced(cluster.plane.admin(), "default");
        let probe = pod("probe").priority_class(name).build();
        wait_admission(&pods, &probe, Result::is_ok, LIMIT)
            .await
            .unwrap();
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

/// Which attempt is granted, and when its eviction may be over.
fn granted(chaperon: &PodChaperon) -> Option<(String, Preempts)> {
    let text = |key| chaperon.annotations().get(key);
    let attempt = text(keys::ALLOWED_ATTEMPT)?;
    let stands = text(keys::IS_RESERVED).is_some() && text(keys::ATTEMPT) == Some(attempt);
    let preempts = text(keys::PREEMPTS)?.parse().ok()?;
    stands.then(|| (attempt.clone(), preempts))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_long_to_go_is_waited_for_past_the_hold_and_asked_once() {
    let spec = Spec::new().target_plane(audited_target("slow", ["slow"]));
    let shop = Shop::unconnected(started(spec).await, "slowly").await;
    for cluster in shop.fleet.all() {
        with_classes(cluster).await;
    }
    let pods = shop.pods_in("slow");
    // Gone when the test lets it go, however short a grace kwok gives it.
    let occupant = pod("on-slow").request("cpu", "1").node_name("slow");
    let occupant = occupant.priority_class("low").grace(30).tweak(|pod| {
        pod.metadata.finalizers = Some(vec!["example.com/look".to_owned()]);
    });
    pods.create(&PostParams::default(), &occupant.build())
        .await
        .unwrap();
    shop.seen(wait_for(&pods, "on-slow", is_running, LIMIT).await);
    shop.fleet.connect(&shop.name).await.unwrap();

    let first = pod("first").elect().request("cpu", "1");
    shop.create(&first.priority_class("urgent").build()).await;
    let goes = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    shop.seen(wait_for(&pods, "on-slow", goes, LIMIT).await);
    let (chaperons, all) = (shop.chaperons_in("slow"), watcher::Config::default());
    let one = list_until(&chaperons, all.clone(), |all| all.len() == 1, LIMIT);
    let chaperon = shop.seen(one.await).remove(0);
    let (attempt, preempts) = granted(&chaperon).expect("leave came first");
    assert_eq!(
        (preempts.pods, preempts.grace),
        (1, Duration::from_secs(30))
    );

    // Nobody gives up meanwhile, nor offers or grants anything else.
    let same = |it: &PodChaperon| {
        it.uid() == chaperon.uid()
            && it.metadata.deletion_timestamp.is_none()
            && granted(it).is_some_and(|(its, _)| its == attempt)
    };
    let changes = list_until(
        &chaperons,
        all,
        |all| all.len() != 1 || !all.values().all(same),
        PAST_HOLD,
    );
    let changed = changes.await;
    assert!(changed.is_err(), "{changed:?}");
    assert_eq!(every_step(&shop, "slow").await, ["grant", "evict on-slow"]);

    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pods.patch("on-slow", &PatchParams::default(), &free)
        .await
        .unwrap();
    shop.seen(wait_gone(&pods, "on-slow", LIMIT).await);
    let (_, delegate) = shop.delegate(&shop.running("first").await).await;
    assert_eq!(node_of(&delegate), Some("slow"));
    let expected = ["grant", "evict on-slow", "bind"];
    assert_eq!(every_step(&shop, "slow").await, expected);
    let bound = chaperons.get(&chaperon.name_any()).await.unwrap();
    let last = bound.annotations().get(keys::ALLOWED_ATTEMPT);
    assert_eq!(last, Some(&attempt), "no second grant");
}
