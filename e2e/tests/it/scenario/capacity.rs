//! What a virtual node shows of its target's room, whom the target takes by it, what that costs in writes, and pods
//! that nobody was granted while no Pilotage runs in the source.

use std::time::Instant;

use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::plane::audit::Policy;
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, Shop, node_of, scheduled, started};

const GPU: &str = "example.com/gpu";
const PAGES: &str = "hugepages-2Mi";
/// Flips of a node, one after the other.
const FLIPS: usize = 60;

/// Two nodes that take pods, and one that takes none.
fn nodes() -> [Node; 3] {
    let node = |name: &str, zone: &str, gpus: &str| {
        let node = build::node(name).cpu("4").allocatable("cpu", "3500m");
        let node = node.label("topology.kubernetes.io/zone", zone);
        let node = node.label("tier", "gold").label("secret", "yes");
        node.resource(GPU, gpus)
    };
    [
        node("first", "a", "2").resource(PAGES, "1Gi").build(),
        node("second", "b", "1").build(),
        node("closed", "b", "4").unschedulable().build(),
    ]
}

fn amount(node: &Node, resource: &str) -> String {
    let status = node.status.as_ref();
    let all = status.and_then(|status| status.allocatable.as_ref());
    all.and_then(|all| all.get(resource))
        .map_or_else(String::new, |it| it.0.clone())
}

async fn until(shop: &Shop, holds: impl Fn(&Node) -> bool) -> Node {
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    shop.seen(wait_for(&nodes, &shop.virtual_node("near"), holds, LIMIT).await)
}

/// How often something was written of a summary in the target, and of its virtual node in the source.
async fn writes(shop: &Shop) -> [usize; 2] {
    let node = shop.virtual_node("near");
    let near = shop.target("near").plane.audit().unwrap();
    let near = near.count(|it| it.verb == "patch" && it.resource == "clustersummaries");
    let source = shop.fleet.source.plane.audit().unwrap();
    let source = source.count(|it| it.verb == "patch" && it.resource == "nodes" && it.name == node);
    [near.await.unwrap(), source.await.unwrap()]
}

async fn patch(shop: &Shop, node: &str, body: Value) {
    let nodes: Api<Node> = Api::all(shop.target("near").plane.admin());
    let params = PatchParams::default();
    nodes
        .patch(node, &params, &Patch::Merge(body))
        .await
        .unwrap();
}

fn asks(name: &str, gpus: &str) -> Pod {
    let pod = build::pod(name).elect().request("cpu", "100m");
    pod.request(GPU, gpus).limit(GPU, gpus).build()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_node_has_what_its_target_could_give_and_pods_without_a_place_need_nobody_to_go()
{
    let near = ControlPlane::builder("near").controller_manager();
    let spec = Spec::new()
        .source(|plane| plane.audit(Policy::Writes))
        .target_plane(near.kwok(nodes()).audit(Policy::Writes));
    let shop = Shop::connected(started(spec).await, "capacity").await;

    // The closed node counts for nothing that pods could get.
    let node = until(&shop, |node| amount(node, GPU) == "3").await;
    assert_eq!(
        ["cpu", "pods", PAGES].map(|it| amount(&node, it)),
        ["7", "220", "1Gi"]
    );
    assert_eq!(node.annotations()[keys::ZONES], "a,b");
    let label = |node: &Node, key: &str| node.labels().get(key).cloned();
    assert_eq!(label(&node, "tier").as_deref(), Some("gold"));
    assert_eq!(label(&node, "secret").as_deref(), Some("yes"));
    let targets: Api<Target> = shop.of("source");
    let excluded = json!({ "spec": { "excludedLabelsRegexp": "^(secret|topology.*)=" } });
    targets
        .patch("near", &PatchParams::default(), &Patch::Merge(excluded))
        .await
        .unwrap();
    let hides = |node: &Node| {
        label(node, "secret").is_none() && !node.annotations().contains_key(keys::ZONES)
    };
    let node = until(&shop, hides).await;
    assert_eq!(label(&node, "tier").as_deref(), Some("gold"));

    // Who asks for two gets them on one node, or waits.
    let mut first = asks("first", "2");
    let pages = [(PAGES, "512Mi"), ("memory", "64Mi")];
    let resources = first.spec.as_mut().unwrap().containers[0]
        .resources
        .as_mut()
        .unwrap();
    for (name, quantity) in pages {
        let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(quantity.to_owned());
        resources
            .limits
            .as_mut()
            .unwrap()
            .insert(name.to_owned(), quantity.clone());
        resources
            .requests
            .as_mut()
            .unwrap()
            .insert(name.to_owned(), quantity);
    }
    shop.create(&first).await;
    let (_, delegate) = shop.delegate(&shop.running("first").await).await;
    assert_eq!(node_of(&delegate), Some("first"));
    shop.create(&asks("second", "2")).await;
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(_, _, why)| why.contains(&format!("Insufficient {GPU}")))
    };
    shop.seen(wait_for(&shop.pods(), "second", told, LIMIT).await);

    // A node that opens and closes all the time costs a write a second, here and there.
    let before = writes(&shop).await;
    let begun = Instant::now();
    for flip in 0..FLIPS {
        let closed = flip % 2 == 0;
        patch(
            &shop,
            "second",
            json!({ "spec": { "unschedulable": closed } }),
        )
        .await;
    }
    patch(
        &shop,
        "second",
        json!({ "spec": { "unschedulable": true } }),
    )
    .await;
    until(&shop, |node| {
        amount(node, "cpu") == "3500m" && amount(node, GPU) == "2"
    })
    .await;
    let most = 2 + usize::try_from(begun.elapsed().as_secs()).unwrap();
    let after = writes(&shop).await;
    let made = [after[0] - before[0], after[1] - before[1]];
    assert!(made[0] >= 1 && made[0] <= most, "{made:?} in {most} s");
    // Of labels and of amounts, in two writes, and some of heartbeats.
    assert!(made[1] <= 3 * most, "{made:?} in {most} s");

    // The pod that nobody was granted goes at once although nobody is there to let it go; and nothing of it stays.
    let source = &shop.fleet.source;
    let stops = source
        .all_processes()
        .map(|(_, process)| process.stop(LIMIT));
    let ends = join_all(stops).await;
    // Whoever is killed keeps its Lease for longer than anybody waits here.
    let in_order = ends.iter().all(|end| end.is_some_and(Exit::success));
    assert!(in_order, "{ends:?}");
    let chaperons = shop.chaperons_in("near");
    let all = watcher::Config::default;
    wait_count(&chaperons, all(), 2, |_| true, LIMIT)
        .await
        .unwrap();
    let params = DeleteParams::default();
    shop.pods().delete("second", &params).await.unwrap();
    wait_gone(&shop.pods(), "second", LIMIT).await.unwrap();
    // One that runs somewhere waits.
    shop.pods().delete("first", &params).await.unwrap();
    let first = shop.pods().get("first").await.unwrap();
    assert_eq!(first.finalizers(), [keys::DELEGATE_GONE]);
    try_join_all(source.all_processes().map(|(_, process)| process.restart()))
        .await
        .unwrap();
    wait_gone(&shop.pods(), "first", LIMIT).await.unwrap();
    shop.seen(wait_count(&chaperons, all(), 0, |_| true, LIMIT).await);
}
