//! What is needed where.

use serde_json::{Value, json};

use super::super::selected::MOST;
use super::*;

fn pod(uid: &str, record: Option<&str>, config_maps: &[&str]) -> Pod {
    let from = |name: &&str| json!({ "configMapRef": { "name": name } });
    let from: Vec<Value> = config_maps.iter().map(from).collect();
    let mut annotations = json!({ keys::SOURCE_POD_MANIFEST: "long" });
    if let Some(record) = record {
        annotations[keys::GRANTED_TO] = record.into();
    }
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": uid, "namespace": "shop", "uid": uid, "annotations": annotations },
        "spec": { "containers": [{ "name": "c", "envFrom": from }] },
    }))
    .unwrap();
    trim_pod(&mut pod);
    pod
}

fn key(name: &str) -> Key {
    Key {
        kind: Kind::ConfigMap,
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn told(changes: &mut mpsc::UnboundedReceiver<Change>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(change) = changes.try_recv() {
        all.push(match change {
            Change::One(node, key) => format!("{node} {}", key.name),
            Change::LeftOut(key, pod) => format!("without {} {}", key.name, pod.name),
            Change::All => "all".to_owned(),
        });
    }
    all
}

#[test]
fn what_a_pod_names_is_needed_where_its_record_says_as_long_as_it_is_there() {
    let needs = Needs::default();
    let mut changes = needs.subscribe();
    let here = ["east".to_owned()];
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
    assert!(!needs.has(&here, &key("a")));
    assert!(needs.has(&here, &key("b")), "another pod needs it");
    assert!(needs.has(&["east".into(), "west".into()], &key("a")));
    needs.remove(&pod("q", None, &[]));
    assert!(!needs.has(&here, &key("b")));
    assert_eq!(needs.at("east", Kind::ConfigMap), []);
    assert_eq!(needs.at("west", Kind::ConfigMap).len(), 2);
    assert_eq!(needs.at("west", Kind::Secret), []);
    needs.remove(&pod("p", None, &[]));
    let inner = needs.lock();
    assert!(
        inner.by_node.is_empty() && inner.pods.is_empty(),
        "nothing is left"
    );
}

#[test]
fn a_record_that_cant_be_read_sends_nothing_anywhere() {
    let needs = Needs::default();
    needs.apply(&pod("p", Some("east"), &["a"]));
    assert!(!needs.has(&["east".into()], &key("a")));
    assert!(!needs.are_known(Kind::Secret));
    let mut changes = needs.subscribe();
    needs.all_known(None);
    assert_eq!(told(&mut changes), ["all"]);
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
        trim_pod(&mut pod);
        pod
    };
    let needs = Needs::default();
    let is_needed = |node: &str| needs.has(&[node.to_owned()], &key("a"));
    needs.apply(&bound("default-scheduler", None));
    assert!(!is_needed("east"), "it is no proxy");
    needs.apply(&bound(keys::PROXY_SCHEDULER, None));
    assert!(is_needed("east"));
    needs.apply(&bound(keys::PROXY_SCHEDULER, Some("west/c/1")));
    assert!(is_needed("west") && !is_needed("east"));
    needs.apply(&bound(keys::PROXY_SCHEDULER, Some("west")));
    assert!(!is_needed("west") && !is_needed("east"));
}

#[test]
fn of_a_pod_no_more_is_kept_than_needed() {
    let pod = pod("p", Some("east/c/1"), &["a"]);
    assert!(pod.spec.is_none());
    let annotations = pod.metadata.annotations.unwrap();
    let kept: Vec<_> = annotations.keys().map(String::as_str).collect();
    assert_eq!(kept, [keys::GRANTED_TO, NAMED]);
}

fn object<K: serde::de::DeserializeOwned>(name: &str, spec: &Value) -> K {
    let meta = json!({ "name": name, "namespace": "shop", "uid": name });
    serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap()
}

#[test]
fn a_service_is_needed_where_it_selects_a_pod_and_so_is_its_ingress() {
    let needs = Needs::default();
    let mut changes = needs.subscribe();
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
    let needs = Needs::default();
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
    let mut changes = needs.subscribe();
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
