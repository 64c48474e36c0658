//! A cluster that is a target of its own, with all parts in one process: for every namespace, and for a tenant's.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_api::{GROUP, PodChaperon, Target, VERSION, names};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::{build, wait_count, wait_for};
use serde_json::json;

use super::identity::may;
use super::{LIMIT, Shop, elected, node_of, scheduled, small_nodes, started};

async fn fleet() -> Arc<Fleet> {
    let spec = Spec::new()
        .one_process()
        .source(|plane| plane.kwok(small_nodes("own")));
    started(spec).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_its_own_cluster_serves_a_tenant_within_its_quota_or_everybody() {
    let fleet = fleet().await;
    a_tenant_alone(fleet.clone()).await;
    everybody(fleet).await;
}

async fn everybody(fleet: Arc<Fleet>) {
    let shop = Shop::unconnected(fleet, "self").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let target = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    shop.fleet
        .source
        .plane
        .apply_yaml(&target.to_string())
        .await
        .unwrap();
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    assert_eq!(
        node_of(&proxy),
        Some(names::virtual_node(None, "here").as_str())
    );
    let delegate = names::chaperon(&shop.name, "web", proxy.metadata.uid.as_deref().unwrap());
    let delegate = shop.pods().get(&delegate).await.unwrap();
    assert!(node_of(&delegate).is_some_and(|node| node.starts_with("own-")));

    // Its own scheduler takes it, in the target, after the choice.
    let unreserved = build::pod("plain")
        .elect()
        .annotation(pilotage_api::keys::NO_RESERVATION, "")
        .build();
    shop.create(&unreserved).await;
    let name = |pod: &Pod| {
        let scheduler = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.scheduler_name.as_deref());
        scheduler == Some("default-scheduler") && node_of(pod).is_none()
    };
    wait_count(&shop.pods(), watcher::Config::default(), 1, name, LIMIT)
        .await
        .unwrap();
    let proxy = shop.pods().get("plain").await.unwrap();
    assert_eq!(
        node_of(&proxy),
        None,
        "nobody binds the delegate, so the proxy waits"
    );

    shop.delete("web").await;
    shop.delete("plain").await;
    let chaperons: Api<PodChaperon> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    wait_count(&chaperons, watcher::Config::default(), 0, |_| true, LIMIT)
        .await
        .unwrap();
    wait_count(&shop.pods(), watcher::Config::default(), 0, |_| true, LIMIT)
        .await
        .unwrap();
}

/// Its account has `edit` there, and Targets, and makes one that is this very cluster.
async fn tenant_leads_home(shop: &Shop) -> Client {
    let access = shop.fleet.source.plane.tenant(&shop.name, "tenant").await;
    let tenant = access.unwrap().client().unwrap();
    let target = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Target",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    let targets: Api<Target> = Api::namespaced(tenant.clone(), &shop.name);
    let params = PatchParams::apply("tenant");
    let made = targets.patch("here", &params, &Patch::Apply(&target)).await;
    made.unwrap();
    tenant
}

/// Waits until a pod is told, as the reason why it waits, what contains these words.
async fn waits_since(shop: &Shop, name: &str, words: &str) -> Pod {
    let told = |pod: &Pod| scheduled(pod).is_some_and(|(_, _, message)| message.contains(words));
    let waited = wait_for(&shop.pods(), name, told, LIMIT).await;
    let pod = shop.seen(waited);
    assert_eq!(node_of(&pod), None);
    pod
}

async fn a_tenant_alone(fleet: Arc<Fleet>) {
    let shop = Shop::unconnected(fleet, "tenant").await;
    let other = Shop::unconnected(shop.fleet.clone(), "other").await;
    for namespace in [&shop.name, &other.name] {
        shop.fleet.elect(namespace).await.unwrap();
    }
    let quota = |pods: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": { "name": "pods" },
            "spec": { "hard": { "pods": pods } },
        })
    };
    let quotas: Api<ResourceQuota> = shop.of("source");
    let hard = |quota: &ResourceQuota| {
        let status = quota.status.clone().unwrap_or_default();
        Some(status.hard?.get("pods")?.0.clone())
    };
    // One is the proxy.
    shop.apply("source", quota("1")).await;
    let counted = |quota: &ResourceQuota| hard(quota).as_deref() == Some("1");
    shop.seen(wait_for(&quotas, "pods", counted, LIMIT).await);
    let tenant = tenant_leads_home(&shop).await;

    for (namespace, verb, resource, allowed) in [
        (&shop.name, "create", "pods", true),
        (&other.name, "create", "pods", false),
        (&shop.name, "create", "podchaperons", false),
        (&shop.name, "patch", "podchaperons", false),
        (&shop.name, "delete", "podchaperons", false),
    ] {
        let is = may(&tenant, namespace, verb, resource).await;
        assert_eq!(is, allowed, "{verb} {resource} in {namespace}");
    }

    shop.create(&elected("web", "100m")).await;
    other.create(&elected("web", "100m")).await;
    waits_since(&shop, "web", "exceeded quota").await;
    let words = "stood for a target of another namespace";
    waits_since(&other, "web", words).await;

    shop.apply("source", quota("2")).await;
    let proxy = shop.running("web").await;
    let node = names::virtual_node(Some(&shop.name), "here");
    assert_eq!(node_of(&proxy), Some(&*node));
    let delegate = names::chaperon(&shop.name, "web", proxy.metadata.uid.as_deref().unwrap());
    let delegate = shop.pods().get(&delegate).await.unwrap();
    assert!(node_of(&delegate).is_some_and(|node| node.starts_with("own-")));

    // Nobody has asked for the other one.
    let chaperons: Api<PodChaperon> = Api::all(shop.fleet.source.plane.admin());
    let chaperons = chaperons.list(&ListParams::default()).await.unwrap();
    let places = chaperons.items.iter().map(|it| &it.metadata.namespace);
    let places: Vec<_> = places.flatten().collect();
    assert_eq!(places, [&shop.name]);
    waits_since(&other, "web", words).await;
    let pods = other.pods().list(&ListParams::default()).await.unwrap();
    assert_eq!(pods.items.len(), 1);

    shop.delete("web").await;
    other.delete("web").await;
}
