//! What becomes of Services.

use pilotage_api::parent::ClusterUid;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const APP: &str = "multicluster.admiralty.io/app";

fn object(value: &Value) -> Service {
    serde_json::from_value(value.clone()).unwrap()
}

fn link() -> ParentLink {
    ParentLink {
        cluster_uid: Some(ClusterUid("s1".into())),
        cluster_name: None,
        uid: "u".into(),
        namespace: "shop".into(),
        name: "web".into(),
    }
}

fn web() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "labels": { "team": "a" }, "annotations": { "note": "x" },
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        },
        "spec": {
            "type": "NodePort", "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080, "protocol": "TCP" }],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "ClientIP", "healthCheckNodePort": 30081,
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } },
    })
}

/// The object after a merge patch.
fn patched(mut object: Value, patch: &Value) -> Value {
    fn merge(into: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *into = patch.clone();
            return;
        };
        for (key, value) in patch {
            if value.is_null() {
                into.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut into[key], value);
            }
        }
    }
    merge(&mut object, patch);
    object
}

#[test]
fn a_service_is_rerouted_once_and_again_when_its_author_writes_it() {
    let patch = reroute(&object(&web())).unwrap().unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let routed = patched(web(), &patch);
    assert_eq!(routed["spec"]["selector"], json!({ APP: "web" }));
    assert_eq!(
        routed["metadata"]["annotations"],
        json!({
            "note": "x", keys::ORIGINAL_SELECTOR: "app=web", keys::GLOBAL: "true",
            "io.cilium/global-service": "true", "service.cilium.io/global": "true",
        })
    );
    assert_eq!(reroute(&object(&routed)), Ok(None), "it stands");
    let app = Selector::from([("app".to_owned(), "web".to_owned())]);
    assert_eq!(selected(&object(&routed)), Ok(Some(app.clone())));

    // kubectl apply merges maps.
    let mut applied = routed.clone();
    applied["spec"]["selector"]["app"] = "web".into();
    assert_eq!(selected(&object(&applied)), Ok(Some(app)));
    let again = reroute(&object(&applied)).unwrap().unwrap();
    assert_eq!(patched(applied, &again), routed);
}

#[test]
fn labels_that_keep_their_key_keep_it_in_the_selector() {
    let mut web = web();
    web["metadata"]["annotations"][keys::NO_PREFIX_LABEL_REGEXP] = "^app=".into();
    web["spec"]["selector"]["tier"] = "front".into();
    let patch = reroute(&object(&web)).unwrap().unwrap();
    let tier = "multicluster.admiralty.io/tier";
    assert_eq!(
        patch["spec"]["selector"],
        json!({ "tier": null, tier: "front" })
    );
    let routed = object(&patched(web, &patch));
    assert_eq!(reroute(&routed), Ok(None));
    let copy = service(&routed, &link()).unwrap();
    let selector = copy.spec.unwrap().selector.unwrap();
    assert_eq!(selector.keys().collect::<Vec<_>>(), ["app", tier]);
}

#[test]
fn a_copy_selects_delegates_and_has_nothing_of_its_home() {
    let source = object(&web());
    let copy = service(&source, &link()).unwrap();
    let value = serde_json::to_value(&copy).unwrap();
    assert_eq!(
        value["spec"],
        json!({
            "type": "NodePort", "selector": { APP: "web" },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "ClientIP",
        })
    );
    assert_eq!(value.get("status"), None);
    let meta = &value["metadata"];
    assert_eq!(meta.get("finalizers"), None);
    assert_eq!(
        meta["labels"],
        json!({ "team": "a", keys::PARENT_UID: "u", keys::PARENT_CLUSTER_UID: "s1" })
    );
    let annotations = &meta["annotations"];
    assert_eq!(annotations["note"], "x");
    assert_eq!(annotations[keys::IS_DELEGATE], "");
    for key in [keys::GLOBAL, keys::CILIUM_GLOBAL[0], keys::CILIUM_GLOBAL[1]] {
        assert_eq!(annotations[key], "true");
    }
    assert_eq!(annotations.get(keys::ORIGINAL_SELECTOR), None);
    assert_eq!(service(&copy, &link()), Err(NotCopied::NeverFollows));

    // Before and after it is rerouted, and with what a target fills in.
    let routed = object(&patched(web(), &reroute(&source).unwrap().unwrap()));
    let content = Content::of_service(&source);
    assert_eq!(Content::of_service(&routed), content);
    assert_eq!(service(&routed, &link()), Ok(copy.clone()));
    let mut there = copy;
    let spec = there.spec.as_mut().unwrap();
    spec.cluster_ip = Some("10.9.9.9".into());
    spec.cluster_ips = Some(vec!["10.9.9.9".into()]);
    spec.ports.as_mut().unwrap()[0].node_port = Some(31000);
    assert_eq!(Content::of_service(&there), content);
    let ours = there.clone();
    let note = |there: &mut Service, key: &str, value: &str| {
        let annotations = there.metadata.annotations.as_mut().unwrap();
        annotations.insert(key.into(), value.into());
    };
    note(&mut there, "cloud/neg", "1");
    assert_eq!(
        Content::of_service(&there),
        content,
        "a controller there may note things"
    );
    note(&mut there, "note", "y");
    assert_ne!(Content::of_service(&there), content, "but not change ours");
    for key in [
        keys::IS_DELEGATE,
        keys::GLOBAL,
        "note",
        keys::CILIUM_GLOBAL[0],
    ] {
        let mut there = ours.clone();
        there.metadata.annotations.as_mut().unwrap().remove(key);
        assert_ne!(Content::of_service(&there), content, "{key}");
    }
    let mut there = ours;
    there.spec.as_mut().unwrap().selector = Some(Selector::new());
    assert_ne!(Content::of_service(&there), content);
}

