//! A source and a target that Admiralty 0.17 ran until now: its objects are made here as it leaves them. Pilotage starts, and
//! goes on with them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use pilotage_api::{GROUP, PodChaperon, Right, VERSION, keys, names};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, Spec, secret, target_object};
use pilotage_testkit::{ControlPlane, pilotage, unique, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, Shop, elected, is_running, node_of, small_nodes};

/// A name as an API server makes it up from `web-`.
const CHAPERON: &str = "web-x7k2p";
const NODE: &str = "near-0";

async fn apply(plane: &ControlPlane, object: &Value) {
    plane.apply_yaml(&object.to_string()).await.unwrap();
}

async fn bind(pods: &Api<Pod>, name: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let params = PostParams::default();
    pods.create_subresource::<_, Value>("binding", name, &params, &binding)
        .await
        .unwrap();
}

/// The virtual node of the Target `near`, with the labels that Admiralty gives it.
fn virtual_node(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": names::virtual_node(Some(namespace), "near"),
            "labels": {
                "type": "virtual-kubelet",
                "kubernetes.io/role": "cluster",
                "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                "virtual-kubelet.io/provider": "admiralty",
                format!("{}target-namespace", keys::PREFIX): namespace,
                format!("{}target-name", keys::PREFIX): "near",
            },
        },
        "spec": {
            "taints": [{ "key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule" }],
        },
    })
}

