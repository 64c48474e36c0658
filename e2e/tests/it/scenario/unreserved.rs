//! Pods that keep their own scheduler (`no-reservation`). The test is that scheduler, in each target.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{ClusterSummary, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::build::NodeBuilder;
use pilotage_testkit::{WaitError, build, list_until, wait_count, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Shop, TARGETS, elected, node_of, scheduled, small_nodes, started};

/// The candidate that one of these targets has made and nobody has judged yet.
async fn candidate<'a>(shop: &Shop, proxy: &Pod, targets: &[&'a str]) -> (&'a str, Pod) {
    let uid = proxy.metadata.uid.as_deref().unwrap();
    let its_pods = watcher::Config::default().labels(&format!("{}={uid}", keys::PARENT_UID));
    let waits = targets.iter().map(|target| {
        let (pods, its_pods) = (shop.pods_in(target), its_pods.clone());
        Box::pin(async move {
            // Held by no gate: the grant has come.
            let ready = |pod: &Pod| {
                let gates = pod
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.scheduling_gates.as_ref());
                gates.is_none_or(Vec::is_empty) && node_of(pod).is_none()
            };
            let pods = list_until(&pods, its_pods, |pods| pods.values().any(ready), LIMIT).await?;
            Ok::<_, WaitError>((*target, pods.into_iter().find(ready).unwrap()))
        })
    });
    match futures::future::select_ok(waits).await {
        Ok((found, _)) => found,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    }
}

