//! Services that select pods follow them into their targets, and Ingresses follow these Services.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use pilotage_api::{Right, keys};
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::{ControlPlane, list_until, wait_for, wait_gone};
use serde_json::{Value, json};

use super::{LIMIT, Lasting, Shop, small_nodes, started};

/// What the label `app` is called on delegates.
const APP: &str = "multicluster.admiralty.io/app";

/// Two targets that give the rights to follow.
async fn fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    let spec = || {
        Spec::new()
            .target("east", small_nodes("east"))
            .target("west", small_nodes("west"))
            .rights(&[Right::FollowServices, Right::FollowIngresses])
            .follow(&["services", "ingresses"])
    };
    FLEET.fleet(spec).await
}

fn plane<'a>(shop: &'a Shop, cluster: &str) -> &'a ControlPlane {
    match cluster {
        "source" => &shop.fleet.source.plane,
        target => &shop.target(target).plane,
    }
}

fn of<K>(shop: &Shop, cluster: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(plane(shop, cluster).admin(), &shop.name)
}

async fn apply(shop: &Shop, cluster: &str, mut object: Value) {
    object["metadata"]["namespace"] = json!(shop.name);
    let plane = plane(shop, cluster);
    plane.apply_yaml(&object.to_string()).await.unwrap();
}

/// What becomes of a wait, with the logs if it failed.
fn seen<T, E: std::fmt::Display>(shop: &Shop, waited: Result<T, E>) -> T {
    waited.unwrap_or_else(|error| panic!("{error}\nlogs: {:#?}", shop.fleet.logs()))
}

/// Waits for a warning about an object that says all this.
async fn warned(shop: &Shop, uid: Option<String>, parts: &[&str]) {
    let events: Api<Event> = of(shop, "source");
    let like = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.clone());
        let note = event.note.as_deref().unwrap_or_default();
        about.is_some()
            && about == uid
            && event.reason.as_deref() == Some("NotFollowed")
            && parts.iter().all(|part| note.contains(part))
    };
    let config = watcher::Config::default();
    let told = list_until(&events, config, |all| all.values().any(like), LIMIT).await;
    seen(shop, told);
}

fn service(name: &str, app: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "labels": { "team": "a" } },
        "spec": { "selector": { "app": app }, "ports": [{ "name": "http", "port": port, "targetPort": 8080 }] },
    })
}

fn front(service: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": "front", "annotations": { "example.com/rewrite": "/" } },
        "spec": { "rules": [{ "host": "shop.example.com", "http": { "paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": { "service": { "name": service, "port": { "number": 80 } } },
        }] } }] },
    })
}

/// An elected pod with this label.
fn web(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "labels": { "app": "web" }, "annotations": { keys::ELECT: "" },
        },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap()
}

/// Whether it selects delegates, and nothing else.
fn is_rerouted(service: &Service) -> bool {
    let want = BTreeMap::from([(APP.to_owned(), "web".to_owned())]);
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.selector.as_ref()) == Some(&want)
}

fn has_port(port: i32) -> impl Fn(&Service) -> bool {
    move |service| {
        let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
        ports.is_some_and(|ports| ports[0].port == port)
    }
}

