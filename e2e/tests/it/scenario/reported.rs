//! What users of Admiralty reported, where no other scenario is about it: namespaces that aren't in all clusters or
//! have no label, and objects that a restored data store brings back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{build, unique, wait_count, wait_for, wait_gone};

use super::{
    LIMIT, Shop, elected, is_running, node_of, scheduled, shared_fleet, small_nodes, started,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_one_target_lacks_keeps_no_pod_from_the_others() {
    let large = build::nodes("east", 1, |node| node.cpu("8").memory("16Gi").pods(110));
    let spec = Spec::new().target("east", large);
    let fleet = started(spec.target("west", small_nodes("west"))).await;
    fleet.connect_everywhere().await.unwrap();
    let name = format!("lacking-{}", unique());
    let mut namespaces = Vec::new();
    for cluster in [&fleet.source, fleet.target("west").unwrap()] {
        let made = cluster.plane.named_namespace(&name, BTreeMap::new()).await;
        namespaces.push(made.unwrap());
    }
    fleet.elect(&name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet,
        _namespaces: namespaces,
    };

    // East alone has a node for it.
    shop.create(&elected("large", "6")).await;
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(_, _, message)| {
            let lacks = format!("namespaces \"{name}\" not found");
            message.contains("admiralty-east refused [") && message.contains(&lacks)
        })
    };
    shop.seen(wait_for(&shop.pods(), "large", told, LIMIT).await);
    shop.create(&elected("small", "100m")).await;
    let small = shop.running("small").await;
    assert_eq!(node_of(&small), Some("admiralty-west"));

    // Somebody makes it; nobody else has to do anything.
    let east = &shop.target("east").plane;
    let _namespace = east.named_namespace(&name, BTreeMap::new()).await.unwrap();
    let large = wait_for(&shop.pods(), "large", is_running, 2 * LIMIT).await;
    assert_eq!(node_of(&shop.seen(large)), Some("admiralty-east"));
    shop.delete("large").await;
    shop.delete("small").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotated_pod_in_a_namespace_without_the_label_stays_as_it_is() {
    let plain = Shop::unconnected(shared_fleet().await, "unlabelled").await;
    plain.create(&elected("web", "100m")).await;
    // Whoever saw it goes on.
    let shop = Shop::connected(plain.fleet.clone(), "labelled").await;
    shop.create(&elected("web", "100m")).await;
    shop.running("web").await;
    shop.delete("web").await;
    let web = plain.pods().get("web").await.unwrap();
    assert_eq!(web.finalizers(), [""; 0]);
    assert!(web.labels().is_empty(), "{:?}", web.labels());
    let annotations: Vec<&str> = web.annotations().keys().map(String::as_str).collect();
    assert_eq!(annotations, [keys::ELECT]);
    let scheduler = web.spec.unwrap().scheduler_name;
    assert_eq!(scheduler.as_deref(), Some("default-scheduler"));
    plain.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restored_target_brings_back_of_a_pod_that_has_ended_goes() {
    let shop = Shop::open("restored").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let chaperons = shop.chaperons_in(target);
    let uid = proxy.uid().unwrap();
    let selector = format!("{}={uid}", keys::PARENT_UID);
    let of_it = || watcher::Config::default().labels(&selector);
    let before = wait_count(&chaperons, of_it(), 1, |_| true, LIMIT).await;
    let mut before = shop.seen(before).remove(0);
    shop.delete("web").await;
    let name = before.name_any();
    shop.seen(wait_gone(&chaperons, &name, LIMIT).await);

    // As it was in the backup, with its grant and its finalizer.
    let meta = &mut before.metadata;
    (meta.uid, meta.resource_version, meta.managed_fields) = (None, None, None);
    let params = PostParams::default();
    chaperons.create(&params, &before).await.unwrap();
    shop.seen(wait_gone(&chaperons, &name, LIMIT).await);
    let delegates = shop.pods_in(target);
    let none = wait_count(&delegates, of_it(), 0, |_| true, LIMIT).await;
    shop.seen(none);
}
