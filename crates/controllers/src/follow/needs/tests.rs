//! What is needed where.

use pilotage_api::keys;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::selected::{LEFT_OUT, MOST};
use super::*;

fn pod(uid: &str, record: Option<&str>, config_maps: &[&str]) -> Pod {
    let from = |name: &&str| json!({ "configMapRef": { "name": name } });
    let from: Vec<Value> = config_maps.iter().map(from).collect();
    let mut annotations = json!({ keys::SOURCE_POD_MANIFEST: "long" });
    if let Some(record) = record {
        annotations[keys::GRANTED_TO] = record.into();
    }
    serde_json::from_value(json!({
        "metadata": { "name": uid, "namespace": "shop", "uid": uid, "annotations": annotations },
        "spec": { "containers": [{ "name": "c", "envFrom": from }] },
    }))
    .unwrap()
}

fn key(name: &str) -> Key {
    Key {
        kind: Kind::ConfigMap,
        namespace: "shop".into(),
        name: name.into(),
    }
}

const KINDS: [Kind; 4] = [Kind::ConfigMap, Kind::Secret, Kind::Service, Kind::Ingress];

/// Those who follow each kind.
fn subscribe(needs: &Needs) -> [UnboundedReceiver<Change>; 4] {
    KINDS.map(|kind| needs.subscribe(kind))
}

/// What they were told, kind by kind.
fn told(changes: &mut [UnboundedReceiver<Change>; 4]) -> Vec<String> {
    let mut all = Vec::new();
    for (kind, changes) in KINDS.into_iter().zip(changes) {
        while let Ok(change) = changes.try_recv() {
            all.push(match change {
                Change::At(node, keys) => {
                    assert!(keys.iter().all(|key| key.kind == kind));
                    let each = keys.iter().map(|key| format!("{node} {}", key.name));
                    all.extend(each);
                    continue;
                }
                Change::LeftOut(key, pod) => {
                    assert_eq!(key.kind, kind);
                    format!("without {} {}", key.name, pod.name)
                }
                Change::All => "all".to_owned(),
            });
        }
    }
    all
}

#[test]
fn what_a_pod_names_is_needed_where_its_record_says_as_long_as_it_is_there() {
    let needs = Needs::default();
    let mut changes = subscribe(&needs);
    needs.apply(&pod("p", None, &["a", "b"]));
    assert_eq!(told(&mut changes), [""; 0], "nobody knows where yet");
    needs.apply(&pod("p", Some("east/c/1"), &["a", "b"]));
    assert_eq!(told(&mut changes), ["east a", "east b"]);
    needs.apply(&pod("p", Some("east/c/1"), &["a", "b"]));
    assert_eq!(told(&mut changes), [""; 0], "nothing is new");
    needs.apply(&pod("q", Some("east/d/1"), &["b"]));
    assert_eq!(needs.pods("east", &key("b"), 10).len(), 2);
    assert_eq!(needs.pods("east", &key("b"), 1).len(), 1);
    told(&mut changes);

    // It goes elsewhere.
    needs.apply(&pod("p", Some("west/e/2"), &["a", "b"]));
    assert_eq!(told(&mut changes), ["east a", "east b", "west a", "west b"]);
    assert!(!needs.has("east", &key("a")));
    assert!(needs.has("east", &key("b")), "another pod needs it");
    assert_eq!(needs.nodes_of(&key("a")).nodes, ["west".into()]);
    needs.remove(&pod("q", None, &[]));
    assert!(!needs.has("east", &key("b")));
    assert_eq!(needs.at("east", Kind::ConfigMap), []);
    assert_eq!(needs.at("west", Kind::ConfigMap).len(), 2);
    assert_eq!(needs.at("west", Kind::Secret), []);
    needs.remove(&pod("p", None, &[]));
    let inner = needs.lock();
    assert!(
        inner.by_node.is_empty() && inner.by_object.is_empty() && inner.pods.is_empty(),
        "nothing is left"
    );
}

