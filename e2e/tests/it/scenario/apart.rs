//! Deployments whose replicas hard constraints keep apart in each target, while they are scaled and rolled: the
//! constraints hold among candidates of other targets' winners, and for those who come while others go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    Affinity, Pod, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt, runtime::watcher};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::{build, build::PodBuilder, list_until, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Lasting, Shop, node_of, scheduled};

/// Each with a node in each zone.
const TARGETS: [&str; 2] = ["east", "west"];
const ZONES: [&str; 3] = ["a", "b", "c"];
/// Of each Deployment: as many as there are nodes.
const REPLICAS: usize = TARGETS.len() * ZONES.len();
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// By this the pods of one version of a Deployment are told from those of another.
const VERSION: &str = "pod-template-hash";

async fn fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    let spec = || {
        let mut spec = Spec::new();
        for target in TARGETS {
            let nodes = ZONES.map(|zone| {
                let node = build::node(&format!("{target}-{zone}"));
                node.label(ZONE, zone).build()
            });
            spec = spec.target(target, nodes);
        }
        spec
    };
    FLEET.fleet(spec).await
}

async fn open(prefix: &str) -> Shop {
    Shop::connected(fleet().await, prefix).await
}

/// A Deployment named `web`.
struct Web<'a> {
    shop: &'a Shop,
    api: Api<Deployment>,
}

impl<'a> Web<'a> {
    async fn create(shop: &'a Shop, shape: impl FnOnce(PodBuilder) -> PodBuilder) -> Self {
        let api: Api<Deployment> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
        let replicas = i32::try_from(REPLICAS).unwrap();
        let web = build::deployment("web").replicas(replicas);
        let web = web.pod(|pod| shape(pod.elect().request("cpu", "100m")));
        api.create(&PostParams::default(), &web.build())
            .await
            .unwrap();
        Self { shop, api }
    }

    async fn patch(&self, patch: Value) {
        self.api
            .patch("web", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn scale(&self, replicas: usize) {
        self.patch(json!({ "spec": { "replicas": replicas } }))
            .await;
    }

    async fn roll(&self) {
        let annotations = json!({ "example.com/version": "second" });
        let template = json!({ "metadata": { "annotations": annotations } });
        self.patch(json!({ "spec": { "template": template } }))
            .await;
    }

    /// Waits until all replicas are available, of the newest version, and no others are left.
    async fn complete(&self) {
        let is_complete = |web: &Deployment| {
            let status = web.status.clone().unwrap_or_default();
            let wanted = web.spec.as_ref().and_then(|spec| spec.replicas);
            let counts = [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ];
            status.observed_generation == web.metadata.generation
                && counts.iter().all(|count| *count == wanted)
        };
        if let Err(error) = wait_for(&self.api, "web", is_complete, 3 * LIMIT).await {
            let pods = self.shop.pods().list(&ListParams::default()).await.unwrap();
            let pods = pods.iter().map(|pod| (pod.name_any(), pod.status.clone()));
            let pods: Vec<_> = pods.collect();
            panic!("{error}: {pods:#?}\nlogs: {:#?}", self.shop.fleet.logs());
        }
        // Those before them end by and by.
        let pods = self.shop.pods();
        let all = watcher::Config::default();
        list_until(&pods, all, |pods| pods.len() == REPLICAS, LIMIT)
            .await
            .unwrap();
    }

    /// The node of each replica, and the replica's version.
    async fn nodes(&self) -> Vec<(String, String)> {
        let mut nodes = Vec::new();
        for proxy in self.shop.pods().list(&ListParams::default()).await.unwrap() {
            let (_, delegate) = self.shop.delegate(&proxy).await;
            let version = proxy.labels()[VERSION].clone();
            nodes.push((node_of(&delegate).unwrap().to_owned(), version));
        }
        nodes
    }
}

/// The pods of `web`.
fn its_pods() -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
        ..LabelSelector::default()
    }
}

/// Evenly over zones, each version for itself.
fn evenly(pod: PodBuilder) -> PodBuilder {
    pod.spread(TopologySpreadConstraint {
        match_label_keys: Some(vec![VERSION.to_owned()]),
        ..even()
    })
}

/// Evenly over zones, whatever their version; a node has room for one.
fn evenly_without_room(pod: PodBuilder) -> PodBuilder {
    pod.spread(even()).request("cpu", "3")
}

fn even() -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(its_pods()),
        ..TopologySpreadConstraint::default()
    }
}

/// Not on a node with another one.
fn alone(pod: PodBuilder) -> PodBuilder {
    away_from(pod, None)
}

