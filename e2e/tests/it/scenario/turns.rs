//! A target that answers nobody is asked for some pods only; the others wait for their turn, and nobody else waits for
//! them.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher};
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{Signal, build, build::PodBuilder, list_until, wait_count, wait_for};

use super::{LIMIT, Shop, is_running, started};

const TARGETS: [&str; 2] = ["stuck", "free"];
/// A target that hasn't shown yet how fast it is may be asked for so many pods at a time…
const FEW: usize = 16;
/// …and those that it leaves without an answer are counted for ten seconds from when they were sent; some of them are
/// the time that the first one takes to land on a busy machine.
const NO_MORE: i64 = 5;
const PODS: usize = FEW + 8;

fn pod(name: &str) -> PodBuilder {
    build::pod(name).elect().request("cpu", "100m")
}

/// How many were created in the first seconds after the first one.
fn at_once(chaperons: &[PodChaperon]) -> usize {
    let times = chaperons.iter().map(|chaperon| {
        let created = chaperon.metadata.creation_timestamp.as_ref().unwrap();
        created.0.as_second()
    });
    let times: Vec<i64> = times.collect();
    let first = times.iter().min().unwrap();
    let early = times.iter().filter(|time| **time < first + NO_MORE);
    early.count()
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
    let shop = Shop::unconnected(started(spec).await, "turns").await;
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
    let ordinary: Vec<Pod> = (0..PODS)
        .map(|i| {
            let constraints = "nodeSelector: { site: stuck }";
            pod(&format!("web-{i}"))
                .annotation(keys::PROXY_CONSTRAINTS, constraints)
                .build()
        })
        .collect();
    join_all(ordinary.iter().map(|pod| shop.create(pod))).await;
    let chaperons = shop.chaperons_in("stuck");
    let all = watcher::Config::default;
    list_until(&chaperons, all(), |asked| asked.len() >= FEW, LIMIT)
        .await
        .unwrap();

    // It may go to either, and comes after all that wait for one of them.
    shop.create(&pod("witness").build()).await;
    let witness = shop.running("witness").await;
    assert_eq!(shop.delegate(&witness).await.0, "free");
    let asked = chaperons.list(&ListParams::default()).await.unwrap();
    let early = at_once(&asked.items);
    assert!(early <= FEW, "{early} were asked at once");
    // Those that haven't been answered for long make room for others, and not before.
    let asked = list_until(&chaperons, all(), |asked| asked.len() > FEW, LIMIT)
        .await
        .unwrap();
    let early = at_once(&asked);
    assert!(early <= FEW, "{early} were asked at once");

    candidates.signal(Signal::Continue).await.unwrap();
    if let Err(error) = wait_count(&shop.pods(), all(), PODS + 1, is_running, 3 * LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
}