#[test]
fn a_record_that_cant_be_read_sends_nothing_anywhere() {
    let needs = Needs::default();
    needs.apply(&pod("p", Some("east"), &["a"]));
    assert!(!needs.has("east", &key("a")));
    assert!(!needs.are_known(Kind::Secret));
    let mut changes = subscribe(&needs);
    needs.all_known(None);
    assert_eq!(told(&mut changes), ["all"; 4]);
}

#[test]
fn what_a_pod_of_admiralty_names_is_needed_where_it_is_bound() {
    let bound = |scheduler: &str, record: Option<&str>| {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "shop", "uid": "p", "annotations": {} },
            "spec": {
                "schedulerName": scheduler,
                "nodeName": "east",
                "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": "a" } }] }],
            },
        }))
        .unwrap();
        if let Some(record) = record {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::GRANTED_TO.to_owned(), record.to_owned());
        }
        pod
    };
    let needs = Needs::default();
    let is_needed = |node: &str| needs.has(node, &key("a"));
    needs.apply(&bound("default-scheduler", None));
    assert!(!is_needed("east"), "it is no proxy");
    needs.apply(&bound(keys::PROXY_SCHEDULER, None));
    assert!(is_needed("east"));
    needs.apply(&bound(keys::PROXY_SCHEDULER, Some("west/c/1")));
    assert!(is_needed("west") && !is_needed("east"));
    needs.apply(&bound(keys::PROXY_SCHEDULER, Some("west")));
    assert!(!is_needed("west") && !is_needed("east"));
}

fn object<K: serde::de::DeserializeOwned>(name: &str, spec: &Value) -> K {
    let meta = json!({ "name": name, "namespace": "shop", "uid": name });
    serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap()
}

#[test]
fn a_service_is_needed_where_it_selects_a_pod_and_so_is_its_ingress() {
    let needs = Needs::new(true);
    let mut changes = subscribe(&needs);
    let labelled = |record: Option<&str>| {
        let mut pod = pod("p", record, &["a"]);
        pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        pod
    };
    let web: Service = object("web", &json!({ "selector": { "app": "web" } }));
    let behind = json!({ "defaultBackend": { "service": { "name": "web" } } });
    let front: Ingress = object("front", &behind);
    needs.service(&web, true);
    needs.ingress(&front, true);
    needs.apply(&labelled(None));
    assert_eq!(told(&mut changes), [""; 0], "the pod is nowhere yet");
    needs.apply(&labelled(Some("east/c/1")));
    assert_eq!(told(&mut changes), ["east a", "east web", "east front"]);
    let service = Key::of(&web).unwrap();
    assert!(needs.is_anywhere(&service));
    assert_eq!(needs.at("east", Kind::Ingress).len(), 1);
    assert_eq!(needs.pods("east", &service, 10).len(), 1);

    let mut unreadable = web.clone();
    let annotations = [(keys::ORIGINAL_SELECTOR.to_owned(), "?".to_owned())];
    unreadable.metadata.annotations = Some(annotations.into());
    needs.service(&unreadable, true);
    assert_eq!(told(&mut changes), [""; 0], "nothing is known of it");
    needs.service(&unreadable, false);
    assert_eq!(told(&mut changes), ["east web", "east front"]);
    needs.service(&web, true);
    told(&mut changes);
    needs.remove(&labelled(None));
    assert_eq!(told(&mut changes), ["east a", "east web", "east front"]);
    assert!(!needs.is_anywhere(&service));

    needs.all_known(None);
    assert!(needs.are_known(Kind::ConfigMap) && !needs.are_known(Kind::Service));
    needs.all_known(Some(Kind::Service));
    assert!(needs.are_known(Kind::Service) && !needs.are_known(Kind::Ingress));
    needs.all_known(Some(Kind::Ingress));
    assert!(needs.are_known(Kind::Ingress));
}

