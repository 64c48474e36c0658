//! Many pods that use the same objects: copies are written when something changes and at no other time, and nobody
//! lists all pods for that.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use kube::runtime::watcher;
use pilotage_api::Right;
use pilotage_e2e::fleet::{SOURCE_ACCOUNT, Spec};
use pilotage_testkit::plane::audit::Policy;
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Shop, is_running, node_of, small_nodes, started};

const TARGETS: [&str; 2] = ["east", "west"];
/// Of 400m each: a target of eight cores takes twenty, so both have some.
const PODS: usize = 30;

fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "key": value },
    })
}

/// A pod that uses what all use, and these.
fn pod(name: &str, own: &str) -> Pod {
    let mut pod = build::pod(name).elect().request("cpu", "400m").build();
    let from = json!([
        { "configMapRef": { "name": own } },
        { "configMapRef": { "name": "shared" } },
        { "secretRef": { "name": "key" } },
        { "configMapRef": { "name": "marker", "optional": true } },
    ]);
    let spec = pod.spec.as_mut().unwrap();
    spec.containers[0].env_from = serde_json::from_value(from).unwrap();
    pod
}

fn says(value: &str) -> impl Fn(&ConfigMap) -> bool {
    move |map| map.data.as_ref().is_some_and(|data| data["key"] == value)
}

impl Shop {
    /// How often the source has written each copy in a target: `create configmaps/shared`.
    async fn writes(&self, target: &str) -> BTreeMap<String, usize> {
        let log = self.target(target).plane.audit().unwrap();
        let mut writes = BTreeMap::new();
        for entry in log.entries_in(&self.name).await.unwrap() {
            let by_source = entry.user.ends_with(&format!(":{SOURCE_ACCOUNT}"));
            let is_copy = ["configmaps", "secrets"].contains(&entry.resource.as_str());
            let reads = ["get", "list", "watch"].contains(&entry.verb.as_str());
            if by_source && is_copy && !reads && entry.accepted() {
                // What is created has its name in the body alone.
                let name = if entry.verb == "create" {
                    ""
                } else {
                    &entry.name
                };
                let what = format!("{} {}/{name}", entry.verb, entry.resource);
                *writes.entry(what).or_default() += 1;
            }
        }
        writes
    }

    /// How often Pilotage has listed all pods in the source. Those of a node are listed when it comes.
    async fn lists_of_pods(&self) -> usize {
        let log = self.fleet.source.plane.audit().unwrap();
        let lists = log.count(|entry| {
            let ours = entry.user_agent.starts_with("pilotage/");
            let lists = entry.verb == "list" && entry.resource == "pods";
            ours && lists && !entry.uri.contains("spec.nodeName")
        });
        lists.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_many_pods_are_written_once_a_change_and_no_pods_are_listed() {
    let mut spec = Spec::new()
        .source(|plane| plane.audit(Policy::All))
        .rights(&[Right::FollowConfigMaps, Right::FollowSecrets])
        .follow(&["configmaps", "secrets"])
        .flag("--kube-api-qps=500")
        .part_flag("controllers", "--target-api-qps=500")
        .part_flag("controllers", "--concurrent-follow-syncs=3");
    for name in TARGETS {
        let plane = ControlPlane::builder(name).controller_manager();
        spec = spec.target_plane(plane.kwok(small_nodes(name)).audit(Policy::All));
    }
    let shop = Shop::connected(started(spec).await, "many").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
        "stringData": { "k": "v" },
    });
    shop.apply("source", secret).await;
    shop.apply("source", config_map("shared", "1")).await;
    let lists = shop.lists_of_pods().await;
    assert!(lists > 0, "the log has what was asked for at the start");

    for number in 0..PODS {
        let own = format!("own-{number:02}");
        shop.apply("source", config_map(&own, "1")).await;
        shop.create(&pod(&format!("pod-{number:02}"), &own)).await;
    }
    let all = wait_count(
        &shop.pods(),
        watcher::Config::default(),
        PODS,
        is_running,
        LIMIT,
    )
    .await;
    let all = shop.seen(all);
    let mut here = BTreeMap::new();
    for target in TARGETS {
        let node = shop.virtual_node(target);
        let count = all.iter().filter(|pod| node_of(pod) == Some(&node)).count();
        assert!(count > 0, "{target} has none");
        here.insert(target, count);
        let maps: Api<ConfigMap> = shop.of(target);
        let is_own = |map: &ConfigMap| {
            let name = map.metadata.name.as_deref().unwrap();
            name.starts_with("own-")
        };
        shop.seen(wait_count(&maps, watcher::Config::default(), count, is_own, LIMIT).await);
        shop.seen(wait_for(&maps, "shared", says("1"), LIMIT).await);
        let secrets: Api<Secret> = shop.of(target);
        shop.seen(wait_for(&secrets, "key", |_| true, LIMIT).await);
    }

    // One more pod uses what is there already: it brings what is its own.
    shop.apply("source", config_map("last", "1")).await;
    shop.create(&pod("last", "last")).await;
    let last = shop.running("last").await;
    let (last_at, _) = shop.delegate(&last).await;
    let maps: Api<ConfigMap> = shop.of(last_at);
    shop.seen(wait_for(&maps, "last", says("1"), LIMIT).await);
    let mut before = BTreeMap::new();
    for target in TARGETS {
        let own = here[target] + usize::from(target == last_at);
        let want = [
            ("create configmaps/".to_owned(), own + 1),
            ("create secrets/".to_owned(), 1),
        ];
        assert_eq!(shop.writes(target).await, want.into(), "{target}");
        before.insert(target, shop.writes(target).await);
    }

    // What all of them use changes, and what one of them uses.
    shop.apply("source", config_map("shared", "2")).await;
    shop.apply("source", config_map("last", "2")).await;
    for target in TARGETS {
        let maps: Api<ConfigMap> = shop.of(target);
        shop.seen(wait_for(&maps, "shared", says("2"), LIMIT).await);
    }
    shop.seen(wait_for(&maps, "last", says("2"), LIMIT).await);
    // What comes last everywhere: whatever else those changes caused has been written before.
    shop.apply("source", config_map("marker", "1")).await;
    for target in TARGETS {
        let maps: Api<ConfigMap> = shop.of(target);
        shop.seen(wait_for(&maps, "marker", says("1"), LIMIT).await);
    }
    for target in TARGETS {
        let mut want = before[target].clone();
        *want.entry("create configmaps/".to_owned()).or_default() += 1;
        want.insert("update configmaps/shared".to_owned(), 1);
        if target == last_at {
            want.insert("update configmaps/last".to_owned(), 1);
        }
        assert_eq!(shop.writes(target).await, want, "{target}");
    }
    assert_eq!(shop.lists_of_pods().await, lists, "nobody lists pods again");
}