fn cluster_ip(service: &Service) -> &str {
    let spec = service.spec.as_ref().unwrap();
    spec.cluster_ip.as_deref().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_ingresses_go_where_the_pods_behind_them_run() {
    let shop = &Shop::connected(fleet().await, "services").await;
    apply(shop, "source", service("web", "web", 80)).await;
    let mut headless = service("peers", "web", 80);
    headless["spec"]["clusterIP"] = "None".into();
    apply(shop, "source", headless).await;
    apply(shop, "source", service("nobodys", "other", 80)).await;
    apply(shop, "source", front("web")).await;
    shop.create(&web("web")).await;
    let proxy = shop.running("web").await;
    let (target, delegate) = shop.delegate(&proxy).await;
    let other = if target == "east" { "west" } else { "east" };

    let at_home: Api<Service> = of(shop, "source");
    let routed = seen(shop, wait_for(&at_home, "web", is_rerouted, LIMIT).await);
    assert_eq!(routed.annotations()[keys::ORIGINAL_SELECTOR], "app=web");
    for key in [
        keys::GLOBAL,
        "io.cilium/global-service",
        "service.cilium.io/global",
    ] {
        assert_eq!(routed.annotations()[key], "true");
    }
    assert_eq!(routed.metadata.finalizers, None);
    let there: Api<Service> = of(shop, target);
    let copy = seen(shop, wait_for(&there, "web", is_rerouted, LIMIT).await);
    assert_eq!(delegate.labels()[APP], "web", "it selects the delegate");
    assert_eq!(copy.labels()["team"], "a");
    assert_eq!(
        Some(&copy.labels()[keys::PARENT_UID]),
        routed.metadata.uid.as_ref()
    );
    assert_eq!(copy.annotations()[keys::IS_DELEGATE], "");
    assert_eq!(copy.annotations()[keys::GLOBAL], "true");
    let address = cluster_ip(&copy).to_owned();
    assert!(
        !address.is_empty() && address != "None",
        "an address of its own"
    );
    let peers = seen(shop, wait_for(&there, "peers", is_rerouted, LIMIT).await);
    assert_eq!(cluster_ip(&peers), "None");
    let ingresses: Api<Ingress> = of(shop, target);
    let ingress = seen(shop, wait_for(&ingresses, "front", |_| true, LIMIT).await);
    let parent: Ingress = of(shop, "source").get("front").await.unwrap();
    assert_eq!(ingress.spec, parent.spec);
    assert_eq!(ingress.annotations()["example.com/rewrite"], "/");
    assert_eq!(ingress.annotations()[keys::IS_DELEGATE], "");
    let nobodys = at_home.get("nobodys").await.unwrap();
    assert_eq!(nobodys.metadata.annotations, None, "it selects no proxy");
    assert!(there.get_opt("nobodys").await.unwrap().is_none());

    // Somebody there notes something; its author changes it, by the manifest that he has.
    let note = Patch::Merge(json!({ "metadata": {
        "annotations": { "example.com/noted": "x" }, "finalizers": ["example.com/held"],
    } }));
    let params = PatchParams::default();
    there.patch("web", &params, &note).await.unwrap();
    apply(shop, "source", service("web", "web", 81)).await;
    let again = |service: &Service| has_port(81)(service) && is_rerouted(service);
    seen(shop, wait_for(&at_home, "web", again, LIMIT).await);
    let copy = seen(shop, wait_for(&there, "web", again, LIMIT).await);
    assert_eq!(cluster_ip(&copy), address);
    assert_eq!(copy.annotations()["example.com/noted"], "x");
    assert_eq!(copy.finalizers(), ["example.com/held"]);
    let mut moved = front("web");
    moved["spec"]["rules"][0]["host"] = "new.example.com".into();
    moved["spec"]["tls"] = json!([{ "hosts": ["new.example.com"], "secretName": "cert" }]);
    apply(shop, "source", moved).await;
    // Its author is told what it doesn't bring along.
    let told = [
        "for TLS don't follow",
        &shop.virtual_node(target),
        "called cert there",
    ];
    warned(shop, parent.metadata.uid.clone(), &told).await;
    let has_moved = |ingress: &Ingress| {
        let rules = ingress.spec.as_ref().and_then(|spec| spec.rules.as_ref());
        rules.is_some_and(|rules| rules[0].host.as_deref() == Some("new.example.com"))
    };
    let waited = wait_for(&ingresses, "front", has_moved, LIMIT).await;
    seen(shop, waited);
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    there.patch("web", &params, &release).await.unwrap();

    // The Ingress goes with its author's word, the rest with the last pod.
    let fronts: Api<Ingress> = of(shop, "source");
    let delete = DeleteParams::default();
    fronts.delete("front", &delete).await.unwrap();
    seen(shop, wait_gone(&ingresses, "front", LIMIT).await);
    at_home.delete("peers", &delete).await.unwrap();
    seen(shop, wait_gone(&there, "peers", LIMIT).await);
    shop.delete("web").await;
    seen(shop, wait_gone(&there, "web", LIMIT).await);
    let elsewhere: Api<Service> = of(shop, other);
    for name in ["web", "peers", "nobodys"] {
        assert!(elsewhere.get_opt(name).await.unwrap().is_none());
    }
    assert!(at_home.get_opt("web").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_runs_pods_at_home_again_is_told_of_a_service_that_is_still_rerouted() {
    let shop = &Shop::connected(fleet().await, "home").await;
    apply(shop, "source", service("web", "web", 80)).await;
    shop.create(&web("web")).await;
    shop.running("web").await;
    let at_home: Api<Service> = of(shop, "source");
    let routed = seen(shop, wait_for(&at_home, "web", is_rerouted, LIMIT).await);
    shop.delete("web").await;
    // The next one isn't elected. The source has no kubelet.
    let mut home = web("home");
    home.metadata.annotations = None;
    shop.create(&home).await;
    let running = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    let params = PatchParams::default();
    let pods = shop.pods();
    pods.patch_status("home", &params, &running).await.unwrap();
    let events: Api<Event> = of(shop, "source");
    let told = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
        let note = event.note.as_deref().unwrap_or_default();
        event.reason.as_deref() == Some("StillRerouted")
            && about == routed.metadata.uid.as_ref()
            && note.contains("app=web run here")
    };
    let config = watcher::Config::default();
    let any = |all: &BTreeMap<_, Event>| all.values().any(told);
    seen(shop, list_until(&events, config, any, LIMIT).await);

    // What the documents say turns it back.
    let back = Patch::Merge(json!({
        "metadata": { "annotations": {
            keys::IS_DELEGATE: "", keys::GLOBAL: null, keys::ORIGINAL_SELECTOR: null,
            keys::CILIUM_GLOBAL[0]: null, keys::CILIUM_GLOBAL[1]: null,
        } },
        "spec": { "selector": { "app": "web", APP: null } },
    }));
    at_home.patch("web", &params, &back).await.unwrap();
    shop.create(&web("web")).await;
    shop.running("web").await;
    // Another one shows that Services have been looked at since.
    apply(shop, "source", service("other", "web", 80)).await;
    seen(shop, wait_for(&at_home, "other", is_rerouted, LIMIT).await);
    let selector = at_home.get("web").await.unwrap().spec.unwrap().selector;
    let own = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    assert_eq!(selector, Some(own));
    shop.delete("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_copy_of_ours_and_what_cant_be_read_is_left_alone() {
    let shop = &Shop::connected(fleet().await, "others").await;
    for target in ["east", "west"] {
        apply(shop, target, service("web", "its-own", 8080)).await;
        apply(shop, target, front("its-own")).await;
    }
    apply(shop, "source", service("web", "web", 80)).await;
    apply(shop, "source", front("web")).await;
    let mut strange = service("strange", "web", 80);
    strange["metadata"]["annotations"] = json!({ keys::ORIGINAL_SELECTOR: "app in (web)" });
    apply(shop, "source", strange).await;
    shop.create(&web("web")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let node = shop.virtual_node(target);

    let at_home: Api<Service> = of(shop, "source");
    let uid = at_home.get("web").await.unwrap().metadata.uid;
    let left = ["Service web isn't followed to", &node, "left as it is"];
    warned(shop, uid, &left).await;
    warned(shop, proxy.metadata.uid.clone(), &left).await;
    let ingress: Ingress = of(shop, "source").get("front").await.unwrap();
    let left = ["Ingress front isn't followed to", &node, "left as it is"];
    warned(shop, ingress.metadata.uid, &left).await;
    let strange = at_home.get("strange").await.unwrap();
    let reads = ["isn't rerouted", keys::ORIGINAL_SELECTOR, "app in (web)"];
    warned(shop, strange.metadata.uid.clone(), &reads).await;
    assert_eq!(strange.spec.unwrap().selector.unwrap()["app"], "web");

    shop.delete("web").await;
    for target in ["east", "west"] {
        let services: Api<Service> = of(shop, target);
        assert!(has_port(8080)(&services.get("web").await.unwrap()));
        assert!(services.get_opt("strange").await.unwrap().is_none());
        let ingresses: Api<Ingress> = of(shop, target);
        let ingress = ingresses.get("front").await.unwrap();
        assert_eq!(ingress.labels().get(keys::PARENT_UID), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_too_many_for_its_pods_stays_at_home_and_says_so() {
    let shop = &Shop::connected(fleet().await, "many").await;
    for n in 0..=64 {
        apply(shop, "source", service(&format!("s{n:02}"), "web", 80)).await;
    }
    apply(shop, "source", front("s64")).await;
    shop.create(&web("web")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;

    let at_home: Api<Service> = of(shop, "source");
    let there: Api<Service> = of(shop, target);
    let left = ["Service s64 isn't followed", "the 64 with the first names"];
    let uid = at_home.get("s64").await.unwrap().metadata.uid;
    warned(shop, uid, &left).await;
    warned(shop, proxy.metadata.uid.clone(), &left).await;
    let ingress: Ingress = of(shop, "source").get("front").await.unwrap();
    let left = ["Ingress front isn't followed"];
    warned(shop, ingress.metadata.uid, &left).await;
    seen(shop, wait_for(&there, "s63", is_rerouted, LIMIT).await);
    assert!(there.get_opt("s64").await.unwrap().is_none());

    // One less, and there is room for it.
    let delete = DeleteParams::default();
    at_home.delete("s00", &delete).await.unwrap();
    seen(shop, wait_for(&there, "s64", is_rerouted, LIMIT).await);
    let ingresses: Api<Ingress> = of(shop, target);
    seen(shop, wait_for(&ingresses, "front", |_| true, LIMIT).await);
    shop.delete("web").await;
}

/// Whether it has this type and, where `headless` asks for one, an address of its cluster or none.
fn is_typed(service: &Service, type_: &str, headless: bool) -> bool {
    let spec = service.spec.as_ref();
    let is_type = spec.and_then(|it| it.type_.as_deref()) == Some(type_);
    let address = cluster_ip(service);
    is_type && !address.is_empty() && (address == "None") == headless
}

fn node_ports(service: &Service) -> Vec<i32> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter());
    ports.flatten().filter_map(|port| port.node_port).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_type_changes_has_a_copy_of_the_new_type() {
    let shop = &Shop::connected(fleet().await, "types").await;
    apply(shop, "source", service("web", "web", 80)).await;
    shop.create(&web("web")).await;
    let proxy = shop.running("web").await;
    let (target, _) = shop.delegate(&proxy).await;
    let (at_home, there): (Api<Service>, Api<Service>) = (of(shop, "source"), of(shop, target));
    let plain = |it: &Service| is_typed(it, "ClusterIP", false) && is_rerouted(it);
    let first = seen(shop, wait_for(&there, "web", plain, LIMIT).await);
    let turn = async |spec: Value| {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let params = PatchParams::default();
        at_home.patch("web", &params, &patch).await.unwrap();
    };

    // Ports of nodes come with one type and go with the other; the address is kept, and so is the object.
    for (type_, wanted) in [("NodePort", 1), ("LoadBalancer", 1), ("ClusterIP", 0)] {
        turn(json!({ "type": type_ })).await;
        let like = |it: &Service| {
            is_typed(it, type_, false) && node_ports(it).len() == wanted && is_rerouted(it)
        };
        let copy = seen(shop, wait_for(&there, "web", like, LIMIT).await);
        assert_eq!(copy.uid(), first.uid(), "{type_}");
        assert_eq!(cluster_ip(&copy), cluster_ip(&first), "{type_}");
    }

    // A name of somebody else's selects nobody: its copy goes, and comes back with the selector.
    turn(json!({ "type": "ExternalName", "externalName": "web.example.com" })).await;
    seen(shop, wait_gone(&there, "web", LIMIT).await);
    turn(json!({ "type": "ClusterIP", "externalName": null })).await;
    let second = seen(shop, wait_for(&there, "web", plain, LIMIT).await);
    assert_ne!(second.uid(), first.uid());

    // Whether there is an address never changes but through such a name: the copy is made anew.
    turn(json!({ "type": "ExternalName", "externalName": "web.example.com", "clusterIP": null }))
        .await;
    turn(json!({ "type": "ClusterIP", "externalName": null, "clusterIP": "None" })).await;
    let headless = |it: &Service| is_typed(it, "ClusterIP", true) && is_rerouted(it);
    seen(shop, wait_for(&there, "web", headless, LIMIT).await);
    turn(json!({ "type": "ExternalName", "externalName": "web.example.com", "clusterIP": null }))
        .await;
    turn(json!({ "type": "NodePort", "externalName": null })).await;
    let addressed = |it: &Service| is_typed(it, "NodePort", false) && is_rerouted(it);
    seen(shop, wait_for(&there, "web", addressed, LIMIT).await);
    shop.delete("web").await;
    seen(shop, wait_gone(&there, "web", LIMIT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_without_a_class_has_the_default_one_of_its_target() {
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {
            "name": "own", "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" },
        },
        "spec": { "controller": "example.com/ingress" },
    });
    // A fleet of its own: other tests' Ingresses have no class.
    let spec = Spec::new().target("east", small_nodes("east"));
    let spec = spec.rights(&[Right::FollowServices, Right::FollowIngresses]);
    let fleet = started(spec.follow(&["services", "ingresses"])).await;
    let shop = &Shop::connected(fleet, "class").await;
    let east = plane(shop, "east");
    east.apply_yaml(&class.to_string()).await.unwrap();
    apply(shop, "source", service("web", "web", 80)).await;
    apply(shop, "source", front("web")).await;
    shop.create(&web("web")).await;
    shop.running("web").await;
    let class = |ingress: &Ingress| {
        let spec = ingress.spec.as_ref();
        spec.and_then(|spec| spec.ingress_class_name.clone())
    };
    let there: Api<Ingress> = of(shop, "east");
    let copy = seen(shop, wait_for(&there, "front", |_| true, LIMIT).await);
    assert_eq!(class(&copy).as_deref(), Some("own"));
    let parent: Ingress = of(shop, "source").get("front").await.unwrap();
    assert_eq!(class(&parent), None, "the source has none");

    // A change of the author's keeps it.
    let mut moved = front("web");
    moved["spec"]["rules"][0]["host"] = "new.example.com".into();
    apply(shop, "source", moved.clone()).await;
    let host = |ingress: &Ingress| {
        let rules = ingress.spec.as_ref().and_then(|spec| spec.rules.as_ref());
        rules.and_then(|rules| rules[0].host.clone())
    };
    let has_moved = |it: &Ingress| host(it).as_deref() == Some("new.example.com");
    let copy = seen(shop, wait_for(&there, "front", has_moved, LIMIT).await);
    assert_eq!(class(&copy).as_deref(), Some("own"));

    // The author's own word counts before it.
    moved["spec"]["ingressClassName"] = "other".into();
    apply(shop, "source", moved).await;
    let other = |it: &Ingress| class(it).as_deref() == Some("other");
    seen(shop, wait_for(&there, "front", other, LIMIT).await);
    shop.delete("web").await;
    seen(shop, wait_gone(&there, "front", LIMIT).await);
}