/// Not on a node with another one of its version.
fn alone_of_its_version(pod: PodBuilder) -> PodBuilder {
    away_from(pod, Some(vec![VERSION.to_owned()]))
}

fn away_from(pod: PodBuilder, match_label_keys: Option<Vec<String>>) -> PodBuilder {
    let term = PodAffinityTerm {
        topology_key: HOST.to_owned(),
        label_selector: Some(its_pods()),
        match_label_keys,
        ..PodAffinityTerm::default()
    };
    pod.affinity(Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// How many replicas each zone of each target has, of those with replicas at all.
fn zones(nodes: &[(String, String)]) -> BTreeMap<&str, [usize; 3]> {
    let mut zones: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (node, _) in nodes {
        let (target, zone) = node.split_once('-').unwrap();
        let zone = ZONES.iter().position(|it| *it == zone).unwrap();
        zones.entry(target).or_default()[zone] += 1;
    }
    zones
}

fn assert_even(nodes: &[(String, String)]) {
    assert_eq!(nodes.len(), REPLICAS);
    for (target, counts) in zones(nodes) {
        let skew = counts.iter().max().unwrap() - counts.iter().min().unwrap();
        assert!(skew <= 1, "{target}: {counts:?}");
    }
}

fn assert_each_alone(nodes: &[(String, String)]) {
    let distinct: BTreeSet<_> = nodes.iter().map(|(node, _)| node).collect();
    assert_eq!(distinct.len(), REPLICAS, "{nodes:?}");
}

fn versions(nodes: &[(String, String)]) -> BTreeSet<&str> {
    nodes.iter().map(|(_, version)| version.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_stay_spread_evenly_while_they_are_rolled() {
    let shop = open("evenly").await;
    let web = Web::create(&shop, evenly).await;
    web.complete().await;
    let first = web.nodes().await;
    assert_even(&first);

    web.roll().await;
    web.complete().await;
    let second = web.nodes().await;
    assert_even(&second);
    assert_eq!(versions(&second).len(), 1);
    assert_ne!(versions(&first), versions(&second));
}

/// A new one has room only where an old one was, and by the constraint only there.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_wait_for_those_before_them_are_spread_evenly_in_the_end() {
    let shop = open("in-turn").await;
    let web = Web::create(&shop, evenly_without_room).await;
    web.complete().await;
    let first = web.nodes().await;
    assert_each_alone(&first);

    web.roll().await;
    web.complete().await;
    let second = web.nodes().await;
    assert_even(&second);
    assert_each_alone(&second);
    assert_eq!(versions(&second).len(), 1);
    assert_ne!(versions(&first), versions(&second));
}

/// Nobody goes before somebody new is there, for whom there is no node without an old one.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_keep_their_own_version_away_share_nodes_with_those_before_them() {
    let shop = open("versions").await;
    let web = Web::create(&shop, alone_of_its_version).await;
    let first_new = json!({ "maxSurge": "100%", "maxUnavailable": 0 });
    web.patch(json!({ "spec": { "strategy": { "rollingUpdate": first_new } } }))
        .await;
    web.complete().await;
    let first = web.nodes().await;
    assert_each_alone(&first);

    web.roll().await;
    web.complete().await;
    let second = web.nodes().await;
    assert_each_alone(&second);
    assert_eq!(versions(&second).len(), 1);
    assert_ne!(versions(&first), versions(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_replicas_as_nodes_have_one_each_and_one_more_waits_and_says_why() {
    let shop = open("alone").await;
    let web = Web::create(&shop, alone).await;
    web.complete().await;
    assert_each_alone(&web.nodes().await);

    web.scale(REPLICAS + 1).await;
    let refusals = TARGETS.map(|name| format!("{} refused [", shop.virtual_node(name)));
    let says_why = |pod: &Pod| {
        scheduled(pod).is_some_and(|(status, reason, message)| {
            let told = refusals.iter().all(|refused| {
                let why = message.split_once(refused).map_or("", |(_, why)| why);
                why.starts_with("3 node(s) didn't match pod anti-affinity rules")
            });
            (status, reason) == ("False", "Unschedulable") && told
        })
    };
    let (pods, all) = (shop.pods(), watcher::Config::default());
    let waits = list_until(&pods, all, |pods| pods.values().any(says_why), 2 * LIMIT);
    if let Err(error) = waits.await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }

    // It is the first to go.
    web.scale(REPLICAS).await;
    web.complete().await;
    assert_each_alone(&web.nodes().await);

    // There is no node for a new one until one before it has gone.
    web.roll().await;
    web.complete().await;
    let nodes = web.nodes().await;
    assert_each_alone(&nodes);
    assert_eq!(versions(&nodes).len(), 1);
}
