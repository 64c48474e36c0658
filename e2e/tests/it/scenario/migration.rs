//! A source and a target that Admiralty 0.17 ran until now: its objects are made here as it leaves them. Pilotage
//! starts, and goes on with them.

mod left;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::Command;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use pilotage_api::{GROUP, Right, VERSION, keys, names};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::{ControlPlane, TestNamespace, pilotage, unique, wait_for, wait_gone};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::left::{CHAPERON, Left, NODE, apply, bind, virtual_node};
use super::kubelet::until;
use super::{LIMIT, Shop, elected, is_running, node_of, scheduled, small_nodes};

/// A namespace of one name in all clusters of a fleet.
async fn namespaces(fleet: &Fleet) -> (String, Vec<TestNamespace>) {
    let name = format!("moved-{}", unique());
    let mut namespaces = Vec::new();
    for cluster in fleet.all() {
        let made = cluster.plane.named_namespace(&name, BTreeMap::new()).await;
        namespaces.push(made.unwrap());
    }
    (name, namespaces)
}

/// Pilotage starts.
async fn install(fleet: &mut Fleet) {
    if let Err(error) = fleet.install().await {
        panic!("{error}\nlogs: {:#?}", fleet.logs());
    }
}

/// Whether Pilotage has taken over a pod that Admiralty placed.
fn is_adopted(pod: &Pod) -> bool {
    let record = pod.annotations().get(keys::GRANTED_TO);
    let tolerations = pod
        .spec
        .iter()
        .flat_map(|it| it.tolerations.iter().flatten());
    let ours = keys::DELEGATE_GONE.to_owned();
    record.is_some_and(|record| record.ends_with("/-"))
        && pod.finalizers().contains(&ours)
        && tolerations
            .into_iter()
            .all(|it| it.toleration_seconds.is_none())
}

