//! A hundred pods and three targets: each runs once, on a real node of the target that its virtual node names.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher};
use pilotage_testkit::{bindings, wait_count};

use super::{LIMIT, Shop, TARGETS, elected, is_running, node_of};

const PODS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_run_once_each_where_their_virtual_node_says() {
    let shop = Shop::open("hundred").await;
    let api = shop.pods();
    let create = async |index| {
        shop.create(&elected(&format!("web-{index:03}"), "250m"))
            .await;
    };
    // As many at once as a controller sends: an API server has 5 s for the webhook's answer to each.
    let created = stream::iter(0..PODS).map(create).buffer_unordered(16);
    created.collect::<Vec<_>>().await;
    let all = watcher::Config::default();
    let proxies = match wait_count(&api, all, PODS, is_running, LIMIT * 6).await {
        Ok(proxies) => proxies,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    };

    // Where each delegate is, as its own cluster says.
    let mut real = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for target in TARGETS {
        for pod in shop
            .pods_in(target)
            .list(&ListParams::default())
            .await
            .unwrap()
        {
            if let Some(node) = node_of(&pod) {
                let name = pod.metadata.name.clone().unwrap();
                let before = real.insert(name, (target, node.to_owned()));
                assert_eq!(before, None, "no delegate of one name in two targets");
            }
        }
        let api: Api<Node> = Api::all(shop.target(target).plane.admin());
        let names = api
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter();
        nodes.insert(
            target,
            names
                .filter_map(|n| n.metadata.name)
                .collect::<BTreeSet<_>>(),
        );
    }
    for proxy in &proxies {
        let (target, node) = &real[&chaperon_name(proxy)];
        assert_eq!(node_of(proxy), Some(shop.virtual_node(target).as_str()));
        assert!(nodes[target].contains(node), "{node} is a node of {target}");
    }

    // Not a last look, but every binding that an API server ever accepted.
    let mut bound: BTreeMap<String, usize> = BTreeMap::new();
    for target in TARGETS {
        let audit = shop.target(target).plane.audit().unwrap();
        let entries = audit.entries_in(&shop.name).await.unwrap();
        // Each target by itself: one that came too late in one of them counts beside an accepted one in another.
        for (name, times) in bindings(&entries) {
            *bound.entry(name).or_default() += times;
        }
    }
    let expected = proxies
        .iter()
        .map(|proxy| (chaperon_name(proxy), 1))
        .collect();
    assert_eq!(
        bound, expected,
        "exactly one binding for each pod, over all targets"
    );

    // Losers are released.
    for target in TARGETS {
        let mine = |pod: &Pod| {
            node_of(pod).is_some_and(|_| real[pod.metadata.name.as_ref().unwrap()].0 == target)
        };
        let bound = real.values().filter(|(at, _)| *at == target).count();
        wait_count(
            &shop.pods_in(target),
            watcher::Config::default(),
            bound,
            mine,
            LIMIT,
        )
        .await
        .unwrap();
        let chaperons = shop.chaperons_in(target);
        wait_count(
            &chaperons,
            watcher::Config::default(),
            bound,
            |_| true,
            LIMIT,
        )
        .await
        .unwrap();
    }
}

fn chaperon_name(proxy: &Pod) -> String {
    let meta = &proxy.metadata;
    pilotage_api::names::chaperon(
        meta.namespace.as_deref().unwrap(),
        meta.name.as_deref().unwrap(),
        meta.uid.as_deref().unwrap(),
    )
}
