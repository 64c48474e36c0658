//! What breaks under all parts at once: watches that have expired, API servers that are killed, and a line to a target
//! that is cut while objects follow pods and while a pod is deleted. Nothing is lost, nothing is left over, and no pod
//! ever has a second delegate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use pilotage_api::{Right, Target, keys};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::fault::{Calls, Mode, Times, Verb};
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::{ControlPlane, FaultProxy, Part, wait_count, wait_for, wait_gone};
use serde_json::{Value, json};

use super::follow::{config_map, key, reader, says};
use super::kubelet::until;
use super::{LIMIT, Shop, elected, is_running, node_of, small_nodes, started};

const TARGET: &str = "east";
/// Watches that go on after each has expired, and expire once more.
const MORE: usize = 20;

async fn fleet() -> Arc<Fleet> {
    let target = ControlPlane::builder(TARGET)
        .controller_manager()
        .kwok(small_nodes(TARGET))
        .kubelet(Kubelet {
            lines: vec!["one".to_owned()],
            // Nobody forwards ports here.
            forward: ([127, 0, 0, 1], 1).into(),
        })
        .history();
    let rights = [
        Right::FollowConfigMaps,
        Right::FollowSecrets,
        Right::FollowServices,
        Right::FollowIngresses,
        Right::Logs,
    ];
    let spec = Spec::new()
        .target_plane(target)
        .rights(&rights)
        .follow(&["configmaps", "secrets", "services", "ingresses"])
        .kubelet()
        .faults()
        .part_flag("controllers", "--target-probe-period=1s")
        .part_flag("proxy-scheduler", "--target-probe-period=1s");
    started(spec).await
}

/// Every line that a watch goes by.
fn lines(fleet: &Fleet) -> impl Iterator<Item = &FaultProxy> {
    fleet
        .all()
        .flat_map(|cluster| cluster.lines.values().chain(&cluster.door))
}

fn door(shop: &Shop) -> &FaultProxy {
    shop.target(TARGET).door.as_ref().unwrap()
}

/// Waits until the source knows whether the target can be reached.
async fn connected(shop: &Shop, want: bool) {
    let targets: Api<Target> = shop.of("source");
    let status = if want { "True" } else { "False" };
    let is_so = |target: &Target| {
        let mut conditions = target.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|it| it.type_ == "Connected" && it.status == status)
    };
    shop.seen(wait_for(&targets, TARGET, is_so, LIMIT).await);
}

/// A Service of this name, of pods with this label, and the Ingress in front of it.
fn front(name: &str) -> [Value; 2] {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": { "app": name }, "ports": [{ "port": 80 }] },
    });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": name },
        "spec": { "defaultBackend": { "service": { "name": name, "port": { "number": 80 } } } },
    });
    [service, ingress]
}

/// Whether it selects delegates of this label.
fn is_rerouted(name: &str) -> impl Fn(&Service) -> bool {
    let want = BTreeMap::from([(format!("{}app", keys::PREFIX), name.to_owned())]);
    move |service| {
        let spec = service.spec.as_ref();
        spec.and_then(|spec| spec.selector.as_ref()) == Some(&want)
    }
}