/// Waits until a copy that Admiralty made is Pilotage's; it is the same object.
async fn is_taken_over<K>(shop: &Shop, copies: &Api<K>, before: &DynamicObject)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let is_ours = |copy: &K| copy.labels().contains_key(keys::PARENT_CLUSTER_UID);
    let copy = wait_for(copies, &before.name_any(), is_ours, LIMIT).await;
    assert_eq!(shop.seen(copy).uid(), before.uid());
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
        .follow(&["configmaps", "secrets", "services", "ingresses"])
        .rights(&[
            Right::FollowConfigMaps,
            Right::FollowSecrets,
            Right::FollowServices,
            Right::FollowIngresses,
        ])
        .start()
        .await
        .unwrap();
    let (name, namespaces) = namespaces(&fleet).await;
    let left = Left {
        fleet: &fleet,
        namespace: &name,
    };
    let secret = left.target().await;
    apply(left.source(), &secret).await;
    let [settings, key, service, ingress] = left.all_that_follows().await;
    left.unused("unused", true).await;
    left.unused("others", false).await;
    let (before, delegate_before) = left.running("web", &[left.finalizer()], CHAPERON).await;
    let limited = before
        .spec
        .iter()
        .flat_map(|it| it.tolerations.iter().flatten());
    assert!(
        limited
            .into_iter()
            .any(|it| it.toleration_seconds.is_some())
    );
    install(&mut fleet).await;
    // The Source gets the rights to let objects follow; the rest is there.
    fleet.connect(&name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    };
    let (source, target) = (&shop.fleet.source.plane, &shop.fleet.targets[0].plane);
    let finalizer = names::target_finalizer(Some(&name), "near");

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
    // It is Pilotage's from now on, and waits for a lost target.
    wait_for(&shop.pods(), "web", is_adopted, LIMIT)
        .await
        .unwrap();

    // So do the Secret, the Service and the Ingress: their copies are those that were there.
    let secrets: Api<Secret> = shop.of("near");
    let services: Api<Service> = shop.of("near");
    let ingresses: Api<Ingress> = shop.of("near");
    is_taken_over(&shop, &secrets, &key).await;
    is_taken_over(&shop, &services, &service).await;
    is_taken_over(&shop, &ingresses, &ingress).await;
    let rerouted: Service = shop.of("source").get("web").await.unwrap();
    assert_eq!(rerouted.annotations()[keys::ORIGINAL_SELECTOR], "app=web");
    let selector = rerouted.spec.unwrap().selector.unwrap();
    let app = format!("{}app", keys::PREFIX);
    assert_eq!(selector, BTreeMap::from([(app, "web".to_owned())]));

    // So is that of the ConfigMap.
    let maps: Api<ConfigMap> = Api::namespaced(source.admin(), &name);
    let copies: Api<ConfigMap> = Api::namespaced(target.admin(), &name);
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
    assert_eq!(kept.uid(), settings.uid());
    // What nobody needs there goes; what another source made stays.
    wait_gone(&copies, "unused", LIMIT).await.unwrap();
    assert!(maps.get("unused").await.is_ok());
    let said = cleanup(&shop.fleet, &name).await;
    assert!(said.contains("4 object(s) released"), "{said}");
    for object in [
        "configmaps/settings",
        "secrets/key",
        "services/web",
        "ingresses/front",
    ] {
        let (kind, object) = object.split_once('/').unwrap();
        let line = format!("{kind}/{name}/{object}: {finalizer}");
        assert!(said.lines().any(|it| it == line), "{line} in\n{said}");
    }
    assert_eq!(maps.get("settings").await.unwrap().finalizers(), [""; 0]);
    assert_eq!(
        shop.pods().get("web").await.unwrap().finalizers(),
        [before.finalizers(), &[keys::DELEGATE_GONE.to_owned()]].concat()
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
    wait_gone(&secrets, "key", LIMIT).await.unwrap();
    wait_gone(&services, "web", LIMIT).await.unwrap();
    wait_gone(&ingresses, "front", LIMIT).await.unwrap();
    assert!(maps.get("settings").await.is_ok());
    assert!(copies.get("others").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_admiralty_placed_is_logged_replaced_and_ends_as_other_pods() {
    let kubelet = Kubelet {
        lines: ["one", "two"].map(str::to_owned).to_vec(),
        forward: ([127, 0, 0, 1], 9).into(),
    };
    let target = ControlPlane::builder("near")
        .controller_manager()
        .kwok(small_nodes("near"))
        .kubelet(kubelet);
    let spec = Spec::new().kubelet().rights(&[Right::Logs]);
    let mut fleet = spec.target_plane(target).start().await.unwrap();
    let (name, namespaces) = namespaces(&fleet).await;
    let left = Left {
        fleet: &fleet,
        namespace: &name,
    };
    let secret = left.target().await;
    apply(left.source(), &secret).await;
    let finalizers = [left.finalizer()];
    left.running("logged", &finalizers, "logged-a1b2c").await;
    left.running("evicted", &finalizers, "evicted-a1b2c").await;
    // Admiralty gives no finalizer where there are only ClusterTargets.
    left.running("bare", &[], "bare-a1b2c").await;
    left.proxy("stranded", &finalizers, Some("gone")).await;
    let twice = left.proxy("twice", &finalizers, None).await;
    let old = [
        left.delegate(&twice, "twice-a1b2c").await,
        left.delegate(&twice, "twice-d3e4f").await,
    ];
    install(&mut fleet).await;
    fleet.connect(&name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    };
    let (source, pods, delegates) = (&shop.fleet.source.plane, shop.pods(), shop.pods_in("near"));
    for proxy in ["logged", "evicted", "bare"] {
        wait_for(&pods, proxy, is_adopted, LIMIT).await.unwrap();
    }

    // Its Target isn't there: nobody waits for what ran there.
    wait_gone(&pods, "stranded", LIMIT).await.unwrap();

    // Its delegate has the name that the API server made up.
    let namespace = format!("--namespace={name}");
    let kubectl = async || source.kubectl(&[&*namespace, "logs", "logged"]).await;
    let logs = until("kubectl logs", kubectl).await;
    assert_eq!(logs, "one\ntwo\n");

    // The end of a delegate is that of its proxy.
    delegates
        .delete("evicted-a1b2c", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&pods, "evicted", LIMIT).await.unwrap();
    let chaperons = shop.chaperons_in("near");
    assert!(chaperons.get_opt("evicted-a1b2c").await.unwrap().is_none());

    shop.delete("bare").await;
    assert!(delegates.get_opt("bare-a1b2c").await.unwrap().is_none());

    // Of two grants none is kept, and both pods are gone before there is another one.
    let proxy = shop.running("twice").await;
    let (_, delegate) = shop.delegate(&proxy).await;
    assert!(old.iter().all(|it| it.uid() != delegate.uid()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_admiralty_granted_is_offered_to_nobody_before_its_target_is_seen() {
    let spec = Spec::new()
        .target("near", small_nodes("near"))
        .target("far", small_nodes("far"));
    let mut fleet = spec.start().await.unwrap();
    let (name, namespaces) = namespaces(&fleet).await;
    let left = Left {
        fleet: &fleet,
        namespace: &name,
    };
    // Without its Secret the target is lost.
    let secret = left.target().await;
    let web = left.proxy("web", &[left.finalizer()], None).await;
    let before = left.delegate(&web, CHAPERON).await;
    install(&mut fleet).await;
    fleet.elect(&name).await.unwrap();
    let far = fleet.target("far").unwrap();
    fleet.add_target(far, &name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    };
    let waits = |pod: &Pod| {
        let said = scheduled(pod).map(|(_, _, message)| message);
        said.is_some_and(|message| message.contains("was made by Admiralty"))
    };
    wait_for(&shop.pods(), "web", waits, LIMIT).await.unwrap();
    let asked = shop.chaperons_in("far").list(&ListParams::default()).await;
    assert!(asked.unwrap().items.is_empty());

    apply(&shop.fleet.source.plane, &secret).await;
    let web = shop.running("web").await;
    assert_eq!(node_of(&web), Some(&*shop.virtual_node("near")));
    let (target, delegate) = shop.delegate(&web).await;
    assert_eq!((target, delegate.uid()), ("near", before.uid()));
    shop.delete("web").await;
    assert!(
        shop.pods_in("near")
            .get_opt(CHAPERON)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_runs_in_a_cluster_that_is_its_own_target_runs_on() {
    let spec = Spec::new()
        .one_process()
        .source(|plane| plane.kwok(small_nodes("near")));
    let mut fleet = spec.start().await.unwrap();
    let (name, namespaces) = namespaces(&fleet).await;
    let left = Left {
        fleet: &fleet,
        namespace: &name,
    };
    let node = names::virtual_node(None, "here");
    let target = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ClusterTarget",
        "metadata": { "name": "here" },
        "spec": { "self": true },
    });
    apply(left.source(), &target).await;
    let mut virtual_node = virtual_node(&name);
    virtual_node["metadata"]["name"] = json!(node);
    virtual_node["metadata"]["labels"] = json!({
        "type": "virtual-kubelet",
        "virtual-kubelet.io/provider": "admiralty",
        format!("{}cluster-target-name", keys::PREFIX): "here",
    });
    apply(left.source(), &virtual_node).await;
    // Admiralty gives no finalizer for a ClusterTarget.
    let before = left.proxy("own", &[], None).await;
    bind(&left.proxies(), "own", &node).await;
    let delegate = left.delegate(&before, "own-a1b2c").await;
    install(&mut fleet).await;
    fleet.elect(&name).await.unwrap();
    let shop = Shop {
        name: name.clone(),
        fleet: Arc::new(fleet),
        _namespaces: namespaces,
    };
    let pods = shop.pods();
    shop.seen(wait_for(&pods, "own", is_adopted, LIMIT).await);
    let own = shop.running("own").await;
    assert_eq!(own.uid(), before.uid());
    let kept = pods.get("own-a1b2c").await.unwrap();
    assert_eq!(kept.uid(), delegate.uid());
    assert_eq!(kept.metadata.deletion_timestamp, None);
    shop.delete("own").await;
    assert!(pods.get_opt("own-a1b2c").await.unwrap().is_none());
}
