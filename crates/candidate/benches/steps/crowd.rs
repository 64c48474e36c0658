//! A crowd: 10,000 candidates wait for a node, and each of them has as many rules about all other pods as it may.

use std::sync::Arc;
use std::time::Duration;

use pilotage_absurd::specs::{AWAY, HOSTNAME, REQUIRED};
use pilotage_absurd::steps::Times;
use pilotage_candidate::{Board, Gate, Leave};
use pilotage_sched::plugins::MOST_RULES;
use pilotage_sched::{Attempt, Moment, SeededTies};
use serde_json::{Value, json};

use crate::target::{node, running, scheduler};
use crate::{CHAPERONS, candidate};

/// Few, so that the attempts don't take hours.
const NODES: usize = 5;

pub(crate) fn play(times: &mut Times) {
    let board = Arc::new(Board::new());
    let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
    let mut scheduler = scheduler(NODES, 10 * NODES, &board);
    for number in 0..CHAPERONS {
        let uid = format!("w{number}");
        board.set(&uid, Gate::Open, Leave::Offer);
        let pod = candidate::pod(&uid, &spec(number));
        let applied = times.step("crowd: a candidate comes", || {
            scheduler.pod_applied(pod, now)
        });
        applied.expect("a UID");
        let attempt = times.step("crowd: an attempt without a node", || {
            scheduler.schedule_next(now, &mut ties)
        });
        assert!(matches!(attempt, Some(Attempt::Failed(_))), "{attempt:?}");
    }
    let waiting = scheduler.queue_size().unschedulable;
    assert_eq!(waiting, CHAPERONS);
    for number in 0..100 {
        times.step("crowd: a candidate goes", || {
            scheduler.pod_deleted(&format!("w{number}").into(), now)
        });
    }
    times.step("crowd: a pod comes to a node", || {
        scheduler.pod_applied(running(1_000, 3), now).is_ok()
    });
    times.step("crowd: a pod goes from a node", || {
        scheduler.pod_deleted(&"r1".into(), now)
    });
    times.step("crowd: a node comes", || {
        scheduler.node_applied(&node(NODES, "v"), now).is_ok()
    });
    let later = now.after(Duration::from_hours(1));
    let mut more = true;
    while more {
        let flushed = times.step("crowd: what is due", || scheduler.flush(later));
        more = flushed.more;
    }
}

/// Away from all pods there are, or spread over all of them where there is no place.
fn spec(number: usize) -> Value {
    let image = format!("i{number}");
    let containers = json!([{ "name": "c", "image": image }]);
    let each = |rule: Value| -> Value { vec![rule; MOST_RULES].into() };
    if number.is_multiple_of(2) {
        let term = json!({ "labelSelector": {}, "namespaceSelector": {}, "topologyKey": HOSTNAME });
        return json!({
            "containers": containers, "affinity": { AWAY: { REQUIRED: each(term) } },
        });
    }
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "none", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {},
    });
    json!({ "containers": containers, "topologySpreadConstraints": each(constraint) })
}
