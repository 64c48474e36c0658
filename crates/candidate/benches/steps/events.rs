//! Events of a target in which 10,000 candidates wait for a node, each for another reason, and the largest that may
//! wait among them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pilotage_absurd::specs::{AWAY, HOSTNAME, NEAR, REQUIRED, near, spread};
use pilotage_absurd::steps::Times;
use pilotage_candidate::plugins::RESERVATION;
use pilotage_candidate::{Board, Gate, Leave};
use pilotage_sched::plugins::MOST_RULES;
use pilotage_sched::{Attempt, Moment, PodUid, Scheduler, SeededTies};
use serde_json::{Value, json};

use crate::CHAPERONS;
use crate::candidate;
use crate::target::{namespace, node, node_name, running, scheduler};

const NODES: usize = 1_000;

pub(crate) fn play(times: &mut Times) {
    let board = Arc::new(Board::new());
    let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
    let mut scheduler = scheduler(NODES, CHAPERONS, &board);
    for number in 0..CHAPERONS {
        let uid = format!("w{number}");
        board.set(&uid, Gate::Open, Leave::Offer);
        let pod = waiting(&uid, number);
        times
            .step("events: a candidate comes", || {
                scheduler.pod_applied(pod, now)
            })
            .expect("a UID");
        let attempt = times.step("events: an attempt without a node", || {
            scheduler.schedule_next(now, &mut ties)
        });
        assert!(matches!(attempt, Some(Attempt::Failed(_))), "{attempt:?}");
    }
    happens(times, &mut scheduler, now);
    // Whom that brought back is in the queue.
    board.set("last", Gate::Open, Leave::Offer);
    let high = json!({ "priority": 1_000_000_000 });
    let pod = candidate::pod("last", &high);
    let uid = PodUid::from("last");
    scheduler.pod_applied(pod, now).expect("a UID");
    let attempt = times.step("events: an attempt", || {
        scheduler.schedule_next(now, &mut ties)
    });
    let Some(Attempt::Assumed(assumed)) = attempt else {
        unreachable!("{attempt:?}")
    };
    times.step("events: a hold is allowed", || {
        scheduler.allow(&uid, RESERVATION)
    });
    times
        .step("events: a binding begins", || scheduler.start_binding(&uid))
        .expect("a grant");
    times.step("events: a pod is bound", || scheduler.bound(*assumed, now));
    let now = now.after(Duration::from_hours(1));
    let mut more = true;
    while more {
        let flushed = times.step("events: what is due", || scheduler.flush(now));
        more = flushed.more;
    }
    let size = scheduler.queue_size();
    assert_eq!((size.active, size.unschedulable), (CHAPERONS, 0));
}

fn happens(times: &mut Times, scheduler: &mut Scheduler, now: Moment) {
    times
        .step("events: a node comes", || {
            scheduler.node_applied(&node(NODES, "v"), now)
        })
        .expect("a name");
    times
        .step("events: a node's label changes", || {
            scheduler.node_applied(&node(0, "other"), now)
        })
        .expect("a name");
    times.step("events: a node goes", || {
        scheduler.node_deleted(&node_name(NODES).into(), now);
    });
    times
        .step("events: a pod comes to a node", || {
            scheduler.pod_applied(running(CHAPERONS, 7), now)
        })
        .expect("a UID");
    times.step("events: a pod goes from a node", || {
        scheduler.pod_deleted(&"r1".into(), now)
    });
    times
        .step("events: a namespace is relabelled", || {
            scheduler.apply(namespace(1, "b"), now)
        })
        .expect("a name");
}

/// A candidate that no node takes; every tenth has as many rules as it may.
fn waiting(uid: &str, number: usize) -> Arc<Pod> {
    let terms = if number.is_multiple_of(10) {
        MOST_RULES
    } else {
        1
    };
    let each = |term: fn(usize, usize) -> Value| -> Value {
        (0..terms).map(|n| term(n, number)).collect()
    };
    let spec = match number / 10 % 4 {
        0 => json!({ "containers": [{ "name": "c", "image": "i", "resources": {
            "requests": { "cpu": format!("{}m", 64_000 + number) },
        } }] }),
        // Near pods that there aren't.
        1 => {
            let lonely = each(|n, number| near(1_000_000 + number + n, HOSTNAME));
            json!({ "affinity": { NEAR: { REQUIRED: lonely } } })
        }
        // Away from others, on a node that there isn't.
        2 => {
            let crowded = each(|n, number| near(number + n, HOSTNAME));
            json!({
                "affinity": { AWAY: { REQUIRED: crowded } }, "nodeSelector": { "none": number.to_string() },
            })
        }
        // Spread over labels that no node has.
        _ => {
            let rules = each(|n, number| spread(n, &format!("none-{n}-{number}"), "DoNotSchedule"));
            json!({ "topologySpreadConstraints": rules })
        }
    };
    candidate::pod(uid, &spec)
}