/// Everything works: a pod comes and runs once, goes and leaves nothing; a change follows, and so do a Service and an
/// Ingress; there are logs.
async fn works(shop: &Shop, round: &str) {
    shop.apply("source", config_map("settings", round)).await;
    for object in front(round) {
        shop.apply("source", object).await;
    }
    let mut pod = elected(round, "100m");
    pod.labels_mut().insert("app".to_owned(), round.to_owned());
    until("a new pod", async || {
        shop.pods().create(&PostParams::default(), &pod).await
    })
    .await;
    let proxy = shop.running(round).await;
    assert_eq!(node_of(&proxy), Some(&*shop.virtual_node(TARGET)));
    shop.delegate(&proxy).await;
    shop.seen(wait_for(&shop.of(TARGET), "settings", says(round), LIMIT).await);
    let services: Api<Service> = shop.of(TARGET);
    let ingresses: Api<Ingress> = shop.of(TARGET);
    shop.seen(wait_for(&shop.of("source"), round, is_rerouted(round), LIMIT).await);
    shop.seen(wait_for(&services, round, is_rerouted(round), LIMIT).await);
    shop.seen(wait_for(&ingresses, round, |_| true, LIMIT).await);
    let namespace = format!("--namespace={}", shop.name);
    let logs = until("logs", async || {
        let source = &shop.fleet.source.plane;
        source.kubectl(&[&namespace, "logs", round]).await
    })
    .await;
    assert_eq!(logs, "one\n");
    shop.delete(round).await;
    let uid = proxy.metadata.uid.unwrap();
    let its = watcher::Config::default().labels(&format!("{}={uid}", keys::PARENT_UID));
    let left = wait_count(&shop.pods_in(TARGET), its, 0, |_| true, LIMIT).await;
    shop.seen(left);
    shop.seen(wait_gone(&services, round, LIMIT).await);
    shop.seen(wait_gone(&ingresses, round, LIMIT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_under_all_parts_loses_nothing_and_makes_no_second_delegate() {
    let shop = Shop::connected(fleet().await, "outage").await;
    let pods = format!("pods/{}/", shop.name);
    let history = shop.target(TARGET).plane.history(&[&pods]).await.unwrap();
    for name in ["settings", "other"] {
        shop.apply("source", config_map(name, "1")).await;
    }
    for (pod, map) in [("web", "settings"), ("db", "other")] {
        shop.create(&reader(pod, map)).await;
        shop.running(pod).await;
        shop.seen(wait_for(&shop.of(TARGET), map, says("1"), LIMIT).await);
    }
    works(&shop, "calm").await;
    expired(&shop).await;
    restarted(&shop).await;
    broken_off(&shop).await;
    cut_off(&shop).await;

    history.settle().await.unwrap();
    let mut bound = BTreeMap::<String, BTreeSet<String>>::new();
    for version in history.versions().unwrap() {
        let pod: Pod = version.read().unwrap();
        let labels = pod.metadata.labels.as_ref();
        let parent = labels.and_then(|labels| labels.get(keys::PARENT_UID));
        if let (Some(parent), Some(_)) = (parent, node_of(&pod)) {
            let delegates = bound.entry(parent.clone()).or_default();
            delegates.insert(pod.metadata.uid.unwrap());
        }
    }
    assert_eq!(bound.len(), 7, "each pod was seen: {bound:?}");
    assert!(bound.values().all(|them| them.len() == 1), "{bound:?}");
}

/// Every watch of every part expires (410 Gone), and the next ones again.
async fn expired(shop: &Shop) {
    let mut ended = 0;
    for line in lines(&shop.fleet) {
        line.refuse_watches(Calls::any(), Times::Next(MORE));
        ended += line.expire_watches(&Calls::any());
    }
    assert!(ended > 20, "only {ended} watches of all parts");
    works(shop, "expired").await;
    lines(&shop.fleet).for_each(FaultProxy::accept_watches);
}

/// Both API servers are killed under all parts, one after the other.
async fn restarted(shop: &Shop) {
    let target = &shop.target(TARGET).plane;
    target.kill(Part::ApiServer).await.unwrap();
    connected(shop, false).await;
    // What changes meanwhile isn't lost.
    shop.apply("source", config_map("other", "2")).await;
    target.restart(Part::ApiServer).await.unwrap();
    connected(shop, true).await;
    shop.seen(wait_for(&shop.of(TARGET), "other", says("2"), LIMIT).await);
    works(shop, "target-restarted").await;

    let source = &shop.fleet.source.plane;
    source.kill(Part::ApiServer).await.unwrap();
    source.restart(Part::ApiServer).await.unwrap();
    works(shop, "source-restarted").await;
    for pod in ["web", "db"] {
        shop.delegate(&shop.running(pod).await).await;
    }
}

/// The line is cut while a pod's objects are on their way, of which one has arrived: in the end both are there, whole.
async fn broken_off(shop: &Shop) {
    let creation = Calls::of(Verb::Create, "secrets").namespace(&shop.name);
    let mut held = door(shop).hold(creation);
    shop.apply("source", config_map("first", "1")).await;
    shop.apply("source", key("whole")).await;
    let mut pod = reader("both", "first");
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    let secret = json!({ "secretRef": { "name": "key" } });
    let sources = containers[0].env_from.as_mut().unwrap();
    sources.push(serde_json::from_value(secret).unwrap());
    shop.create(&pod).await;
    assert!(held.caught().await);
    shop.seen(wait_for(&shop.of(TARGET), "first", says("1"), LIMIT).await);
    door(shop).set(Mode::BlackHole).await.unwrap();
    connected(shop, false).await;
    // It never arrives.
    drop(held);
    let secrets: Api<Secret> = shop.of(TARGET);
    assert!(secrets.get_opt("key").await.unwrap().is_none());
    door(shop).set(Mode::Pass).await.unwrap();
    let is_whole = |it: &Secret| {
        let data = it.data.as_ref().and_then(|data| data.get("k"));
        data == Some(&ByteString(b"whole".to_vec()))
    };
    shop.seen(wait_for(&secrets, "key", is_whole, LIMIT).await);
    shop.running("both").await;
    connected(shop, true).await;
    shop.delete("both").await;
    shop.seen(wait_gone(&secrets, "key", LIMIT).await);
    let maps: Api<ConfigMap> = shop.of(TARGET);
    shop.seen(wait_gone(&maps, "first", LIMIT).await);
}

/// A cut-off target gets what it missed, a pod that is deleted meanwhile goes when its delegate has, and a deleted
/// Target keeps nothing.
async fn cut_off(shop: &Shop) {
    let (maps, at_home): (Api<ConfigMap>, Api<ConfigMap>) = (shop.of(TARGET), shop.of("source"));
    door(shop).set(Mode::BlackHole).await.unwrap();
    connected(shop, false).await;
    // Objects change and go while nobody reaches the target: nothing waits for that at home.
    shop.apply("source", config_map("settings", "last")).await;
    let now = DeleteParams::default().grace_period(0);
    at_home.delete("other", &now).await.unwrap();
    shop.seen(wait_gone(&at_home, "other", LIMIT).await);
    // A pod waits for its delegate, whose end nobody can see.
    shop.pods().delete("db", &now).await.unwrap();
    let early = wait_gone(&shop.pods(), "db", Duration::from_secs(2)).await;
    assert!(early.is_err(), "its delegate may run");
    let there = ListParams::default();
    let there = shop.pods_in(TARGET).list(&there).await.unwrap();
    assert_eq!(there.items.len(), 2, "both run");
    door(shop).set(Mode::Pass).await.unwrap();
    shop.seen(wait_for(&maps, "settings", says("last"), LIMIT).await);
    shop.seen(wait_gone(&maps, "other", LIMIT).await);
    shop.seen(wait_gone(&shop.pods(), "db", LIMIT).await);
    let (there, all) = (shop.pods_in(TARGET), watcher::Config::default());
    shop.seen(wait_count(&there, all, 1, |_| true, LIMIT).await);
    shop.delegate(&shop.running("web").await).await;

    // The Target goes after its pods, and after what followed them.
    let targets: Api<Target> = shop.of("source");
    targets
        .delete(TARGET, &DeleteParams::default())
        .await
        .unwrap();
    shop.seen(wait_gone(&targets, TARGET, 2 * LIMIT).await);
    assert!(maps.get_opt("settings").await.unwrap().is_none());
    for count in [
        shop.pods_in(TARGET)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        shop.chaperons_in(TARGET)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
    ] {
        assert_eq!(count, 0);
    }
}

/// Nobody but the target itself can make the delegate again, and nobody grants it anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_is_evicted_while_its_target_is_cut_off_is_made_again_there() {
    let spec = Spec::new()
        .target(TARGET, small_nodes(TARGET))
        .faults()
        .part_flag("controllers", "--target-probe-period=1s")
        .part_flag("proxy-scheduler", "--target-probe-period=1s");
    let shop = Shop::connected(started(spec).await, "alone").await;
    shop.create(&elected("web", "100m")).await;
    let proxy = shop.running("web").await;
    let (_, first) = shop.delegate(&proxy).await;
    door(&shop).set(Mode::BlackHole).await.unwrap();
    connected(&shop, false).await;

    let (pods, name) = (shop.pods_in(TARGET), first.name_any());
    pods.evict(&name, &EvictParams::default()).await.unwrap();
    // It has to be missing for a minute.
    let is_next = |pod: &Pod| is_running(pod) && pod.uid() != first.uid();
    let next = shop.seen(wait_for(&pods, &name, is_next, 3 * LIMIT).await);

    door(&shop).set(Mode::Pass).await.unwrap();
    connected(&shop, true).await;
    // What is said of it from now on comes to the same proxy.
    let note = json!({ "metadata": { "annotations": { "example.com/seen": "again" } } });
    let params = PatchParams::default();
    pods.patch(&name, &params, &Patch::Merge(note))
        .await
        .unwrap();
    let is_seen = |pod: &Pod| pod.annotations().contains_key("example.com/seen");
    let shown = shop.seen(wait_for(&shop.pods(), "web", is_seen, LIMIT).await);
    assert_eq!(shown.uid(), proxy.uid());
    let (_, only) = shop.delegate(&shown).await;
    assert_eq!(only.uid(), next.uid());
    shop.delete("web").await;
}
