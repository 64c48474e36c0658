//! The longest single step of the edges of proxy scheduler, feedback and candidate scheduler, and of what says which
//! object follows which pods: among 10,000 proxies, or candidates, with what hostile targets, sources, and authors of
//! pods, Services and Ingresses, write.
//!
//! It owns the scenes; it knows the code only by its public face. `make bench-steps` runs it.

#![expect(clippy::expect_used, reason = "what it makes itself can be read")]

mod edge;
mod feedback;
mod polls;
mod reserve;
mod source;
mod unfollowed;

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
const TARGETS: usize = 100;
/// How many objects one pod names: more of the longest names don't fit.
const NAMED: usize = 5_000;
/// How many of the shortest names fit.
const NAMED_SHORT: usize = 30_000;
/// How many Services select each pod, before the one that is measured comes.
const SERVICES: usize = 72;
/// How many Services, which select no pod, and as many Ingresses are there beside.
const OTHERS: usize = 5_000;
/// How often the scenes are played.
const ROUNDS: usize = 2;

fn main() -> ExitCode {
    println!(
        "Longest single steps of {ROUNDS} rounds with {PROXIES} proxies and {TARGETS} targets, processor time."
    );
    let mut first = true;
    steps::measure(ROUNDS, |times| {
        // Each of its scenes is polled thousands of times.
        if std::mem::take(&mut first) {
            edge::play(times);
            feedback::play(times);
            reserve::play(times);
            unfollowed::play(times);
        }
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
fn naming(count: usize, name: impl Fn(usize) -> String) -> Value {
    let from: Vec<_> = (0..count)
        .map(|number| match number % 2 {
            0 => json!({ "configMapRef": { "name": name(number) } }),
            _ => json!({ "secretRef": { "name": name(number) } }),
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
    let mut hear = || {
        for subscriber in &mut told {
            while subscriber.try_recv().is_ok() {}
        }
    };
    let few = naming(4, |number| long("named", number));
    for number in 0..PROXIES {
        let pod = pod(number, &node(number), &json!({}), &few);
        times.step("a pod that names 4 objects comes", || needs.apply(&pod));
    }
    hear();
    let long_names = naming(NAMED, |number| long("named", number));
    let short_names = naming(NAMED_SHORT, |number| format!("n{number}"));
    for number in 0..20 {
        let (names, spec) = match number % 2 {
            0 => ("5,000 long names", &long_names),
            _ => ("30,000 short names", &short_names),
        };
        let stays = pod(number, &node(number), &json!({}), spec);
        times.step(&format!("a pod comes to have {names}"), || {
            needs.apply(&stays);
        });
        times.step(&format!("the same again, {names}"), || needs.apply(&stays));
        hear();
        let goes = pod(number, &node(number + 1), &json!({}), spec);
        times.step(&format!("a pod with {names} goes elsewhere"), || {
            needs.apply(&goes);
        });
        let at = times.step("what a target needs", || {
            needs.at(&node(number + 1), Kind::ConfigMap)
        });
        assert!(at.len() >= 1_000);
        hear();
        times.step(&format!("a pod with {names} is gone"), || {
            needs.remove(&goes);
        });
        hear();
    }
    let copies: Vec<_> = (0..PROXIES)
        .map(|number| Key {
            kind: Kind::ConfigMap,
            namespace: "shop".to_owned(),
            name: long("named", number % 8),
        })
        .collect();
    times.step("where 10,000 copies are needed", || {
        copies
            .iter()
            .map(|key| needs.nodes_of(key).nodes.len())
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

fn ingress(name: &str, services: impl Iterator<Item = usize>) -> Ingress {
    let path = |number: usize| {
        let service = json!({ "name": long("service", number) });
        json!({ "pathType": "Prefix", "backend": { "service": service } })
    };
    let paths: Vec<_> = services.map(path).collect();
    let ingress = json!({
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "rules": [{ "http": { "paths": paths } }] },
    });
    serde_json::from_value(ingress).unwrap_or_default()
}

/// Services and Ingresses that concern all pods, some of which differ from the others in one label.
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
    let (web, nobodys, few) = (
        labels("web"),
        labels("nobody"),
        naming(4, |n| long("named", n)),
    );
    for number in 0..SERVICES {
        needs.service(&service(number, &web), true);
    }
    for number in 0..OTHERS {
        needs.service(&service(SERVICES + number, &nobodys), true);
        let ingress = ingress(&long("before-one", number), 0..1);
        times.step("one of 5,000 Ingresses before a Service comes", || {
            needs.ingress(&ingress, true);
        });
    }
    for number in 0..PROXIES {
        let pod = pod(number, &node(number), &web, &few);
        times.step("a pod that 72 Services select comes", || needs.apply(&pod));
    }
    hear();
    let mut change = |what: &str, change: &dyn Fn()| {
        times.step(what, change);
        let mut steps = 1;
        while times.step(&format!("{what}: what is left, a step"), || needs.go_on()) {
            steps += 1;
        }
        hear();
        assert!(steps > 10, "{what}: {steps}");
    };
    // Its name comes before the others'.
    let first = |selector: &Value| {
        let mut service = service(0, selector);
        service.metadata.name = Some("a".to_owned());
        service
    };
    let (selects, selects_nobody) = (first(&web), first(&nobodys));
    change("a Service that selects 10,000 pods comes", &|| {
        needs.service(&selects, true);
    });
    change("it selects nobody", &|| {
        needs.service(&selects_nobody, true);
    });
    let before_all = ingress("a", 0..SERVICES + OTHERS);
    change("an Ingress before 72 such Services comes", &|| {
        needs.ingress(&before_all, true);
    });
    change("it goes", &|| needs.ingress(&before_all, false));
    let left_out = times.step("what follows no pod, since it is too much", || {
        needs.left_out(Kind::Service)
    });
    assert!(!left_out.is_empty());
    for number in 0..100 {
        let pod = pod(number, &node(number), &web, &few);
        times.step("a pod that 72 Services select goes", || needs.remove(&pod));
    }
}
