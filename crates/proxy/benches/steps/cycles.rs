//! The proxy scheduler's cycles: one hostile author's pod after the other is ranked, tried and told why not, among
//! virtual nodes that say much about themselves and proxies that are there or expected.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_absurd::specs::{Most, specs};
use pilotage_absurd::steps::Times;
use pilotage_api::keys;
use pilotage_proxy::board::{Board, Posting};
use pilotage_proxy::plugins::{GrantFailure, Grants};
use pilotage_proxy::profile::{RANKING, profiles};
use pilotage_proxy::{Answer, Gate};
use pilotage_sched::plugins::{FREE_TOLERATIONS, MOST_RULES, VALUES_A_RULE};
use pilotage_sched::{
    Attempt, Moment, PodInfo, PodUid, Scheduler, SchedulerConfig, SeededTies, Status,
};
use serde_json::{Value, json};

use crate::{PROXIES, TARGETS};

/// How many taints a virtual node has.
const TAINTS: usize = 100;

/// Nothing is granted here.
struct Nobody;

impl Grants for Nobody {
    fn grant<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
        Box::pin(async { Err(GrantFailure::Ending) })
    }
}

/// How much its author may write.
const MOST: Most = Most {
    rules: MOST_RULES,
    values: MOST_RULES * VALUES_A_RULE,
    tolerations: FREE_TOLERATIONS + MOST_RULES,
};

pub(crate) fn play(times: &mut Times) {
    let board = Arc::<Board>::default();
    let profiles = profiles(&board, Arc::new(Nobody)).expect("two profiles");
    let mut scheduler = Scheduler::new(profiles, SchedulerConfig::default()).expect("a scheduler");
    let now = Moment::ZERO;
    for number in 0..TARGETS {
        let applied = scheduler.node_applied(&node(number), now);
        applied.expect("a name");
    }
    // Half of them have a node, the others are expected on one.
    let proxies = (0..PROXIES).map(|number| (node_name(number % TARGETS), proxy(number)));
    let mut expected = Vec::new();
    for (number, (node, mut pod)) in proxies.enumerate() {
        if number % 2 == 0 {
            pod.spec.get_or_insert_default().node_name = Some(node);
            scheduler.pod_applied(Arc::new(pod), now).expect("a UID");
        } else {
            let info = PodInfo::parse(Arc::new(pod)).expect("a UID");
            expected.push((node, Arc::new(info)));
        }
    }
    for (name, spec) in specs(MOST) {
        let pod = Arc::new(hostile(&spec));
        let step = |what: &str| format!("cycles: {name}: {what}");
        let info = times.step(&step("reading"), || PodInfo::parse(pod.clone()));
        let info = info.expect("a UID");
        let ranked = times.step(&step("ranking"), || {
            scheduler.evaluate(RANKING, &info, Arc::default())
        });
        assert!(ranked.is_ok(), "{name}: {ranked:?}");
        let ranked = times.step(&step("ranking with those that are expected"), || {
            let expected = expected.iter().map(|(node, pod)| (&**node, pod));
            scheduler.evaluate_expecting(RANKING, &info, expected)
        });
        assert!(ranked.is_ok(), "{name}: {ranked:?}");
        for answer in [Answer::Reserved, Answer::Refused("full ".repeat(500))] {
            tried(times, &step, &mut scheduler, &board, &pod, &answer);
        }
    }
}

/// A pod comes, is tried when its targets have answered, and goes.
fn tried(
    times: &mut Times,
    step: &dyn Fn(&str) -> String,
    scheduler: &mut Scheduler,
    board: &Board,
    pod: &Arc<Pod>,
    answer: &Answer,
) {
    let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
    let names = || (0..TARGETS).map(node_name);
    let posting = Posting {
        gate: Gate::Open,
        answers: Arc::new(names().map(|name| (name, answer.clone())).collect()),
        classes: Arc::new(names().zip(0..).collect()),
    };
    board.post(UID, posting);
    let uid = PodUid::from(UID);
    let applied = times.step(&step("it comes"), || {
        scheduler.pod_applied(pod.clone(), now)
    });
    applied.expect("a UID");
    let attempt = times.step(&step("attempt"), || scheduler.schedule_next(now, &mut ties));
    match attempt {
        Some(Attempt::Assumed(assumed)) => {
            times.step(&step("its choice is void"), || {
                scheduler.binding_failed(*assumed, Status::unschedulable("void"), now)
            });
        }
        Some(Attempt::Failed(failure)) => {
            times.step(&step("telling why not"), || {
                (failure.status(), failure.cause.to_string())
            });
        }
        other => unreachable!("{other:?}"),
    }
    times.step(&step("it goes"), || scheduler.pod_deleted(&uid, now));
    board.remove(UID);
}

fn node_name(number: usize) -> String {
    format!("admiralty-{}{number:05}", "target-".repeat(33))
}

/// Everybody's virtual node.
fn node(number: usize) -> Node {
    let name = node_name(number);
    let taint = |n: usize| {
        json!({
            "key": format!("soft-{n}"), "value": format!("v{}", number % 50 + n), "effect": "PreferNoSchedule",
        })
    };
    let own = json!({
        "key": keys::PROVIDER, "value": keys::PROVIDER_VALUE, "effect": "NoSchedule",
    });
    let mut labels = json!({
        keys::PROVIDER: keys::PROVIDER_VALUE, keys::CLUSTER_TARGET_NAME: name, "number": number.to_string(),
        "kubernetes.io/hostname": format!("n{number}"), "topology.kubernetes.io/region": format!("r{}", number % 30),
    });
    for n in 0..64 {
        labels[format!("example.com/label-{n}")] = json!("value");
    }
    let node = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": (0..TAINTS).map(taint).chain([own]).collect::<Vec<_>>() },
        "status": { "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "500" } },
    });
    serde_json::from_value(node).expect("a node")
}

/// A proxy of many; every tenth keeps others of its kind away.
fn proxy(number: usize) -> Pod {
    let labels = json!({ "app": format!("web-{}", number % 1_000) });
    let mut spec = json!({});
    if number.is_multiple_of(10) {
        spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
            "labelSelector": { "matchLabels": labels }, "topologyKey": "kubernetes.io/hostname",
        }]);
    }
    pod(&format!("r{number}"), &labels, &spec)
}

const UID: &str = "hostile";

/// With this in its spec, and labels as the other's.
fn hostile(spec: &Value) -> Pod {
    pod(UID, &json!({ "app": "web-0" }), spec)
}

/// As the webhook makes one.
fn pod(uid: &str, labels: &Value, spec: &Value) -> Pod {
    let mut pod = json!({
        "metadata": { "name": uid, "namespace": "shop", "uid": uid, "labels": labels },
        "spec": {
            "schedulerName": keys::PROXY_SCHEDULER, "containers": [{ "name": "c", "image": "i" }],
            "nodeSelector": {}, "tolerations": [],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod["spec"]["nodeSelector"][keys::PROVIDER] = keys::PROVIDER_VALUE.into();
    let own = json!({ "key": keys::PROVIDER, "operator": "Exists" });
    if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
        tolerations.push(own);
    }
    serde_json::from_value(pod).expect("a pod")
}