#[test]
fn a_headless_service_stays_headless_and_never_becomes_another() {
    let mut headless = web();
    headless["spec"]["type"] = "ClusterIP".into();
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["clusterIPs"] = json!(["None"]);
    let source = object(&headless);
    let spec = service(&source, &link()).unwrap().spec.unwrap();
    assert_eq!(spec.cluster_ip.as_deref(), Some("None"));
    assert_eq!(spec.cluster_ips, None);
    assert_ne!(
        Content::of_service(&source).type_,
        Content::of_service(&object(&web())).type_
    );
}

#[test]
fn what_never_follows_is_neither_rerouted_nor_copied() {
    let with = |path: &str, key: &str, value: Value| {
        let mut object = web();
        object.pointer_mut(path).unwrap()[key] = value;
        object
    };
    for never in [
        with("/spec", "selector", json!(null)),
        with("/spec", "selector", json!({})),
        with("/spec", "type", "ExternalName".into()),
        with("/metadata/labels", keys::IS_DELEGATE, "".into()),
        with("/metadata/annotations", keys::IS_DELEGATE, "".into()),
        with("/metadata/labels", keys::PARENT_UID, "p".into()),
        json!({ "metadata": { "name": "web" } }),
    ] {
        let never = object(&never);
        assert_eq!(selected(&never), Ok(None));
        assert_eq!(reroute(&never), Ok(None));
        assert_eq!(service(&never, &link()), Err(NotCopied::NeverFollows));
    }
    for (key, value) in [
        (keys::ORIGINAL_SELECTOR, "app in (web)"),
        (keys::NO_PREFIX_LABEL_REGEXP, "("),
    ] {
        let unreadable = object(&with("/metadata/annotations", key, value.into()));
        let error = selected(&unreadable).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
        assert_eq!(reroute(&unreadable), Err(error.clone()));
        assert_eq!(service(&unreadable, &link()), Err(error));
    }
}

#[test]
fn what_others_wrote_to_a_copy_stays_when_it_is_brought_in_step() {
    let mut found = service(&object(&web()), &link()).unwrap().metadata;
    found.finalizers = Some(vec!["service.kubernetes.io/load-balancer-cleanup".into()]);
    let annotations = found.annotations.as_mut().unwrap();
    annotations.insert("cloud/neg".into(), "1".into());
    annotations.insert("multicluster.admiralty.io/other".into(), "1".into());
    let mut changed = web();
    changed["metadata"]["annotations"] = json!({ "new": "z" });
    let mut next = service(&object(&changed), &link()).unwrap().metadata;
    marked::carry_over(&mut next, &found);
    assert_eq!(next.finalizers, found.finalizers);
    let annotations = next.annotations.unwrap();
    assert_eq!(annotations["cloud/neg"], "1");
    assert_eq!(annotations["new"], "z");
    assert_eq!(annotations.get("note"), None, "its author took it away");
    assert_eq!(annotations.get("multicluster.admiralty.io/other"), None);
}

const KEYS: [&str; 6] = [
    "app",
    "a.io/app",
    "b.io/app",
    "team",
    APP,
    "multicluster.admiralty.io/team",
];

fn any_selector() -> impl Strategy<Value = Selector> {
    let label = (select(&KEYS[..]), select(&["x", "y"][..]));
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    proptest::collection::btree_set(label, 0..5)
        .prop_map(move |all| all.into_iter().map(owned).collect())
}

proptest! {
    #[test]
    fn one_write_is_enough_whatever_stands_there(
        live in any_selector(),
        noted in proptest::option::of(any_selector()),
        kept in select(&[None, Some("team="), Some("app=x")][..]),
    ) {
        let mut web = web();
        web["spec"]["selector"] = json!(live);
        let annotations = &mut web["metadata"]["annotations"];
        if let Some(noted) = noted.filter(|noted| !noted.is_empty()) {
            annotations[keys::ORIGINAL_SELECTOR] = selector::text(&noted).into();
        }
        if let Some(kept) = kept {
            annotations[keys::NO_PREFIX_LABEL_REGEXP] = kept.into();
        }
        let original = selected(&object(&web)).unwrap();
        if let Some(patch) = reroute(&object(&web)).unwrap() {
            let routed = object(&patched(web.clone(), &patch));
            prop_assert_eq!(reroute(&routed), Ok(None));
            prop_assert_eq!(&selected(&routed).unwrap(), &original);
            prop_assert_eq!(Content::of_service(&routed), Content::of_service(&object(&web)));
            let copy = service(&routed, &link()).unwrap();
            prop_assert_eq!(Content::of_service(&copy), Content::of_service(&routed));
        }
    }
}