#[test]
fn what_is_too_many_is_told_with_some_of_the_pods_that_it_leaves_out() {
    let needs = Needs::new(true);
    let sent = |uid: &str| {
        let mut pod = pod(uid, Some("east/c/1"), &[]);
        pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        pod
    };
    let web = |n: usize| -> Service {
        object(
            &format!("s{n:02}"),
            &json!({ "selector": { "app": "web" } }),
        )
    };
    for n in 0..=MOST {
        needs.service(&web(n), true);
    }
    assert_eq!(needs.left_out(Kind::Service), [], "nobody is sent anywhere");
    let mut changes = subscribe(&needs);
    needs.apply(&sent("p"));
    let all = told(&mut changes);
    assert_eq!(all.len(), MOST + 1);
    assert_eq!(all[MOST], "without s64 p");
    needs.apply(&sent("p"));
    assert_eq!(told(&mut changes), [""; 0], "nothing is new");
    let uids: Vec<_> = (0..2 * TOLD).map(|n| format!("q{n}")).collect();
    for uid in &uids {
        needs.apply(&sent(uid));
    }
    let without = told(&mut changes);
    let without = without.iter().filter(|it| it.starts_with("without"));
    assert_eq!(without.count(), TOLD - 1);
    let left_out = needs.left_out(Kind::Service);
    assert_eq!(left_out.len(), TOLD);
    assert!(left_out.iter().all(|(key, _)| key.name == "s64"));
    assert_eq!(needs.left_out(Kind::Ingress), []);

    // There is room for it now.
    needs.service(&web(0), false);
    assert_eq!(needs.left_out(Kind::Service), []);
    needs.service(&web(0), true);
    for uid in uids.iter().map(String::as_str).chain(["p"]) {
        needs.remove(&sent(uid));
    }
    let inner = needs.lock();
    assert!(inner.left_out.is_empty() && inner.pods.is_empty());
}

#[test]
fn an_object_and_a_pod_are_kept_once_at_however_many_nodes() {
    let needs = Needs::default();
    for n in 0..8 {
        let record = format!("node-{}/c/1", n % 4);
        needs.apply(&pod(&format!("p{n}"), Some(&record), &["settings"]));
    }
    let nodes = needs.nodes_of(&key("settings")).nodes;
    assert_eq!(nodes.len(), 4);
    let inner = needs.lock();
    let (kept, _) = inner.by_object.get_key_value(&key("settings")).unwrap();
    let at_nodes = inner.by_node.values().flatten();
    let of_pods = inner
        .pods
        .values()
        .flat_map(|sent| sent.keys.iter().chain(&sent.named));
    let mut all = at_nodes.chain(of_pods);
    assert!(all.all(|key| Arc::ptr_eq(key, kept)));
    let uids = inner.by_object[kept].values().flatten();
    let kept_once = |uid: &Uid| {
        let (kept, _) = inner.pods.get_key_value(uid).unwrap();
        Arc::ptr_eq(uid, kept)
    };
    assert!(uids.into_iter().all(kept_once));
}

#[test]
fn what_follows_by_no_labels_keeps_none() {
    let needs = Needs::default();
    let mut sent = pod("p", Some("east/c/1"), &["a"]);
    sent.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    needs.apply(&sent);
    needs.service(
        &object("web", &json!({ "selector": { "app": "web" } })),
        true,
    );
    assert_eq!(needs.at("east", Kind::Service), []);
}

