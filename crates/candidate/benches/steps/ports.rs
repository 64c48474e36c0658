//! Host ports: nodes on which other pods have many of them, one node with as many as can be, and 10,000 candidates that
//! want as many as they may.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_absurd::steps::Times;
use pilotage_candidate::plugins::RESERVATION;
use pilotage_candidate::{Board, Gate, Leave};
use pilotage_sched::plugins::MOST_RULES;
use pilotage_sched::{Attempt, Moment, PodUid, Scheduler, SeededTies};
use serde_json::{Value, json};

use crate::target::{node_name, scheduler};
use crate::{CHAPERONS, candidate};

const NODES: usize = 1_000;
/// So many ports a candidate may want.
const MOST: usize = MOST_RULES;
/// So many pods on one node have a scheduler of their own, which takes as many ports as an object has room for.
const OTHERS: usize = 100;
const MANY: usize = 1_800;
/// Every node has this one in use.
const TAKEN: usize = 1;
/// From this number on candidates want what nobody has.
const FREE: usize = 10_000;

pub(crate) fn play(times: &mut Times) {
    let board = Arc::new(Board::new());
    let now = Moment::ZERO;
    let mut scheduler = scheduler(NODES, 0, &board);
    for number in 0..NODES {
        let pod = running(&format!("u{number}"), number, "", TAKEN, MOST);
        let applied = times.step("ports: a pod with some comes to a node", || {
            scheduler.pod_applied(pod, now)
        });
        applied.expect("a UID");
    }
    for number in 0..OTHERS {
        let pod = running(
            &format!("o{number}"),
            0,
            &format!("10.0.0.{number}"),
            TAKEN + MOST,
            MANY,
        );
        let applied = times.step("ports: a pod with very many comes to a node", || {
            scheduler.pod_applied(pod, now)
        });
        applied.expect("a UID");
    }
    finds_a_node(times, &mut scheduler, &board);
    wait(times, &mut scheduler, &board);
    for (uid, what) in [
        ("o0", "ports: a pod with very many goes from a node"),
        ("u1", "ports: a pod with some goes from a node"),
    ] {
        let uid = PodUid::from(uid);
        times.step(what, || scheduler.pod_deleted(&uid, now));
    }
}

/// A candidate that no node refuses.
fn finds_a_node(times: &mut Times, scheduler: &mut Scheduler, board: &Board) {
    let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
    let uid = PodUid::from("fits");
    board.set("fits", Gate::Open, Leave::Offer);
    // On an address of its own, with the numbers that are in use on others.
    let ports = ports("10.0.1.1", TAKEN + MOST, MOST);
    let pod = candidate::pod("fits", &spec(&ports));
    scheduler.pod_applied(pod, now).expect("a UID");
    let attempt = times.step("ports: attempt of one with as many as it may have", || {
        scheduler.schedule_next(now, &mut ties)
    });
    let Some(Attempt::Assumed(assumed)) = attempt else {
        unreachable!("{attempt:?}")
    };
    times.step("ports: looking again", || scheduler.recheck(&uid));
    times.step("ports: given back", || {
        scheduler.reject(&uid, RESERVATION, "expired");
        let status = scheduler.start_binding(&uid).expect_err("a rejection");
        scheduler.binding_failed(*assumed, status, now)
    });
    times.step("ports: it goes", || scheduler.pod_deleted(&uid, now));
    board.remove("fits");
}

/// Candidates that all nodes refuse for one port; no two want the same others.
fn wait(times: &mut Times, scheduler: &mut Scheduler, board: &Board) {
    let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
    for number in 0..CHAPERONS {
        let uid = format!("w{number}");
        board.set(&uid, Gate::Open, Leave::Offer);
        let mut wanted = ports("", FREE + number, MOST - 1);
        wanted.push(port("", TAKEN));
        let pod = candidate::pod(&uid, &spec(&wanted));
        let applied = times.step("ports: a candidate comes", || {
            scheduler.pod_applied(pod, now)
        });
        applied.expect("a UID");
        let attempt = times.step("ports: an attempt without a node", || {
            scheduler.schedule_next(now, &mut ties)
        });
        assert!(matches!(attempt, Some(Attempt::Failed(_))), "{attempt:?}");
    }
    assert_eq!(scheduler.queue_size().unschedulable, CHAPERONS);
}

fn port(ip: &str, number: usize) -> Value {
    json!({ "containerPort": number, "hostPort": number, "hostIP": ip })
}

/// So many from this number on.
fn ports(ip: &str, first: usize, count: usize) -> Vec<Value> {
    (first..first + count)
        .map(|number| port(ip, number))
        .collect()
}

fn spec(ports: &[Value]) -> Value {
    json!({ "containers": [{ "name": "c", "image": "i", "ports": ports }] })
}

fn running(uid: &str, on: usize, ip: &str, first: usize, count: usize) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": { "name": uid, "namespace": "ns1", "uid": uid },
        "spec": spec(&ports(ip, first, count)),
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" },
    });
    pod["spec"]["nodeName"] = node_name(on).into();
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}
