//! The longest single step of what makes copies of what follows pods, with the largest objects that API servers take
//! and what hostile authors and targets put into them.
//!
//! It owns the objects; it knows the code only by its public face. `make bench-steps` runs it.

use std::collections::BTreeMap;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use pilotage_absurd::steps::{self, Times};
use pilotage_api::keys;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_model::followed::{
    Content, backends, carry_over, config_map, ingress, needs, only_names, reroute, secret,
    selected, service,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// How often the scenes are played.
const ROUNDS: usize = 5;
/// How many objects one pod names.
const NAMED: usize = 5_000;
/// Entries of an object of 1 MB.
const ENTRIES: usize = 20_000;

fn main() -> ExitCode {
    println!("Longest single steps of {ROUNDS} rounds about one object, processor time.");
    steps::measure(ROUNDS, |times| {
        pod(times);
        data(times);
        services(times);
        ingresses(times);
    })
}

/// As long as names may be, and no two alike.
fn long(start: &str, number: usize) -> String {
    let start = format!("{start}-{number:05}-");
    let rest = 253_usize.saturating_sub(start.len());
    start + &"x".repeat(rest)
}

fn read<K: DeserializeOwned + Default>(value: Value) -> K {
    serde_json::from_value(value).unwrap_or_default()
}

fn link() -> ParentLink {
    ParentLink {
        cluster_uid: Some(ClusterUid("source".to_owned())),
        cluster_name: None,
        uid: "u".to_owned(),
        namespace: "shop".to_owned(),
        name: long("it", 0),
    }
}

/// All annotations that fit, in so many of them.
fn annotations(count: usize) -> BTreeMap<String, String> {
    let value = "x".repeat(250_000_usize.checked_div(count).unwrap_or_default());
    (0..count)
        .map(|number| (format!("example.com/note-{number}"), value.clone()))
        .collect()
}

fn labels() -> BTreeMap<String, String> {
    (0..4_000)
        .map(|number| (format!("example.com/label-{number}"), "v".repeat(63)))
        .collect()
}

fn meta(annotations: &BTreeMap<String, String>) -> Value {
    json!({
        "name": long("it", 0), "namespace": "shop", "uid": "u", "resourceVersion": "1",
        "labels": labels(), "annotations": annotations,
    })
}

fn pod(times: &mut Times) {
    let from: Vec<_> = (0..NAMED)
        .map(|number| json!({ "configMapRef": { "name": long("map", number) } }))
        .collect();
    let volumes: Vec<_> = (0..NAMED)
        .map(|number| json!({ "name": format!("v{number}"), "secret": { "secretName": long("secret", number) } }))
        .collect();
    let container = json!({ "name": "c", "envFrom": from });
    let spec: PodSpec = read(json!({ "containers": [container], "volumes": volumes }));
    let named = times.step("what a pod with 10,000 long names names", || needs(&spec));
    assert_eq!(named.len(), 2 * NAMED);
}

/// `ConfigMap`s and Secrets.
fn data(times: &mut Times) {
    let small: Map<_, _> = (0..ENTRIES)
        .map(|number| (format!("key-{number}"), json!("value".repeat(8))))
        .collect();
    let escaped = json!({ "a": "<".repeat(150_000), "b": "\u{1}\u{2028}\"".repeat(20_000) });
    for (name, data) in [
        (
            "a ConfigMap with one text of 1 MB",
            json!({ "a": "x".repeat(1_000_000) }),
        ),
        ("a ConfigMap with 20,000 small texts", small.into()),
        ("a ConfigMap with texts that get longer", escaped),
    ] {
        let map: ConfigMap = read(json!({ "metadata": meta(&annotations(5_000)), "data": data }));
        assert!(map.data.is_some());
        times.step(&format!("digest of {name}"), || {
            Content::of_config_map(&map)
        });
        let copy = times.step(&format!("copy of {name}"), || config_map(&map, &link()));
        assert!(copy.is_ok(), "{name}: {:?}", copy.err());
    }
    let too_large = json!({ "a": "<".repeat(700_000) });
    let map: ConfigMap = read(json!({ "metadata": meta(&annotations(1)), "data": too_large }));
    let copy = times.step("no copy of a ConfigMap that is too large", || {
        config_map(&map, &link())
    });
    assert!(copy.is_err());
    let encoded = "eHh4".repeat(340_000);
    let secret_: Secret = read(
        json!({ "metadata": meta(&annotations(100)), "type": "Opaque", "data": { "a": encoded } }),
    );
    assert!(secret_.data.is_some());
    times.step("digest of a Secret of 1 MB", || {
        Content::of_secret(&secret_)
    });
    let copy = times.step("copy of a Secret of 1 MB", || secret(&secret_, &link()));
    assert!(copy.is_ok());
}

fn services(times: &mut Times) {
    let ports: Vec<_> = (0..10_000)
        .map(|number| json!({ "name": format!("p{number}"), "port": number + 1, "nodePort": number + 1 }))
        .collect();
    let notable: BTreeMap<_, _> = (0..150).map(|number| (format!("l{number}"), "v")).collect();
    let endless: BTreeMap<_, _> = (0..15_000)
        .map(|number| (format!("example.com/l{number}"), "v".repeat(63)))
        .collect();
    let noted: Vec<_> = notable
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let pattern = "(l.{0,5}){1,3}=v$";
    for (name, selector, more) in [
        ("plain selector", json!({ "app": "web" }), json!({})),
        (
            "selector and a pattern",
            json!(notable),
            json!({ keys::NO_PREFIX_LABEL_REGEXP: pattern }),
        ),
        (
            "noted selector and 1 MB",
            json!(endless),
            json!({ keys::ORIGINAL_SELECTOR: noted.join(","), keys::NO_PREFIX_LABEL_REGEXP: pattern }),
        ),
        ("selector of 1 MB", json!(endless), json!({})),
        (
            "note of 200 kB",
            json!({ "app": "web" }),
            json!({ keys::ORIGINAL_SELECTOR: "a=b,".repeat(50_000) }),
        ),
    ] {
        let mut all = json!(annotations(5_000));
        for (key, value) in more.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let mut metadata = meta(&BTreeMap::new());
        metadata["annotations"] = all;
        let object: Service = read(json!({
            "metadata": metadata, "spec": { "selector": selector, "ports": ports },
        }));
        assert!(object.spec.is_some());
        let of = |what: &str| format!("{what} of a Service with a {name}");
        _ = times.step(&of("author's selector"), || selected(&object));
        _ = times.step(&of("rerouting"), || reroute(&object));
        times.step(&of("digest"), || Content::of_service(&object));
        let copy = times.step(&of("copy"), || service(&object, &link()));
        let Ok(mut copy) = copy else { continue };
        times.step("digest of a Service's copy", || Content::of_service(&copy));
        let mut found = copy.clone();
        found.metadata.annotations = Some(annotations(5_000));
        times.step("what others wrote to a Service's copy", || {
            carry_over(&mut copy.metadata, &found.metadata);
        });
    }
}

fn ingresses(times: &mut Times) {
    let path = |number: usize| {
        let service = json!({ "name": long("service", number) });
        json!({ "pathType": "Prefix", "path": "/", "backend": { "service": service } })
    };
    let rules: Vec<_> = (0..2_500)
        .map(|number| json!({ "host": long("host", number), "http": { "paths": [path(number)] } }))
        .collect();
    let metadata = meta(&annotations(5_000));
    let object: Ingress = read(json!({ "metadata": metadata, "spec": { "rules": rules } }));
    let behind = times.step("Services behind an Ingress of 1.5 MB", || backends(&object));
    assert_eq!(behind.len(), 2_500);
    if let Some(spec) = &object.spec {
        times.step("what is kept of an Ingress of 1.5 MB", || only_names(spec));
    }
    times.step("digest of an Ingress of 1.5 MB", || {
        Content::of_ingress(&object)
    });
    _ = times.step("copy of an Ingress of 1.5 MB", || ingress(&object, &link()));
}