/// The proxy pod `web` as Admiralty's webhook makes it; it uses the ConfigMap `settings`.
fn proxy(namespace: &str, finalizer: &str) -> Pod {
    let containers = json!([{
        "name": "main",
        "image": "example.invalid/web",
        "envFrom": [{ "configMapRef": { "name": "settings" } }],
    }]);
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": namespace,
            "labels": { "app": "web" },
            "annotations": { keys::ELECT: "" },
        },
        "spec": { "containers": containers },
    });
    let pod = json!({
        "metadata": {
            "name": "web",
            "labels": { "app": "web", keys::HAS_FINALIZER: "true" },
            "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: manifest.to_string() },
            "finalizers": [finalizer],
        },
        "spec": {
            "containers": containers,
            "nodeSelector": { "virtual-kubelet.io/provider": "admiralty" },
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "value": "admiralty" }],
            "schedulerName": keys::PROXY_SCHEDULER,
            "terminationGracePeriodSeconds": 0,
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// Labels and annotations by which an object of the target names its parent.
fn link(name: &str, namespace: &str, uid: &str) -> Value {
    json!({
        "labels": { keys::PARENT_UID: uid, keys::PARENT_CLUSTER_NAME: "" },
        "annotations": { keys::PARENT_NAME: name, keys::PARENT_NAMESPACE: namespace },
    })
}

/// What Admiralty leaves in both clusters: a Target and a Source, a pod that runs, and a ConfigMap that followed it.
/// Returns the proxy and its delegate.
async fn left_by_admiralty(fleet: &Fleet, namespace: &str) -> (Pod, Pod) {
    let (source, target) = (&fleet.source.plane, &fleet.targets[0].plane);
    let finalizer = names::target_finalizer(Some(namespace), "near");
    target
        .service_account(namespace, SOURCE_ACCOUNT)
        .await
        .unwrap();
    let access = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Source",
        "metadata": { "name": SOURCE_ACCOUNT, "namespace": namespace },
        "spec": { "serviceAccountName": SOURCE_ACCOUNT },
    });
    apply(target, &access).await;
    let kubeconfig = target
        .kubeconfig_for_service_account(namespace, SOURCE_ACCOUNT)
        .await
        .unwrap();
    apply(source, &secret("near", namespace, &kubeconfig)).await;
    apply(source, &target_object("near", namespace)).await;
    apply(source, &virtual_node(namespace)).await;

    let settings = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "namespace": namespace,
            "labels": { keys::HAS_FINALIZER: "true" },
            "finalizers": [finalizer],
        },
        "data": { "greeting": "hello" },
    });
    apply(source, &settings).await;
    let maps: Api<ConfigMap> = Api::namespaced(source.admin(), namespace);
    let uid = maps.get("settings").await.unwrap().uid().unwrap();
    let mut copy = settings;
    copy["metadata"] = link("settings", namespace, &uid);
    copy["metadata"]["name"] = json!("settings");
    copy["metadata"]["namespace"] = json!(namespace);
    apply(target, &copy).await;

    let proxies: Api<Pod> = Api::namespaced(source.admin(), namespace);
    let web = proxies
        .create(&PostParams::default(), &proxy(namespace, &finalizer))
        .await
        .unwrap();
    bind(
        &proxies,
        "web",
        &names::virtual_node(Some(namespace), "near"),
    )
    .await;

    let containers = json!([{
        "name": "main",
        "image": "example.invalid/web",
        "envFrom": [{ "configMapRef": { "name": "settings" } }],
    }]);
    let mut chaperon = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "PodChaperon",
        "metadata": link("web", namespace, &web.uid().unwrap()),
        "spec": { "containers": containers, "schedulerName": keys::CANDIDATE_SCHEDULER },
    });
    chaperon["metadata"]["name"] = json!(CHAPERON);
    chaperon["metadata"]["namespace"] = json!(namespace);
    chaperon["metadata"]["labels"][format!("{}app", keys::PREFIX)] = json!("web");
    chaperon["metadata"]["annotations"][keys::IS_RESERVED] = json!("true");
    chaperon["metadata"]["annotations"][keys::IS_ALLOWED] = json!("true");
    apply(target, &chaperon).await;
    let chaperons: Api<PodChaperon> = Api::namespaced(target.admin(), namespace);
    let uid = chaperons.get(CHAPERON).await.unwrap().uid().unwrap();
    let mut delegate = json!({
        "metadata": {
            "name": CHAPERON,
            "labels": chaperon["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": format!("{GROUP}/{VERSION}"),
                "kind": "PodChaperon",
                "name": CHAPERON,
                "uid": uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": chaperon["spec"],
    });
    delegate["metadata"]["annotations"] = json!({});
    let delegate: Pod = serde_json::from_value(delegate).unwrap();
    let delegates: Api<Pod> = Api::namespaced(target.admin(), namespace);
    delegates
        .create(&PostParams::default(), &delegate)
        .await
        .unwrap();
    bind(&delegates, CHAPERON, NODE).await;
    let delegate = wait_for(&delegates, CHAPERON, is_running, LIMIT)
        .await
        .unwrap();
    let status = Patch::Merge(json!({ "status": delegate.status }));
    let params = PatchParams::default();
    chaperons
        .patch_status(CHAPERON, &params, &status)
        .await
        .unwrap();
    let web = proxies.patch_status("web", &params, &status).await.unwrap();
    (web, delegate)
}

/// `pilotage cleanup --admiralty` in the source.
async fn cleanup(fleet: &Fleet, namespace: &str) -> String {
    let mut command = Command::new(pilotage::binary().unwrap());
    command
        .args(["cleanup", "--admiralty", "--in-namespace", namespace])
        .arg("--kubeconfig")
        .arg(fleet.source.plane.admin_kubeconfig());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = run.await.unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_an_admiralty_installation_run_on_and_end_in_order() {
    let mut fleet = Spec::new()
        .target("near", small_nodes("near"))
        .follow(&["configmaps"])
        .rights(&[Right::FollowConfigMaps])
        .start()
        .await
        .unwrap();
    let name = format!("moved-{}", unique());
    let mut namespaces = Vec::new();
    for cluster in fleet.all() {
        let made = cluster.plane.named_namespace(&name, BTreeMap::new()).await;
        namespaces.push(made.unwrap());
    }
    let (before, delegate_before) = left_by_admiralty(&fleet, &name).await;
    if let Err(error) = fleet.install().await {
        panic!("{error}\nlogs: {:#?}", fleet.logs());
    }
    // The Source gets the right to let ConfigMaps follow; the rest is there.
    fleet.connect(&name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    };
    let (source, target) = (&shop.fleet.source.plane, &shop.fleet.targets[0].plane);

    // The pod runs on, and what its delegate says still comes back.
    let delegates = shop.pods_in("near");
    let word =
        json!({ "status": { "conditions": [{ "type": "example.com/Moved", "status": "True" }] } });
    delegates
        .patch_status(CHAPERON, &PatchParams::default(), &Patch::Strategic(word))
        .await
        .unwrap();
    let is_told = |pod: &Pod| {
        let conditions = pod
            .status
            .iter()
            .flat_map(|it| it.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|it| it.type_ == "example.com/Moved")
    };
    let web = wait_for(&shop.pods(), "web", is_told, LIMIT).await.unwrap();
    assert_eq!(web.uid(), before.uid());
    assert_eq!(web.metadata.deletion_timestamp, None);
    assert!(is_running(&web));

    // So does the ConfigMap: its copy is the one that was there.
    let maps: Api<ConfigMap> = Api::namespaced(source.admin(), &name);
    let copies: Api<ConfigMap> = Api::namespaced(target.admin(), &name);
    let copy = copies.get("settings").await.unwrap();
    let changed = Patch::Merge(json!({ "data": { "greeting": "good day" } }));
    maps.patch("settings", &PatchParams::default(), &changed)
        .await
        .unwrap();
    let says = |map: &ConfigMap| {
        map.data
            .iter()
            .flatten()
            .any(|(_, value)| value == "good day")
    };
    let kept = wait_for(&copies, "settings", says, LIMIT).await.unwrap();
    assert_eq!(kept.uid(), copy.uid());
    let said = cleanup(&shop.fleet, &name).await;
    assert!(said.contains("1 object(s) released"), "{said}");
    assert!(
        said.starts_with(&format!("configmaps/{name}/settings: ")),
        "{said}"
    );
    assert_eq!(maps.get("settings").await.unwrap().finalizers(), [""; 0]);
    assert_eq!(
        shop.pods().get("web").await.unwrap().finalizers(),
        before.finalizers()
    );

    // New pods are Pilotage's.
    shop.create(&elected("new", "100m")).await;
    let new = shop.running("new").await;
    assert!(new.annotations().contains_key(keys::GRANTED_TO));

    let delegate = delegates.get(CHAPERON).await.unwrap();
    assert_eq!(delegate.uid(), delegate_before.uid());
    assert_eq!(node_of(&delegate), Some(NODE));
    assert_eq!(delegate.metadata.deletion_timestamp, None);

    // The proxy's end waits for that of its delegate, and takes the copy along.
    shop.delete("web").await;
    assert!(delegates.get_opt(CHAPERON).await.unwrap().is_none());
    wait_gone(&shop.chaperons_in("near"), CHAPERON, LIMIT)
        .await
        .unwrap();
    wait_gone(&copies, "settings", LIMIT).await.unwrap();
    assert!(maps.get("settings").await.is_ok());
}
