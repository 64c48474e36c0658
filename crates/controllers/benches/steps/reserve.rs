//! The candidate scheduler as a whole: its polls until it takes turns, then whatever its thread does at a time, since
//! each turn is a task. Sources write at length, and no write is answered.

use pilotage_absurd::steps::Times;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_api::{keys, names};
use pilotage_candidate::Settings;
use pilotage_controllers::reserve::{self, Reserve, ReserveError};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::ready::Health;
use prometheus_client::registry;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::PROXIES;
use crate::edge::{FREE, SCENE, uid};
use crate::polls::Edge;
use crate::source::Source;

/// How many nodes there are.
const NODES: usize = 100;

pub(crate) fn play(times: &mut Times) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // One task at a time, and then whoever measures: each poll is a step.
    runtime.event_interval(1);
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let candidates = (0..PROXIES).map(candidate).collect();
        let chaperons = (0..PROXIES).map(|it| chaperon(it, "no")).collect();
        let nodes = (0..NODES).map(node).collect();
        let source = Source::new([
            ("pods", candidates),
            ("podchaperons", chaperons),
            ("nodes", nodes),
        ]);
        let (health, end) = (Health::new(), CancellationToken::new());
        let mut edge = start(&source, &health, &end);
        let listed = || health.missing().is_empty();
        let name = "10,000 chaperons and candidates come";
        edge.until(times, name, listed).await;
        edge.scene(times, "turns begin").await;
        tokio::spawn(async move {
            let ended = edge.future.await;
            assert!(ended.is_ok(), "it failed");
        });
        times.waits("reserve: a turn for each", sleep(SCENE)).await;
        assert!(source.unanswered() > 0, "nobody was answered");
        change(times, &source, &end).await;
    });
}

fn start(
    source: &Source,
    health: &Health,
    end: &CancellationToken,
) -> Edge<Result<(), ReserveError>> {
    let with = Reserve {
        client: source.client(),
        settings: Settings::default(),
        scheduled_events: false,
        instance: "bench".to_owned(),
        leadership: Leadership::always(),
        health: health.clone(),
        tracer: None,
    };
    let mut metrics = registry::Registry::default();
    Edge {
        name: "reserve",
        future: reserve::start(with, &mut metrics, end.clone()).expect("a scheduler"),
    }
}

async fn change(times: &mut Times, source: &Source, end: &CancellationToken) {
    let mut version = PROXIES * 10;
    let mut tell = |plural: &str, type_: &str, mut object: Value| {
        version += 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        source.tell(plural, type_, &object);
    };
    for (word, name) in [
        ("no", "reserve: 10,000 chaperons change"),
        ("1", "reserve: sources grant 10,000 chaperons"),
    ] {
        for number in 0..PROXIES {
            tell("podchaperons", "MODIFIED", chaperon(number, word));
        }
        times.waits(name, sleep(SCENE)).await;
    }
    for number in 0..PROXIES {
        tell("pods", "DELETED", candidate(number));
    }
    let name = "reserve: 10,000 candidates go";
    times.waits(name, sleep(SCENE)).await;
    for number in 0..PROXIES {
        tell("podchaperons", "DELETED", chaperon(number, "no"));
    }
    let name = "reserve: 10,000 chaperons go";
    times.waits(name, sleep(SCENE)).await;
    end.cancel();
}

fn name(number: usize) -> String {
    let uid = uid(number);
    names::chaperon("shop", &uid, &uid)
}

/// Its source writes at length, and its grant is this.
fn chaperon(number: usize, grant: &str) -> Value {
    let uid = uid(number);
    let link = ParentLink {
        cluster_uid: Some(ClusterUid("source".to_owned())),
        cluster_name: None,
        uid: uid.clone(),
        namespace: "shop".to_owned(),
        name: uid,
    };
    let mut annotations = json!(link.annotations());
    annotations[keys::ATTEMPT] = "1".into();
    annotations[keys::ALLOWED_ATTEMPT] = grant.into();
    annotations[keys::REFUSAL] = "full ".repeat(400).into();
    json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
        "metadata": {
            "name": name(number), "namespace": link.namespace, "uid": format!("c-{number}"),
            "resourceVersion": "10000", "labels": link.labels(), "annotations": annotations,
        },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    })
}

/// As the chaperon controller makes one. Most have a gate of the cluster's own.
fn candidate(number: usize) -> Value {
    let owner = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
        "name": name(number), "uid": format!("c-{number}"), "controller": true,
    });
    let gates = if number < FREE {
        json!([])
    } else {
        json!([{ "name": format!("example.com/{}", "wait-".repeat(40)) }])
    };
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name(number), "namespace": "shop", "uid": format!("p-{number}"), "resourceVersion": "10000",
            "labels": { keys::PARENT_UID: uid(number) }, "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": keys::CANDIDATE_SCHEDULER, "containers": [{ "name": "c", "image": "i" }],
            "schedulingGates": gates,
        },
    })
}

fn node(number: usize) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": { "name": format!("n-{number}"), "uid": format!("n-{number}"), "resourceVersion": "1" },
        "spec": {},
        "status": {
            "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "500" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}
