//! Many pods at once: each proxy is bound by one request, and equal targets share them.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, runtime::watcher};
use pilotage_api::keys;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::audit::Entry;
use pilotage_testkit::{ControlPlane, bindings, build, wait_count, wait_for};
use tokio::time::{MissedTickBehavior, interval};

use super::{LIMIT, Shop, elected, is_running, node_of, shared_fleet, started};

/// Many pods come out evenly in one of so many rounds at the latest. A target is asked for as many at a time as it
/// answers, so that one that gets less of a busy machine has fewer of them.
const ROUNDS: usize = 3;

/// Creates pods, one after each tick or as fast as the API server takes them, and waits until all run.
async fn run(
    shop: &Shop,
    prefix: &str,
    pods: usize,
    cpu: &str,
    period: Option<Duration>,
) -> Vec<Pod> {
    let api: Api<Pod> = shop.pods();
    let create = async |index: usize| {
        shop.create(&elected(&format!("{prefix}-{index:03}"), cpu))
            .await;
    };
    match period {
        None => {
            join_all((0..pods).map(create)).await;
        }
        Some(period) => {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for index in 0..pods {
                ticks.tick().await;
                create(index).await;
            }
        }
    }
    let named = |pod: &Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        name.starts_with(prefix) && is_running(pod)
    };
    match wait_count(&api, watcher::Config::default(), pods, named, LIMIT * 4).await {
        Ok(pods) => pods,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pods_at_once_are_bound_by_one_request_each() {
    const PODS: usize = 200;
    let shop = Shop::unconnected(shared_fleet().await, "burst").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let east = shop.target("east");
    shop.fleet.add_target(east, &shop.name).await.unwrap();
    run(&shop, "web", PODS, "10m", None).await;

    let (proxies, refused) = bound(&shop.fleet.source.plane, &shop.name).await;
    let names = (0..PODS).map(|index| (format!("web-{index:03}"), 1));
    assert_eq!(proxies, names.collect(), "one accepted binding each");
    assert!(refused <= PODS / 10, "{refused} bindings were refused");

    let (delegates, refused) = bound(&east.plane, &shop.name).await;
    let once = delegates.values().all(|count| *count == 1);
    assert!(once && delegates.len() == PODS, "{delegates:?}");
    assert!(
        refused <= PODS / 10,
        "{refused} bindings were refused there"
    );
}

/// How often each pod of a namespace was bound, by name, and how many bindings were refused.
async fn bound(plane: &ControlPlane, namespace: &str) -> (BTreeMap<String, usize>, usize) {
    let log = plane.audit().unwrap();
    let entries = log.entries_in(namespace).await.unwrap();
    let is_refused = |entry: &&Entry| entry.asks_to_bind() && !entry.accepted();
    let refused = entries.iter().filter(is_refused).count();
    (bindings(&entries), refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_targets_share_pods_that_come_together_and_those_that_trickle() {
    // Nobody is asked in another's stead because a busy machine was slow for a moment: shares are by rank alone.
    let mut spec = Spec::new().part_flag("proxy-scheduler", "--silence=30s");
    for name in ["port", "starboard"] {
        let nodes = build::nodes(name, 4, |node| node.cpu("16").memory("64Gi").pods(110));
        spec = spec.target(name, nodes);
    }
    let shop = Shop::unconnected(started(spec).await, "share").await;
    shop.fleet.connect(&shop.name).await.unwrap();
    // Both show their room: until then one of them would be asked behind the other.
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    for name in ["port", "starboard"] {
        let shows_room = |node: &Node| {
            let annotations = node.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(keys::FREE_SHAPES))
        };
        wait_for(&nodes, &shop.virtual_node(name), shows_room, LIMIT)
            .await
            .unwrap();
    }
    let paces = [
        ("few", 10, 4..=6, None),
        ("burst", 100, 40..=60, None),
        ("trickle", 100, 40..=60, Some(Duration::from_millis(50))),
    ];
    for (prefix, count, fair, period) in paces {
        let mut rounds = Vec::new();
        let is_fair = |shares: &BTreeMap<String, usize>| {
            shares.len() == 2 && shares.values().all(|share| fair.contains(share))
        };
        while !rounds.iter().any(is_fair) {
            assert!(rounds.len() < ROUNDS, "{prefix}: {rounds:?}");
            let prefix = format!("{prefix}-{}", rounds.len());
            rounds.push(shares(&shop, &prefix, count, period).await);
        }
    }
}

/// How many of the pods each virtual node gets. The next ones come to empty clusters.
async fn shares(
    shop: &Shop,
    prefix: &str,
    count: usize,
    period: Option<Duration>,
) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for pod in &run(shop, prefix, count, "100m", period).await {
        *shares.entry(node_of(pod).unwrap().to_owned()).or_default() += 1;
    }
    let (all, now) = (ListParams::default(), DeleteParams::default());
    shop.pods().delete_collection(&now, &all).await.unwrap();
    wait_count(&shop.pods(), watcher::Config::default(), 0, |_| true, LIMIT)
        .await
        .unwrap();
    shares
}
