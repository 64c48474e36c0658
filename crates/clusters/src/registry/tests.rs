use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pilotage_api as api;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::connection::Connection;
use crate::testing::{Answer, Piece, Server, head, json as good, target};

const LIMIT: Duration = Duration::from_secs(30);
const VERSION: &str = "multicluster.admiralty.io/v1alpha1";

fn name(number: usize) -> String {
    format!("t{number:03}")
}

/// The Target of that number, each a second younger than the one before, for this very cluster.
fn item(namespace: &str, number: usize) -> Value {
    let created = format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
    json!({
        "apiVersion": VERSION, "kind": "Target", "spec": { "self": true },
        "metadata": {
            "name": name(number), "namespace": namespace, "uid": format!("{namespace}-{number}"),
            "resourceVersion": "1", "creationTimestamp": created,
        },
    })
}

/// An API server with these Targets and nothing else.
fn source(line: &str, targets: &[Value]) -> Answer {
    let list = |kind: &str, items: &[Value]| {
        good(&json!({
            "apiVersion": VERSION, "kind": format!("{kind}List"), "metadata": { "resourceVersion": "1" },
            "items": items,
        }))
    };
    match line {
        "GET /readyz" => vec![head("200 OK", "text/plain"), Piece::Bytes(b"ok".to_vec())],
        line if line.contains("watch=true") => {
            vec![head("200 OK", "application/json"), Piece::Silence]
        }
        line if line.contains("/clustersummaries") => list("ClusterSummary", &[]),
        line if line.contains("/clustertargets") => list("ClusterTarget", &[]),
        _ => list("Target", targets),
    }
}

async fn reaches(target: &Target, want: impl Fn(&Connection) -> bool) -> Connection {
    let mut state = target.state();
    let reached = timeout(LIMIT, state.wait_for(|state| want(state))).await;
    let reached = reached.map(|state| state.unwrap().clone());
    reached.unwrap_or_else(|_| panic!("{} is {:?}", target.key(), target.connection()))
}

#[tokio::test]
async fn the_oldest_hundred_of_a_namespace_are_connected_and_the_next_when_one_goes() {
    // The youngest first.
    let items = (0..103).rev().map(|number| item("evil", number));
    let items: Vec<Value> = items.chain([item("honest", 200)]).collect();
    let server = Server::start(move |line| source(line, &items)).await;
    let stop = CancellationToken::new();
    let registry = Registry::start(&server.client(), Options::new("test"), &stop);
    let synced = timeout(LIMIT, registry.synced()).await;
    synced.expect("lists the targets");
    let get = |namespace: &str, number| {
        let key = TargetKey::namespaced(namespace, name(number));
        registry.get(&key).unwrap()
    };
    for number in 0..100 {
        reaches(&get("evil", number), Connection::is_connected).await;
    }
    for number in 100..103 {
        let target = get("evil", number);
        let state = reaches(&target, |state| *state != Connection::Connecting).await;
        let reason = state.lost().unwrap();
        assert_eq!(reason.word(), "TooManyTargets");
        assert_eq!(
            reason.to_string(),
            "namespace evil has more Targets than the 100 that are connected at the same time, and this one isn't \
             among the oldest: it waits until others are deleted"
        );
        assert!(target.client().is_none() && !reason.was_tried());
        assert!(!target.had_turn());
    }
    reaches(&get("honest", 200), Connection::is_connected).await;

    let next = get("evil", 100);
    let mut turn = next.turn();
    assert!(!*turn.borrow_and_update());
    let oldest = get("evil", 0).object();
    registry.drop_target(&oldest.key, Some(&oldest.uid));
    assert!(turn.has_changed().unwrap() && next.had_turn());
    reaches(&next, Connection::is_connected).await;
    assert!(get("evil", 101).connection().lost().is_some());
    // Its name alone is no seat: whoever comes is the youngest.
    let young = get("evil", 102).object();
    let again = TargetObject {
        uid: "another".into(),
        created: young.created + Duration::from_secs(9),
        ..(*oldest).clone()
    };
    registry.apply(Some(again), &server.client(), &Options::new("test"));
    let again = get("evil", 0);
    let state = reaches(&again, |state| *state != Connection::Connecting).await;
    assert_eq!(state.lost().unwrap().word(), "TooManyTargets");
    assert!(get("evil", 100).is_connected());
    stop.cancel();
}

static IS_BROKEN: AtomicBool = AtomicBool::new(true);

/// Reads Targets, but for one.
fn picky(target: &api::Target) -> Option<TargetObject> {
    let is_bad = target.metadata.name == Some(name(1));
    assert!(!is_bad || !IS_BROKEN.load(Ordering::SeqCst), "on purpose");
    TargetObject::from_target(target)
}

#[tokio::test]
async fn a_target_whose_taking_in_panics_stops_no_other_and_is_tried_again() {
    let items = [item("ns", 1), item("ns", 2)];
    let server = Server::start(move |line| source(line, &items)).await;
    let stop = CancellationToken::new();
    let pause = Duration::from_millis(20);
    let manner = Manner {
        target: picky,
        pauses: Backoff::new(pause, pause),
        ..Manner::default()
    };
    let registry = Registry::start_as(&server.client(), Options::new("test"), &stop, manner);
    let mut mistakes = registry.mistakes();
    let synced = timeout(LIMIT, registry.synced()).await;
    synced.expect("lists the targets");
    let [bad, good] = [1, 2].map(|number| TargetKey::namespaced("ns", name(number)));
    reaches(&registry.get(&good).unwrap(), Connection::is_connected).await;
    assert!(registry.get(&bad).is_none());
    for _ in 0..2 {
        let told = timeout(LIMIT, mistakes.recv()).await.expect("is told");
        let about = bad.reference("ns-1");
        let task = "registry";
        assert_eq!(told, Some(Mistake { about, task }), "again and again");
    }

    IS_BROKEN.store(false, Ordering::SeqCst);
    let mut events = registry.subscribe();
    let added = async {
        while let Some(event) = events.recv().await {
            if let RegistryEvent::Added(target) = event
                && *target.key() == bad
            {
                return target;
            }
        }
        panic!("the registry ended")
    };
    let added = timeout(LIMIT, added).await.expect("is taken in at last");
    reaches(&added, Connection::is_connected).await;
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_told_and_begun_again() {
    let (mistakes, stop) = (Arc::new(Mistakes::default()), CancellationToken::new());
    let mut told = mistakes.subscribe();
    let (sender, mut running) = mpsc::unbounded_channel();
    let tries = Arc::new(AtomicUsize::new(0));
    let work = move |_, end: CancellationToken| {
        let (tried, sender) = (tries.fetch_add(1, Ordering::SeqCst), sender.clone());
        assert_ne!(tried, 0, "on purpose, before it has begun");
        async move {
            assert_ne!(tried, 1, "on purpose");
            sender.send(()).unwrap();
            end.cancelled().await;
        }
    };
    let target = target();
    let task = tokio::spawn(keep_running(
        "test",
        target.clone(),
        stop.clone(),
        work,
        mistakes,
    ));
    for _ in 0..2 {
        let about = target.object().reference();
        assert_eq!(
            told.recv().await,
            Some(Mistake {
                about,
                task: "test"
            })
        );
    }
    running.recv().await.expect("the third one runs");
    stop.cancel();
    task.await.expect("no panic ends it");
    assert!(told.recv().await.is_none(), "nothing else went wrong");
}
