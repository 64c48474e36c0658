//! A namespace is deleted, in a target or in the source, while pods run there.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    runtime::watcher,
};
use pilotage_api::{Right, Target, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{build, wait_count, wait_for, wait_gone};
use serde_json::json;

use super::follow::{config_map, reader, says};
use super::{LIMIT, Shop, elected, is_running, node_of, small_nodes, started};

async fn delete(plane: &pilotage_testkit::ControlPlane, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(plane.admin());
    namespaces
        .delete(namespace, &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&namespaces, namespace, LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_on_either_side_takes_its_pods_and_leaves_nothing() {
    let shop = Shop::open("gone").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;

    // In the target: the proxy goes when its delegate has gone, and the next pod runs elsewhere.
    delete(&shop.target(target).plane, &shop.name).await;
    wait_gone(&shop.pods(), "web", LIMIT).await.unwrap();
    // A namespace is looked at again after half of its pods' grace.
    let again = build::pod("again").elect().request("cpu", "100m").grace(1);
    shop.create(&again.build()).await;
    let (gone, without_access) = (shop.virtual_node(target), target);
    let elsewhere = |pod: &Pod| is_running(pod) && node_of(pod) != Some(&gone);
    wait_for(&shop.pods(), "again", elsewhere, LIMIT)
        .await
        .unwrap();
    let (target, delegate) = {
        let proxy = shop.running("again").await;
        let node = node_of(&proxy).unwrap().to_owned();
        let target = super::TARGETS
            .into_iter()
            .find(|t| shop.virtual_node(t) == node);
        let name = pilotage_api::names::chaperon(
            &shop.name,
            "again",
            proxy.metadata.uid.as_deref().unwrap(),
        );
        (target.unwrap(), name)
    };

    // The other one's namespace took our account there along: nobody can ask any more what is left, so somebody has to
    // say that nothing is waited for.
    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let forget = json!({ "metadata": { "annotations": { keys::FORGET: keys::TRUE } } });
    targets
        .patch(
            without_access,
            &PatchParams::default(),
            &Patch::Merge(&forget),
        )
        .await
        .unwrap();

    // In the source: nothing else holds it up, and the delegate goes.
    delete(&shop.fleet.source.plane, &shop.name).await;
    wait_gone(&shop.pods_in(target), &delegate, LIMIT)
        .await
        .unwrap();
    wait_gone(&shop.chaperons_in(target), &delegate, LIMIT)
        .await
        .unwrap();
}

/// Where the account of the source is in another namespace of the target, nobody has to say that nothing is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_by_itself_with_what_followed_its_pods() {
    let spec = Spec::new().target("east", small_nodes("east"));
    let spec = spec.rights(&[Right::FollowConfigMaps]);
    let fleet = started(spec.follow(&["configmaps"])).await;
    fleet.connect_everywhere().await.unwrap();
    for side in ["source", "east"] {
        let shop = Shop::unconnected(fleet.clone(), &format!("leaves-{side}")).await;
        fleet.elect(&shop.name).await.unwrap();
        shop.apply("source", config_map("settings", "1")).await;
        shop.create(&reader("web", "settings")).await;
        shop.running("web").await;
        let copies: Api<ConfigMap> = shop.of("east");
        shop.seen(wait_for(&copies, "settings", says("1"), LIMIT).await);
        if side == "east" {
            delete(&shop.target("east").plane, &shop.name).await;
            shop.seen(wait_gone(&shop.pods(), "web", LIMIT).await);
        }
        delete(&fleet.source.plane, &shop.name).await;
        let all = watcher::Config::default;
        let pods = wait_count(&shop.pods_in("east"), all(), 0, |_| true, LIMIT).await;
        shop.seen(pods);
        let chaperons = shop.chaperons_in("east");
        shop.seen(wait_count(&chaperons, all(), 0, |_| true, LIMIT).await);
        shop.seen(wait_gone(&copies, "settings", LIMIT).await);
    }
}