#[test]
fn a_large_change_is_counted_some_at_a_time_and_keeps_no_other_namespace_waiting() {
    let needs = Needs::new(true);
    let sent = |namespace: &str, n: usize| {
        let mut pod = pod(&format!("{namespace}-{n}"), Some("east/c/1"), &[]);
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        pod
    };
    let many = 3 * AT_ONCE;
    for n in 0..many {
        needs.apply(&sent("shop", n));
    }
    needs.apply(&sent("bank", 0));
    let web = |namespace: &str| {
        let mut web: Service = object("web", &json!({ "selector": { "app": "web" } }));
        web.metadata.namespace = Some(namespace.to_owned());
        web
    };
    let (ours, theirs) = (web("shop"), web("bank"));
    let (key, of_bank) = (Key::of(&ours).unwrap(), Key::of(&theirs).unwrap());
    let selected = || needs.pods("east", &key, many).len();
    let mut changes = needs.subscribe(Kind::Service);
    needs.service(&ours, true);
    assert!(needs.go_on());
    let first = selected();
    assert!(0 < first && first <= AT_ONCE, "{first}");
    assert!(needs.nodes_of(&key).counting && !needs.has_counted(&ours));
    let Ok(Change::At(_, told)) = changes.try_recv() else {
        panic!("nothing is told")
    };
    assert_eq!((told.len(), changes.len()), (1, 0), "once");

    needs.service(&theirs, true);
    assert!(needs.has("east", &of_bank) && needs.has_counted(&theirs));
    assert!(!needs.nodes_of(&of_bank).counting);
    // What comes meanwhile waits with it.
    needs.service(&ours, false);
    assert_eq!(selected(), first);
    needs.service(&ours, true);
    let mut steps = 1;
    while needs.go_on() {
        let now = selected();
        assert!(now <= (steps + 1) * AT_ONCE, "{now} after {steps}");
        steps += 1;
    }
    assert_eq!(selected(), many);
    assert!(needs.has_counted(&ours) && !needs.nodes_of(&key).counting);
    assert!(!needs.go_on());
}

#[test]
fn pods_that_go_while_they_wait_to_be_counted_stand_for_no_others() {
    let needs = Needs::new(true);
    needs.lock().at_once = 1;
    let labelled = |uid: &str, app: &str| {
        let mut pod = pod(uid, Some("east/c/1"), &[]);
        pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        pod
    };
    let selecting = |app: &str| object(app, &json!({ "selector": { "app": app } }));
    for app in ["blue", "green"] {
        needs.service(&selecting(app), true);
    }
    let old = ["p0", "p1"].map(|uid| labelled(uid, "old"));
    for pod in &old {
        needs.apply(pod);
    }
    needs.service(&selecting("old"), true);
    assert!(!needs.lock().pending.is_empty());
    for pod in &old {
        needs.remove(pod);
    }
    needs.apply(&labelled("p2", "blue"));
    let mut green = labelled("p3", "green");
    let record = (keys::GRANTED_TO.to_owned(), "west/c/1".to_owned());
    green.metadata.annotations = Some([record].into());
    needs.apply(&green);
    let path = |name: &str| {
        let service = json!({ "name": name });
        json!({ "pathType": "Prefix", "backend": { "service": service } })
    };
    let paths = ["blue", "green"].map(path);
    let front: Ingress = object(
        "front",
        &json!({ "rules": [{ "http": { "paths": paths } }] }),
    );
    needs.ingress(&front, true);
    while needs.go_on() {}
    let front = Key::of(&front).unwrap();
    assert!(needs.has("east", &front) && needs.has("west", &front));
}

#[test]
fn of_endless_names_a_pod_brings_some_and_the_next_are_told() {
    let needs = Needs::default();
    let mut changes = subscribe(&needs);
    let names: Vec<_> = (0..=2 * MOST_NAMED).map(|n| format!("m{n:05}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    needs.apply(&pod("p", Some("east/c/1"), &names));
    assert_eq!(needs.at("east", Kind::ConfigMap).len(), MOST_NAMED);
    assert!(needs.has("east", &key("m01023")) && !needs.has("east", &key("m01024")));
    let told = told(&mut changes);
    assert_eq!(told.len(), MOST_NAMED + LEFT_OUT);
    assert_eq!(told[MOST_NAMED], "without m01024 p");
    needs.apply(&pod("p", Some("east/c/1"), &names[..MOST_NAMED]));
    assert_eq!(needs.left_out(Kind::ConfigMap), []);
}

mod property;
