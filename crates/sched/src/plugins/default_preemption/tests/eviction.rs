//! What an eviction keeps its preemptor from, and until when.

use super::{Harbour, Outcome, at, heir};
use crate::queue::Place;
use crate::scheduler::Attempt;
use crate::test_objects::{node, pod, uid};
use crate::tie::FirstOfEquals;

/// A preemptor with two victims of two cores each.
fn two_victims() -> Harbour {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("first", "n", "2", 1, 1);
    harbour.runs("last", "n", "2", 0, 1);
    harbour.add(heir("4"));
    harbour.fails(0);
    harbour
}

fn gate(harbour: &Harbour) -> Option<String> {
    let gate = harbour.0.gate(&uid("heir"))?;
    Some(format!("{}: {}", gate.plugin, gate.status))
}

#[test]
fn a_pod_is_not_tried_while_its_victims_are_evicted() {
    let mut harbour = two_victims();
    let orders = harbour.asked();
    assert_eq!(orders.len(), 1);
    // Its end brings the preemptor back, but not far.
    harbour.0.pod_deleted(&uid("first"), at(0));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Gated));
    let waits = "DefaultPreemption: waiting for the preemption for this pod to be finished";
    assert_eq!(gate(&harbour).as_deref(), Some(waits));
    harbour.0.evicted(&orders[0].id, true, at(0));
    let orders = harbour.asked();
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Gated));
    // What else happens doesn't matter.
    harbour.node(node("m").allocatable("cpu", "2"));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Gated));
    harbour.0.pod_deleted(&uid("last"), at(0));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Backoff));
    harbour.0.evicted(&orders[0].id, true, at(0));
    // Nobody else is to be tried: it needn't stay back.
    let Some(Attempt::Assumed(assumed)) = harbour.0.schedule_next(at(0), &mut FirstOfEquals) else {
        panic!("there is room")
    };
    assert_eq!(assumed.node().as_str(), "n");
}

#[test]
fn an_end_that_came_before_the_eviction_was_told_is_not_missed() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("first", "n", "2", 1, 1);
    harbour.runs("last", "n", "2", 0, 1);
    harbour.add(heir("4"));
    harbour.fails(0);
    let orders = harbour.asked();
    for gone in ["first", "last"] {
        harbour.0.pod_deleted(&uid(gone), at(0));
    }
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Gated));
    harbour.0.evicted(&orders[0].id, true, at(0));
    assert!(harbour.asked().is_empty());
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Backoff));
}

#[test]
fn the_end_of_the_last_victim_counts_whatever_kept_the_pod_away_first() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    let first = pod("first").on("n").request("cpu", "1").priority(1);
    harbour.add(first.host_port("", "TCP", 80).started(1));
    harbour.runs("last", "n", "3", 0, 1);
    harbour.add(heir("4").host_port("", "TCP", 80));
    harbour.fails(0);
    for gone in ["first", "last"] {
        let orders = harbour.asked();
        assert_eq!(orders[0].preempted.pod.uid, uid(gone));
        harbour.0.evicted(&orders[0].id, true, at(0));
        harbour.0.pod_deleted(&uid(gone), at(0));
    }
    // The node's ports kept it away, and the last victim had none.
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Backoff));
    let attempt = harbour.0.schedule_next(at(0), &mut FirstOfEquals);
    assert!(matches!(attempt, Some(Attempt::Assumed(_))), "{attempt:?}");
}

#[test]
fn whoever_makes_room_elsewhere_waits_for_no_victim_of_before() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("stays", "n", "4", 0, 1);
    harbour.add(heir("4").host_port("", "TCP", 80));
    harbour.fails(0);
    let orders = harbour.asked();
    harbour.0.evicted(&orders[0].id, true, at(0));
    // It never ends, and nobody may go there any more.
    harbour.node(node("n").allocatable("cpu", "4").unschedulable());
    let first = pod("first").on("m").request("cpu", "1").priority(1);
    harbour.add(first.host_port("", "TCP", 80).started(1));
    harbour.runs("last", "m", "3", 0, 1);
    harbour.node(node("m").allocatable("cpu", "4"));
    harbour.fails(0);
    for gone in ["first", "last"] {
        let orders = harbour.asked();
        assert_eq!(orders[0].preempted.pod.uid, uid(gone));
        harbour.0.evicted(&orders[0].id, true, at(0));
        harbour.0.pod_deleted(&uid(gone), at(0));
    }
    // The ports of that node kept it away, and the last victim had none.
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Backoff));
    match harbour.0.schedule_next(at(0), &mut FirstOfEquals) {
        Some(Attempt::Assumed(assumed)) => assert_eq!(assumed.node().as_str(), "m"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_eviction_has_the_pod_tried_without_waiting_for_an_event() {
    let mut harbour = two_victims();
    let orders = harbour.asked();
    harbour.0.pod_deleted(&uid("first"), at(0));
    harbour.0.evicted(&orders[0].id, false, at(0));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Backoff));
    harbour.0.flush(at(2));
    let failure = harbour.fails(2);
    assert_eq!(harbour.outcome(&failure), Outcome::on("n", &["last"]));
}

#[test]
fn an_eviction_that_is_refused_for_good_is_asked_for_with_growing_pauses() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.runs("victim", "n", "4", 0, 1);
    harbour.add(heir("4"));
    let mut now = 0;
    for pause in [1, 2, 4, 8, 10, 10] {
        harbour.fails(now);
        let orders = harbour.asked();
        assert_eq!(orders.len(), 1);
        harbour.0.evicted(&orders[0].id, false, at(now));
        harbour.0.flush(at(now + pause));
        let early = harbour.0.schedule_next(at(now + pause), &mut FirstOfEquals);
        assert!(early.is_none(), "nor by an idle scheduler: {early:?}");
        // Backoff ends with its second.
        now += pause + 1;
        harbour.0.flush(at(now));
        assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Active));
    }
}

#[test]
fn who_gives_the_room_up_that_is_made_is_tried_at_once() {
    let mut harbour = two_victims();
    harbour.0.give_up_room(&uid("heir"), at(0));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Active));
}

#[test]
fn a_pod_whose_victims_end_slowly_evicts_no_others() {
    let mut harbour = Harbour::new().nodes(&["n", "m"]);
    harbour.runs("victim", "n", "4", 0, 9);
    harbour.runs("other", "m", "4", 0, 1);
    harbour.add(heir("4"));
    harbour.fails(0);
    let orders = harbour.asked();
    let going = pod("victim").on("n").request("cpu", "4").started(9);
    harbour.add(going.preempted());
    harbour.0.evicted(&orders[0].id, true, at(0));
    // Its status needn't say yet where it is expected.
    harbour.0.activate(&uid("heir"));
    let failure = harbour.fails(0);
    let why = "not eligible due to a terminating pod on the nominated node.";
    assert_eq!(harbour.outcome(&failure), Outcome::none(why));
}

#[test]
fn a_scheduling_gate_is_still_only_opened_by_its_own_event() {
    let mut harbour = Harbour::new().nodes(&["n"]);
    harbour.add(heir("4").gate("later"));
    harbour.runs("a", "n", "4", 0, 1);
    harbour.0.pod_deleted(&uid("a"), at(0));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Gated));
    harbour.add(heir("4"));
    assert_eq!(harbour.0.place(&uid("heir")), Some(Place::Active));
}
