//! Two sources share one namespace of one target and never touch each other's objects.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams, runtime::watcher};
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::{ControlPlane, TestNamespace, wait_count};

use super::{LIMIT, Shop, elected, small_nodes, started};

/// A source that uses the target of another fleet.
async fn second_source(name: &str) -> Arc<Fleet> {
    started(Spec::new().source(|_| ControlPlane::builder(name).controller_manager())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_with_pods_of_one_name_in_one_namespace_of_one_target() {
    let spec = Spec::new().target("shared", small_nodes("shared"));
    let (first, second) = tokio::join!(started(spec), second_source("second"));
    let shop = Shop::unconnected(first, "both").await;
    shop.fleet.connect(&shop.name).await.unwrap();

    // The second source is let in as another account, and knows the target by its own Target.
    let there: TestNamespace = second
        .source
        .plane
        .named_namespace(&shop.name, BTreeMap::new())
        .await
        .unwrap();
    second.elect(&shop.name).await.unwrap();
    let target = shop.target("shared");
    let kubeconfig = target.let_in("second", &shop.name).await.unwrap();
    for object in [
        pilotage_e2e::fleet::secret("shared", &shop.name, &kubeconfig),
        pilotage_e2e::fleet::target_object("shared", &shop.name),
    ] {
        second
            .source
            .plane
            .apply_yaml(&object.to_string())
            .await
            .unwrap();
    }
    second.source.connected("shared", &shop.name).await.unwrap();

    let second_shop = Shop {
        name: shop.name.clone(),
        fleet: second.clone(),
        _namespaces: vec![there],
    };
    for shop in [&shop, &second_shop] {
        shop.create(&elected("web", "100m")).await;
    }
    let (mine, theirs) = tokio::join!(shop.running("web"), second_shop.running("web"));
    let pods: Api<Pod> = shop.pods_in("shared");
    let found = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 2);
    let parents: Vec<_> = found
        .iter()
        .map(|pod| &pod.metadata.labels.as_ref().unwrap()[keys::PARENT_UID])
        .collect();
    for proxy in [&mine, &theirs] {
        assert!(parents.contains(&proxy.metadata.uid.as_ref().unwrap()));
    }

    // One source's end of a pod is nothing to the other.
    shop.delete("web").await;
    let chaperons = shop.chaperons_in("shared");
    let left = wait_count(
        &chaperons,
        watcher::Config::default(),
        1,
        |_: &PodChaperon| true,
        LIMIT,
    );
    let left = left.await.unwrap();
    assert_eq!(
        left[0].metadata.labels.as_ref().unwrap()[keys::PARENT_UID],
        theirs.metadata.uid.unwrap()
    );
    second_shop.running("web").await;
}
