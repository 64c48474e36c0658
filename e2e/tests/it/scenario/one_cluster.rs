//! Several Targets lead to one cluster: whichever a pod goes by, it has one delegate, which nobody takes for a
//! leftover.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::watcher;
use pilotage_api::{ClusterTarget, PodChaperon, Right, Target, keys};
use pilotage_e2e::fleet::{SOURCE_ACCOUNT, Spec, secret, target_object};
use pilotage_testkit::{ControlPlane, build, plane::audit::Policy, wait_count, wait_gone};
use serde_json::json;

use super::follow::config_map;
use super::{LIMIT, Shop, elected, small_nodes, started};

/// A pod that only the virtual node with this label may take.
fn pinned(name: &str, label: &str, value: &str) -> Pod {
    let constraints = json!({ "nodeSelector": { label: value } });
    let pod = build::pod(name).elect().request("cpu", "100m");
    let pod = pod.annotation(keys::PROXY_CONSTRAINTS, constraints.to_string());
    pod.build()
}

impl Shop {
    /// UIDs of all chaperons in the target, by the names of their pods.
    async fn chaperons_by_pod(&self, target: &str) -> BTreeMap<String, String> {
        let all = self.chaperons_in(target).list(&ListParams::default()).await;
        let all = all.unwrap().items.into_iter().map(|chaperon| {
            let annotations = chaperon.metadata.annotations.unwrap();
            let pod = annotations[keys::PARENT_NAME].clone();
            (pod, chaperon.metadata.uid.unwrap())
        });
        all.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_virtual_nodes_of_one_cluster_share_its_pods() {
    let there = ControlPlane::builder("there").controller_manager();
    let there = there.kwok(small_nodes("there")).audit(Policy::Writes);
    let spec = Spec::new().target_plane(there);
    let spec = spec.rights(&[Right::FollowConfigMaps]);
    let fleet = started(spec.follow(&["configmaps"])).await;
    // Everybody's, and two of the namespace's own.
    fleet.connect_everywhere().await.unwrap();
    let shop = Shop::connected(fleet, "twins").await;
    let target = shop.target("there");
    let account = target.source_kubeconfig(SOURCE_ACCOUNT, &shop.name);
    let kubeconfig = account.await.unwrap();
    let source = &shop.fleet.source;
    for object in [
        secret("again", &shop.name, &kubeconfig),
        target_object("again", &shop.name),
    ] {
        source.plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    source.connected("again", &shop.name).await.unwrap();

    shop.apply("source", config_map("settings", "1")).await;
    let mut by_there = pinned("by-there", keys::TARGET_NAME, "there");
    let settings = json!([{ "configMapRef": { "name": "settings" } }]);
    let spec = by_there.spec.as_mut().unwrap();
    spec.containers[0].env_from = serde_json::from_value(settings).unwrap();
    let mut pods = vec![
        by_there,
        pinned("by-again", keys::TARGET_NAME, "again"),
        pinned("by-everybodys", keys::CLUSTER_TARGET_NAME, "there"),
    ];
    pods.extend((0..6).map(|number| elected(&format!("any-{number}"), "100m")));
    let mut nodes = BTreeMap::new();
    for pod in &pods {
        shop.create(pod).await;
    }
    for pod in &pods {
        let name = pod.metadata.name.as_deref().unwrap();
        let proxy = shop.running(name).await;
        // Checks that there is just one.
        shop.delegate(&proxy).await;
        nodes.insert(name, proxy.spec.unwrap().node_name.unwrap());
    }
    let again = shop.virtual_node("again");
    assert_eq!(nodes["by-again"], again);
    assert_eq!(nodes["by-there"], shop.virtual_node("there"));
    assert_eq!(nodes["by-everybodys"], "admiralty-there");
    let known = shop.chaperons_by_pod("there").await;
    assert_eq!(known.len(), pods.len());

    // Each goes with its own pods, and leaves alone the others' and what these need.
    let targets: Api<Target> = shop.of("source");
    let everybodys: Api<ClusterTarget> = Api::all(source.plane.admin());
    let now = DeleteParams::default();
    targets.delete("again", &now).await.unwrap();
    everybodys.delete("there", &now).await.unwrap();
    shop.seen(wait_gone(&targets, "again", LIMIT).await);
    shop.seen(wait_gone(&everybodys, "there", LIMIT).await);
    let there = shop.virtual_node("there");
    let mut left = known;
    left.retain(|pod, _| nodes[pod.as_str()] == there);
    let stay: Vec<String> = left.keys().cloned().collect();
    for pod in &stay {
        shop.running(pod).await;
    }
    assert_eq!(shop.chaperons_by_pod("there").await, left);
    let maps: Api<ConfigMap> = shop.of("there");
    maps.get("settings").await.unwrap();

    for pod in &stay {
        shop.delete(pod).await;
    }
    let all = watcher::Config::default();
    let chaperons = shop.chaperons_in("there");
    let gone = wait_count(&chaperons, all, 0, |_: &PodChaperon| true, LIMIT).await;
    shop.seen(gone);
    // No question was asked in vain: who is asked behind two virtual nodes has one chaperon.
    let log = target.plane.audit().unwrap().entries().await.unwrap();
    let made = log.iter().filter(|entry| {
        let verb_and_kind = (entry.verb.as_str(), entry.full_resource());
        entry.accepted()
            && entry.namespace == shop.name
            && matches!(&verb_and_kind, ("create" | "patch", kind) if kind == "podchaperons")
            && entry.code == 201
    });
    assert_eq!(made.count(), pods.len());
}