/// The candidate's own scheduler finds no node, for this reason.
async fn finds_none(shop: &Shop, target: &str, name: &str, why: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
    });
    let status = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
    let pods = shop.pods_in(target);
    pods.patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_whose_nodes_are_all_cordoned_or_full_is_chosen_last() {
    let closed = |node: NodeBuilder| node.cpu("64").memory("256Gi").pods(110).unschedulable();
    let large = build::nodes("full", 1, |node| node.cpu("64").memory("256Gi").pods(110));
    let spec = Spec::new()
        .target("closed", build::nodes("closed", 2, closed))
        .target("full", large)
        .target("open", small_nodes("open"));
    let shop = Shop::unconnected(started(spec).await, "cordoned").await;
    let filler = build::pod("filler")
        .node_name("full-0")
        .request("cpu", "64");
    let pods = shop.pods_in("full");
    pods.create(&PostParams::default(), &filler.build())
        .await
        .unwrap();
    let is_full = |summary: &ClusterSummary| {
        summary.free_shapes.as_ref().is_some_and(|shapes| {
            let mut cpu = shapes.iter().filter_map(|shape| shape.free.get("cpu"));
            cpu.all(|cpu| cpu.0 == "0")
        })
    };
    let summaries: Api<ClusterSummary> = Api::all(shop.target("full").plane.admin());
    let name = keys::CLUSTER_SUMMARY_NAME;
    shop.seen(wait_for(&summaries, name, is_full, LIMIT).await);
    shop.fleet.connect(&shop.name).await.unwrap();
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    let has_room = |node: &Node| {
        let shapes = node.annotations().get(keys::FREE_SHAPES);
        shapes.is_some_and(|shapes| shapes.contains("cpu"))
    };
    let node = shop.virtual_node("open");
    shop.seen(wait_for(&nodes, &node, has_room, LIMIT).await);
    // Who places this one has seen that room.
    shop.create(&elected("first", "100m")).await;
    let proxy = shop.running("first").await;
    assert_eq!(shop.delegate(&proxy).await.0, "open");

    let all = ["closed", "full", "open"];
    for name in ["a", "b", "c", "d"] {
        let pod = build::pod(name).elect().request("cpu", "100m");
        let pod = pod.annotation(keys::NO_RESERVATION, "");
        let proxy = shop.create(&pod.build()).await;
        let (target, candidate) = candidate(&shop, &proxy, &all).await;
        assert_eq!(target, "open", "{name}");
        if name == "d" {
            // Nobody else is left.
            let there = candidate.metadata.name.unwrap();
            finds_none(&shop, target, &there, "0/2 nodes are available: 2 full.").await;
            self::candidate(&shop, &proxy, &["closed", "full"]).await;
        }
    }
    for name in ["first", "a", "b", "c", "d"] {
        shop.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_scheduler_finds_no_node_goes_to_the_next_target_and_waits_in_the_last() {
    let shop = Shop::open("unreserved").await;
    let pod = build::pod("web")
        .elect()
        .annotation(keys::NO_RESERVATION, "");
    let proxy = shop.create(&pod.build()).await;
    let full = "0/4 nodes are available: 4 Insufficient example.com/gpu.";
    let mut left: BTreeSet<&str> = TARGETS.into();
    let mut last = None;
    while !left.is_empty() {
        let targets: Vec<_> = left.iter().copied().collect();
        let (target, candidate) = candidate(&shop, &proxy, &targets).await;
        left.remove(target);
        let name = candidate.metadata.name.unwrap();
        finds_none(&shop, target, &name, full).await;
        last = Some((target, name));
    }

    // Nobody else takes it now: it stays, and says why.
    let (target, name) = last.unwrap();
    let refused = format!(
        "{} refused [4 Insufficient example.com/gpu]",
        shop.virtual_node(target)
    );
    let says_why = |pod: &Pod| {
        scheduled(pod).is_some_and(|(status, reason, message)| {
            (status, reason) == ("False", "Unschedulable") && message.contains(&refused)
        })
    };
    if let Err(error) = wait_for(&shop.pods(), "web", says_why, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
    // So does its chaperon: nothing is reserved, and its own scheduler has no node for it.
    let namespace = format!("--namespace={}", shop.name);
    let there = &shop.target(target).plane;
    let shown = there
        .kubectl(&["get", "podchaperons", &namespace, "--no-headers"])
        .await
        .unwrap();
    let words: Vec<&str> = shown.split_whitespace().collect();
    let unscheduled = ["default-scheduler", "False"];
    let is_told = words.windows(2).any(|pair| pair == unscheduled.as_slice());
    assert!(is_told && words.contains(&"web"), "{shown}");
    for other in TARGETS.into_iter().filter(|other| *other != target) {
        let all = watcher::Config::default();
        wait_count(&shop.pods_in(other), all, 0, |_| true, LIMIT)
            .await
            .unwrap();
    }

    // Room comes.
    let pods = shop.pods_in(target);
    let binding = json!({
        "metadata": { "name": name, "namespace": shop.name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": format!("{target}-0") },
    });
    let params = PostParams::default();
    pods.create_subresource::<Value, Value>("binding", &name, &params, &binding)
        .await
        .unwrap();
    let proxy = shop.running("web").await;
    assert_eq!(shop.delegate(&proxy).await.0, target);
    shop.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_told_once_of_the_claims_that_dont_follow_it() {
    let shop = Shop::open("claims").await;
    let mut pod = build::pod("web")
        .elect()
        .annotation(keys::NO_RESERVATION, "")
        .build();
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    let claims = json!([{ "name": "gpu", "resourceClaimName": "gpu" }]);
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes = serde_json::from_value(volumes).unwrap();
    spec.resource_claims = serde_json::from_value(claims).unwrap();
    let proxy = shop.create(&pod).await;
    let uid = proxy.metadata.uid.as_deref().unwrap();
    let said = "PersistentVolumeClaim data, ResourceClaim gpu: no such object follows a pod";
    shop.warned(uid, &[said]).await;
    // It goes where it was sent, with both.
    let (_, candidate) = candidate(&shop, &proxy, &TARGETS).await;
    let spec = candidate.spec.unwrap();
    let volumes = spec.volumes.unwrap_or_default();
    let claim = volumes
        .iter()
        .find_map(|it| it.persistent_volume_claim.as_ref());
    assert_eq!(claim.unwrap().claim_name, "data");
    assert_eq!(spec.resource_claims.unwrap_or_default().len(), 1);
    let events: Api<Event> = shop.of("source");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.items.iter().filter(|event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_deref());
        about == Some(uid) && event.reason.as_deref() == Some("NotFollowed")
    });
    let repeated: Vec<_> = told.map(|event| event.series.is_some()).collect();
    assert_eq!(repeated, [false]);
    shop.delete("web").await;
}
