//! The longest single step of what says which object follows which pods, among 10,000 proxies and with what hostile
//! authors of pods, Services and Ingresses write.
//!
//! It owns the scenes; it knows the code only by its public face. `make bench-steps` runs it.

use std::collections::BTreeMap;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use pilotage_absurd::steps::{self, Times};
use pilotage_api::keys;
use pilotage_controllers::follow::needs::{Key, Needs};
use pilotage_model::followed::Kind;
use serde_json::{Value, json};

/// How many pods were sent to targets.
const PROXIES: usize = 10_000;
/// How many targets there are, each of which is told what it needs.
const TARGETS: usize = 10;
/// How many objects one pod names.
const NAMED: usize = 5_000;
/// How many Services select each of some pods.
const SERVICES: usize = 64;
/// How many pods these are.
const SELECTED: usize = 100;
/// How often the scenes are played.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    println!(
        "Longest single steps of {ROUNDS} rounds with {PROXIES} proxies and {TARGETS} targets, processor time."
    );
    steps::measure(ROUNDS, |times| {
        names(times);
        selectors(times);
    })
}

/// As long as names may be, and no two alike.
fn long(start: &str, number: usize) -> String {
    let start = format!("{start}-{number:05}-");
    let rest = 253_usize.saturating_sub(start.len());
    start + &"x".repeat(rest)
}

fn node(number: usize) -> String {
    format!("admiralty-shop-{:05}", number % TARGETS)
}

fn pod(number: usize, node: &str, labels: &Value, spec: &Value) -> Pod {
    let record = format!("{node}/c-{number}/1");
    let pod = json!({
        "metadata": {
            "name": long("web", number), "namespace": "shop", "uid": format!("u-{number:030}"), "labels": labels,
            "annotations": { keys::SOURCE_POD_MANIFEST: "metadata: {}", keys::GRANTED_TO: record },
        },
        "spec": spec,
    });
    serde_json::from_value(pod).unwrap_or_default()
}

/// A container that names so many objects of both kinds.
fn naming(count: usize) -> Value {
    let from: Vec<_> = (0..count)
        .map(|number| match number % 2 {
            0 => json!({ "configMapRef": { "name": long("map", number) } }),
            _ => json!({ "secretRef": { "name": long("secret", number) } }),
        })
        .collect();
    json!({ "containers": [{ "name": "c", "envFrom": from }] })
}

/// Pods name objects, and go elsewhere.
fn names(times: &mut Times) {
    let needs = Needs::new(false);
    let mut told: Vec<_> = (0..TARGETS)
        .flat_map(|_| [Kind::ConfigMap, Kind::Secret].map(|kind| needs.subscribe(kind)))
        .collect();
    let (many, few) = (naming(NAMED), naming(4));
    for number in 0..PROXIES {
        let pod = pod(number, &node(number), &json!({}), &few);
        times.step("a pod that names 4 objects comes", || needs.apply(&pod));
    }
    for number in 0..20 {
        let stays = pod(number, &node(number), &json!({}), &many);
        times.step("a pod comes to name 5,000 objects", || needs.apply(&stays));
        times.step("the same again", || needs.apply(&stays));
        for subscriber in &mut told {
            while subscriber.try_recv().is_ok() {}
        }
        let goes = pod(number, &node(number + 1), &json!({}), &many);
        times.step("a pod that names 5,000 objects goes elsewhere", || {
            needs.apply(&goes);
        });
        let at = times.step("what a target needs", || {
            needs.at(&node(number + 1), Kind::ConfigMap)
        });
        assert!(at.len() >= NAMED / 2);
        for subscriber in &mut told {
            while subscriber.try_recv().is_ok() {}
        }
        times.step("a pod that names 5,000 objects is gone", || {
            needs.remove(&goes);
        });
    }
    let copies: Vec<_> = (0..PROXIES)
        .map(|number| Key {
            kind: Kind::ConfigMap,
            namespace: "shop".to_owned(),
            name: long("map", number % 8),
        })
        .collect();
    times.step("where 10,000 copies are needed", || {
        copies
            .iter()
            .map(|key| needs.nodes_of(key).len())
            .sum::<usize>()
    });
}

fn service(number: usize, selector: &Value) -> Service {
    let service = json!({
        "metadata": { "name": long("service", number), "namespace": "shop" },
        "spec": { "selector": selector },
    });
    serde_json::from_value(service).unwrap_or_default()
}

fn ingress(number: usize) -> Ingress {
    let path = |number: usize| {
        let service = json!({ "name": long("service", number) });
        json!({ "pathType": "Prefix", "backend": { "service": service } })
    };
    let paths: Vec<_> = (0..SERVICES).map(path).collect();
    let ingress = json!({
        "metadata": { "name": long("ingress", number), "namespace": "shop" },
        "spec": { "rules": [{ "http": { "paths": paths } }] },
    });
    serde_json::from_value(ingress).unwrap_or_default()
}

/// Services and Ingresses that concern some pods, among others that differ from them in one label.
fn selectors(times: &mut Times) {
    let needs = Needs::new(true);
    let mut told: Vec<_> = (0..TARGETS)
        .flat_map(|_| [Kind::Service, Kind::Ingress].map(|kind| needs.subscribe(kind)))
        .collect();
    let mut hear = || {
        for subscriber in &mut told {
            while subscriber.try_recv().is_ok() {}
        }
    };
    let labels = |app: &str| {
        let all = (0..20).map(|label| (format!("example.com/label-{label}"), "value".repeat(12)));
        let all: BTreeMap<_, _> = all.chain([("app".to_owned(), app.to_owned())]).collect();
        json!(all)
    };
    let (some, others, few) = (labels("some"), labels("others"), naming(4));
    for number in 0..PROXIES {
        let labels = if number < SELECTED { &some } else { &others };
        let pod = pod(number, &node(number), labels, &few);
        times.step("a pod that nothing selects comes", || needs.apply(&pod));
    }
    hear();
    for number in 0..SERVICES + 8 {
        let service = service(number, &some);
        times.step("a Service that selects 100 of 10,000 pods comes", || {
            needs.service(&service, true);
        });
        hear();
    }
    for number in 0..4 {
        let ingress = ingress(number);
        times.step("an Ingress before 64 such Services comes", || {
            needs.ingress(&ingress, true);
        });
        hear();
    }
    for number in PROXIES..PROXIES + 100 {
        let pod = pod(number, &node(number), &some, &few);
        times.step("a pod that 72 Services select comes", || needs.apply(&pod));
        times.step("a pod that 72 Services select goes", || needs.remove(&pod));
    }
    hear();
    let left_out = times.step("what follows no pod, since it is too much", || {
        needs.left_out(Kind::Service)
    });
    assert!(!left_out.is_empty());
    for number in 0..4 {
        let ingress = ingress(number);
        times.step("an Ingress before 64 such Services goes", || {
            needs.ingress(&ingress, false);
        });
        hear();
    }
    let nobodys = labels("nobody");
    for number in 0..4 {
        let service = service(number, &nobodys);
        times.step("a Service selects these pods no more", || {
            needs.service(&service, true);
        });
        hear();
    }
}
