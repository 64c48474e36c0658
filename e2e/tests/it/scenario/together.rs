//! Proxies are spread over regions, drawn to the cluster of another pod and kept out of it, as their annotation says.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher};
use pilotage_api::keys;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{build, wait_count, wait_for};

use super::{Fleet, LIMIT, Lasting, Shop, is_running, is_told, scheduled};

/// Targets, and where they are: one region has two.
const PLACES: [(&str, &str); 3] = [
    ("dublin", "eu-west-1"),
    ("cork", "eu-west-1"),
    ("virginia", "us-east-1"),
];

const REGION: &str = "topology.kubernetes.io/region";

async fn fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    let spec = || {
        let mut spec = Spec::new();
        for (name, region) in PLACES {
            let nodes = build::nodes(name, 1, |node| {
                let node = node.cpu("16").memory("64Gi").pods(110);
                node.label(REGION, region)
            });
            spec = spec.target(name, nodes);
        }
        spec
    };
    FLEET.fleet(spec).await
}

/// A namespace whose targets say where they are.
async fn open(prefix: &str) -> Shop {
    let shop = Shop::connected(fleet().await, prefix).await;
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    for (name, region) in PLACES {
        let says_where = |node: &Node| is_told(node, REGION, region);
        wait_for(&nodes, &shop.virtual_node(name), says_where, LIMIT)
            .await
            .unwrap();
    }
    shop
}

/// A pod of an application whose proxy has these constraints.
fn pod(name: &str, app: &str, constraints: &str) -> Pod {
    let pod = build::pod(name).elect().request("cpu", "50m");
    pod.label("app", app)
        .annotation(keys::PROXY_CONSTRAINTS, constraints)
        .build()
}

/// The target where a pod runs.
async fn runs_in<'a>(shop: &'a Shop, name: &str) -> &'a str {
    let proxy = shop.running(name).await;
    shop.delegate(&proxy).await.0
}

/// Waits until a pod says that it waits, in these words.
async fn waits(shop: &Shop, name: &str, words: &str) {
    let says = |pod: &Pod| {
        scheduled(pod)
            .is_some_and(|(status, _, message)| status == "False" && message.contains(words))
    };
    if let Err(error) = wait_for(&shop.pods(), name, says, LIMIT).await {
        let pod = shop.pods().get(name).await.unwrap();
        panic!("{error}: {:?}\nlogs: {:#?}", pod.status, shop.fleet.logs());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_replicas_is_spread_evenly_over_regions() {
    const PODS: usize = 40;
    let shop = open("regions").await;
    let spread = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {REGION}, whenUnsatisfiable: DoNotSchedule, \
         nodeTaintsPolicy: Ignore, labelSelector: {{matchLabels: {{app: web}}}}}}]"
    );
    let replicas: Vec<_> = (0..PODS)
        .map(|number| pod(&format!("web-{number:02}"), "web", &spread))
        .collect();
    join_all(replicas.iter().map(|pod| shop.create(pod))).await;
    let all = watcher::Config::default();
    let pods = match wait_count(&shop.pods(), all, PODS, is_running, LIMIT * 2).await {
        Ok(pods) => pods,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    };
    let mut regions: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in &pods {
        let (target, _) = shop.delegate(pod).await;
        let (_, region) = PLACES.iter().find(|(name, _)| *name == target).unwrap();
        *regions.entry(region).or_default() += 1;
    }
    let half = PODS / 2;
    let want = BTreeMap::from([("eu-west-1", half), ("us-east-1", half)]);
    assert_eq!(regions, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_wait_for_their_database_and_run_in_its_cluster() {
    let shop = open("database").await;
    let beside = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                  [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}";
    let clients = ["client-0", "client-1", "client-2"];
    for name in clients {
        shop.create(&pod(name, "client", beside)).await;
    }
    for name in clients {
        waits(&shop, name, "didn't match pod affinity rules").await;
    }
    // Nobody was asked for what can't be.
    for (target, _) in PLACES {
        let chaperons = shop.chaperons_in(target);
        let asked = chaperons.list(&ListParams::default()).await.unwrap();
        assert_eq!(asked.items.len(), 0, "{target}");
    }
    shop.create(&pod("db", "db", "")).await;
    let target = runs_in(&shop, "db").await;
    for name in clients {
        assert_eq!(runs_in(&shop, name).await, target);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_shun_each_other_have_a_cluster_each() {
    let shop = open("apart").await;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                 [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let first = ["web-0", "web-1", "web-2"];
    let pods = first.map(|name| pod(name, "web", apart));
    join_all(pods.iter().map(|pod| shop.create(pod))).await;
    let mut clusters = BTreeMap::new();
    for name in first {
        clusters.insert(runs_in(&shop, name).await, name);
    }
    assert_eq!(clusters.len(), PLACES.len(), "{clusters:?}");
    shop.create(&pod("web-3", "web", apart)).await;
    waits(&shop, "web-3", "didn't match pod anti-affinity rules").await;
    // Its turn comes when one of them goes.
    shop.delete(clusters["cork"]).await;
    assert_eq!(runs_in(&shop, "web-3").await, "cork");
}
