//! Attempts: one hostile candidate after the other, and what is done with it until it goes.

use std::sync::Arc;

use pilotage_absurd::specs::{Most, specs};
use pilotage_absurd::steps::Times;
use pilotage_candidate::plugins::RESERVATION;
use pilotage_candidate::{Board, Gate, Leave, Refusal, preempts};
use pilotage_sched::plugins::{FREE_TOLERATIONS, MOST_RULES, VALUES_A_RULE};
use pilotage_sched::{Attempt, Moment, PodUid, Room, SeededTies};

use crate::target::scheduler;
use crate::{CHAPERONS, candidate};

/// How many nodes there are.
const NODES: [usize; 2] = [1_000, 5_000];

/// How much its author may write.
const MOST: Most = Most {
    rules: MOST_RULES,
    values: MOST_RULES * VALUES_A_RULE,
    tolerations: FREE_TOLERATIONS + MOST_RULES,
};

pub(crate) fn play(times: &mut Times) {
    for nodes in NODES {
        let board = Arc::new(Board::new());
        let mut scheduler = scheduler(nodes, CHAPERONS, &board);
        let (now, mut ties) = (Moment::ZERO, SeededTies::new(1));
        for (number, (name, spec)) in specs(MOST).into_iter().enumerate() {
            let uid = format!("h{number}");
            let pod = candidate::pod(&uid, &spec);
            let pod_uid = PodUid::from(&uid);
            board.set(&uid, Gate::Open, Leave::Offer);
            let step = |what: &str| format!("{name}: {what}, {nodes} nodes");
            times
                .step(&step("it comes"), || {
                    scheduler.pod_applied(pod.clone(), now)
                })
                .expect("a UID");
            let attempt = times.step(&step("attempt"), || scheduler.schedule_next(now, &mut ties));
            match attempt {
                Some(Attempt::Assumed(assumed)) => {
                    times.step(&step("looking again"), || scheduler.recheck(&pod_uid));
                    times.step(&step("given back"), || {
                        scheduler.reject(&pod_uid, RESERVATION, "expired");
                        let status = scheduler.start_binding(&pod_uid).expect_err("a rejection");
                        scheduler.binding_failed(*assumed, status, now)
                    });
                }
                Some(Attempt::Failed(failure)) => {
                    times.step(&step("refusal"), || match &failure.room {
                        Room::Offered(offer) => preempts::of_offer(offer).to_string(),
                        Room::Awaited(_) | Room::Nowhere => Refusal::of(&failure.cause).to_string(),
                    });
                }
                Some(other) => unreachable!("{other:?}"),
                None => assert!(scheduler.gate(&pod_uid).is_some(), "{name}"),
            }
            times.step(&step("it goes"), || scheduler.pod_deleted(&pod_uid, now));
            board.remove(&uid);
        }
    }
}
