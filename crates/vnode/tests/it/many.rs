//! What one tenant can have made by any number of Targets: nodes, Leases and watches for the hundred oldest alone.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_testkit::{build, list_until, wait_for, wait_gone};

use crate::bench::{Bench, HOME, LIMIT};

/// So many Targets of a namespace are connected at the same time.
const SEATS: usize = 100;
/// So many are made.
const TARGETS: usize = 300;
/// Virtual nodes that may have a watch each, and the watch that they share when they are more.
const WATCHES: i64 = 64 + 1;

/// In the order of their making.
fn target(number: usize) -> String {
    format!("t{number:03}")
}

fn node(number: usize) -> String {
    format!("admiralty-{HOME}-{}", target(number))
}

fn names(numbers: impl Iterator<Item = usize>) -> BTreeSet<String> {
    numbers.map(node).collect()
}

/// Names of the virtual nodes that there are.
async fn nodes(bench: &Bench) -> BTreeSet<String> {
    let nodes = bench.nodes().list(&ListParams::default()).await.unwrap();
    let names = nodes.items.into_iter().filter_map(|it| it.metadata.name);
    names.collect()
}

fn leases(bench: &Bench) -> Api<Lease> {
    Api::namespaced(bench.source.admin(), "kube-node-lease")
}

fn renewed(lease: &Lease) -> Option<MicroTime> {
    lease.spec.as_ref()?.renew_time.clone()
}

/// Waits for some heartbeats of a node: whatever else was to be made at the same time is there by then.
async fn beats(bench: &Bench, node: &str) {
    let leases = leases(bench);
    let mut last = None;
    for _ in 0..4 {
        let later = |lease: &Lease| renewed(lease) > last;
        let lease = wait_for(&leases, node, later, LIMIT).await.unwrap();
        last = renewed(&lease);
    }
}

/// Watches of pods that the source's API server serves now.
async fn pod_watches(client: &Client) -> i64 {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let wanted = |line: &&str| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"pods\"")
            && line.contains("verb=\"WATCH\"")
    };
    let counts = text.lines().filter(wanted).map(|line| {
        let (_, count) = line.rsplit_once(' ').unwrap();
        count.parse::<i64>().unwrap()
    });
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_targets_of_a_namespace_have_a_hundred_nodes_and_few_watches() {
    let bench = Bench::start("vnode-many").await;
    let admin = bench.source.admin();
    let before = pod_watches(&admin).await;
    for number in 0..TARGETS {
        bench.connect_nothing(&target(number)).await;
    }
    let oldest = names(0..SEATS);
    let all_beat = |seen: &BTreeMap<_, Lease>| {
        let names = seen.values().filter_map(|it| it.metadata.name.clone());
        oldest.is_subset(&names.collect())
    };
    list_until(&leases(&bench), watcher::Config::default(), all_beat, LIMIT)
        .await
        .unwrap();
    beats(&bench, &node(SEATS - 1)).await;
    assert_eq!(nodes(&bench).await, oldest);
    let beating = leases(&bench).list(&ListParams::default()).await.unwrap();
    assert_eq!(beating.items.len(), SEATS);
    let watches = pod_watches(&admin).await - before;
    assert!(
        (1..=WATCHES).contains(&watches),
        "{watches} watches of pods"
    );

    // What is on their nodes is seen all the same: a deletion there needs no kubelet.
    let pods: Api<Pod> = Api::namespaced(admin.clone(), HOME);
    let strays = [0, SEATS / 2, SEATS - 1].map(|number| (format!("stray-{number}"), node(number)));
    let ending = strays.iter().map(|(name, node)| {
        let pods = pods.clone();
        async move {
            let stray = build::pod(name).node_name(node).build();
            pods.create(&PostParams::default(), &stray).await.unwrap();
            let grace = DeleteParams::default().grace_period(30);
            pods.delete(name, &grace).await.unwrap();
            wait_gone(&pods, name, LIMIT).await.unwrap();
        }
    });
    join_all(ending).await;

    // One goes, and it is the next one's turn: its node comes, with its heartbeat, and what is on it is seen.
    let gone = target(0);
    bench
        .targets()
        .delete(&gone, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bench.nodes(), &node(0), LIMIT).await.unwrap();
    wait_gone(&bench.targets(), &gone, LIMIT).await.unwrap();
    beats(&bench, &node(SEATS)).await;
    assert_eq!(nodes(&bench).await, names(1..=SEATS));
    let stray = build::pod("late").node_name(&node(SEATS)).build();
    pods.create(&PostParams::default(), &stray).await.unwrap();
    let grace = DeleteParams::default().grace_period(30);
    pods.delete("late", &grace).await.unwrap();
    wait_gone(&pods, "late", LIMIT).await.unwrap();

    // A node that is there has its heartbeat, whoever made it and whenever: pods may be on it.
    let number = TARGETS - 1;
    let other: Node = build::node(&node(number))
        .label(keys::PROVIDER, keys::PROVIDER_VALUE)
        .label(keys::TARGET_NAMESPACE, HOME)
        .label(keys::TARGET_NAME, target(number))
        .build();
    bench
        .nodes()
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    beats(&bench, &node(number)).await;

    // Who never had a node goes at once.
    bench
        .targets()
        .delete(&target(number - 1), &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bench.targets(), &target(number - 1), LIMIT)
        .await
        .unwrap();
}
