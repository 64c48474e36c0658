//! A target that answers nobody is asked for some pods only; the others wait for their turn, and nobody else waits for them.

use std::time::Instant;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher};
use pilotage_api::keys;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{Signal, build, wait_count, wait_for};

use super::{LIMIT, Shop, is_running, leaked, started};

const TARGETS: [&str; 2] = ["stuck", "free"];
/// A target that hasn't shown yet how fast it is may be asked for so many pods at a time…
const FEW: usize = 16;
/// …and those that it leaves without an answer are counted for so many seconds.
const STANDS_STILL: u64 = 10;
const PODS: usize = FEW + 8;

/// A pod that may only go to one target.
fn pod(name: &str, target: &str) -> Pod {
    let constraints = format!("nodeSelector: {{ site: {target} }}");
    build::pod(name)
        .elect()
        .annotation(keys::PROXY_CONSTRAINTS, constraints)
        .request("cpu", "100m")
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_answers_nobody_is_asked_for_few_pods_at_a_time() {
    let mut spec = Spec::new();
    for name in TARGETS {
        let nodes = build::nodes(name, 1, |node| {
            let node = node.cpu("16").memory("64Gi").pods(110);
            node.label("site", name)
        });
        spec = spec.target(name, nodes);
    }
    let shop = Shop::unconnected(leaked(started(spec).await), "turns").await;
    shop.fleet.connect(&shop.name).await.unwrap();
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    for name in TARGETS {
        let is_labelled = |node: &Node| {
            let labels = node.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.get("site").is_some_and(|site| site == name))
        };
        wait_for(&nodes, &shop.virtual_node(name), is_labelled, LIMIT)
            .await
            .unwrap();
    }

    let candidates = &shop.target("stuck").processes["candidate-scheduler"];
    candidates.signal(Signal::Stop).await.unwrap();
    let began = Instant::now();
    let ordinary: Vec<Pod> = (0..PODS)
        .map(|i| pod(&format!("web-{i}"), "stuck"))
        .collect();
    join_all(ordinary.iter().map(|pod| shop.create(pod))).await;
    // Created last, it is decided on last: by then all others have asked, or wait.
    shop.create(&pod("witness", "free")).await;
    shop.running("witness").await;
    let chaperons = shop.chaperons_in("stuck");
    let asked = chaperons.list(&ListParams::default()).await.unwrap();
    let asked = asked.items.len();
    // Those that haven't been answered for long make room for others.
    let times = 1 + began.elapsed().as_secs() / STANDS_STILL;
    assert!(
        asked <= FEW * usize::try_from(times).unwrap(),
        "{asked} were asked at once"
    );

    candidates.signal(Signal::Continue).await.unwrap();
    let all = watcher::Config::default();
    if let Err(error) = wait_count(&shop.pods(), all, PODS + 1, is_running, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
}
