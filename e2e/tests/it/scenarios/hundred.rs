//! A hundred pods go to three targets, each to exactly one: by audit logs, so not only in the end.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{PostParams, WatchParams};
use kube::{Api, ResourceExt};
use pilotage_testkit::audit::Entry;
use pilotage_testkit::build::pod;
use pilotage_testkit::{Recorder, wait_count};

use super::place::{LIMIT, Place, TARGETS, is_running, node_of, parent};

const PODS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_a_hundred_pods_is_bound_exactly_once() {
    let place = Place::open("hundred", &TARGETS).await;
    // Which pod of a target belongs to which pod of the source, losers included.
    let mut recorders = BTreeMap::new();
    for target in TARGETS {
        let recorder = Recorder::start(place.delegates(target), WatchParams::default()).await;
        recorders.insert(target, recorder.unwrap());
    }
    let pods = place.pods();
    stream::iter(0..PODS)
        .map(|index| {
            let pod = pod(&format!("p-{index}"))
                .elect()
                .request("cpu", "100m")
                .build();
            let pods = pods.clone();
            async move { pods.create(&PostParams::default(), &pod).await.unwrap() }
        })
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    let everything = kube::runtime::watcher::Config::default();
    let running = wait_count(&pods, everything, PODS, is_running, LIMIT * 2)
        .await
        .unwrap();

    let in_source = place
        .fleet
        .source
        .plane
        .audit()
        .unwrap()
        .entries()
        .await
        .unwrap();
    let mut delegates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut requests: BTreeMap<(&str, String, String), usize> = BTreeMap::new();
    count(&mut requests, "source", &in_source, &place.namespace);
    for target in TARGETS {
        let recorded = recorders[target].events().unwrap();
        let parents: BTreeMap<String, String> = recorded
            .iter()
            .map(|event| (event.object.name_any(), parent(&event.object)))
            .collect();
        let entries = place
            .target(target)
            .plane
            .audit()
            .unwrap()
            .entries()
            .await
            .unwrap();
        count(&mut requests, "targets", &entries, &place.namespace);
        for entry in bindings(&entries, &place.namespace) {
            let uid = parents[&entry.name].clone();
            delegates
                .entry(uid)
                .or_default()
                .push((target.to_owned(), entry.name.clone()));
        }
    }
    for proxy in &running {
        let name = proxy.name_any();
        let own = bindings(&in_source, &place.namespace).filter(|entry| entry.name == name);
        assert_eq!(own.count(), 1, "bindings of {name} in the source");
        let bound = &delegates[&proxy.uid().unwrap()];
        assert_eq!(bound.len(), 1, "bindings of {name} in targets: {bound:?}");
        let (target, delegate) = &bound[0];
        assert_eq!(node_of(proxy), place.node(target), "{name}");
        let delegate = place.delegates(target).get(delegate).await.unwrap();
        let nodes: Api<Node> = Api::all(place.target(target).plane.admin());
        assert!(
            nodes.get_opt(&node_of(&delegate)).await.unwrap().is_some(),
            "{name}"
        );
    }
    let total: usize = delegates.values().map(Vec::len).sum();
    assert_eq!(total, PODS);
    let used: std::collections::BTreeSet<_> = running.iter().map(node_of).collect();
    assert_eq!(
        used.len(),
        TARGETS.len(),
        "targets that were used: {used:?}"
    );
    report(&requests);
    forbidden_nothing(&place).await;
    place.close().await;
}

fn bindings<'a>(
    entries: &'a [Entry],
    namespace: &'a str,
) -> impl Iterator<Item = &'a Entry> + use<'a> {
    entries
        .iter()
        .filter(move |entry| entry.is_binding() && entry.namespace == namespace)
}

/// Adds Pilotage's own requests about the objects of the namespace.
fn count<'a>(
    requests: &mut BTreeMap<(&'a str, String, String), usize>,
    side: &'a str,
    entries: &[Entry],
    namespace: &str,
) {
    for entry in entries {
        let ours = entry.user_agent.starts_with("pilotage/") && entry.verb != "watch";
        if ours && entry.namespace == namespace {
            let key = (side, entry.verb.clone(), entry.full_resource());
            *requests.entry(key).or_default() += 1;
        }
    }
}

/// For the notes of a change: what a pod costs.
fn report(requests: &BTreeMap<(&str, String, String), usize>) {
    let per_pod = |count: usize| format!("{:.2}", count as f64 / PODS as f64);
    for ((side, verb, resource), count) in requests {
        println!(
            "requests per pod in {side}: {verb} {resource} {}",
            per_pod(*count)
        );
    }
    println!(
        "requests per pod in all: {}",
        per_pod(requests.values().sum())
    );
}

/// No part was refused anything: its generated role is enough.
async fn forbidden_nothing(place: &Place) {
    for cluster in place.fleet.all() {
        let entries = cluster.plane.audit().unwrap().entries().await.unwrap();
        let refused: Vec<_> = entries
            .iter()
            .filter(|entry| {
                entry.code == 403 && entry.user.starts_with("system:serviceaccount:pilotage:")
            })
            .map(|entry| format!("{}: {} {}", entry.user, entry.verb, entry.uri))
            .collect();
        assert!(refused.is_empty(), "{}: {refused:#?}", cluster.name());
    }
}
