//! What a plugin that must be given leave says, and what becomes of the room that it offers.

use std::sync::Mutex;

use super::*;
use crate::plugin::PermitDecision;
use crate::plugins::{DefaultPreemption, EvictionLeave, Leave, PreemptionCost, stock_profile_with};
use crate::pod_info::PodInfo;
use crate::queue::Place;
use crate::room::{Room, RoomOffer};
use crate::scheduler::Rechecked;
use crate::test_objects::uid;
use crate::test_plugins::Fake;

/// Says so.
#[derive(Debug)]
struct Says(Mutex<Leave>);

impl EvictionLeave for Says {
    fn take(&self, _: &PodInfo, _: &PreemptionCost, _: Duration) -> Leave {
        *self.0.lock().unwrap()
    }
}

/// A node, and nobody who has leave.
fn with_leave() -> (Harbour, Arc<Says>) {
    let says = Arc::new(Says(Mutex::new(Leave::Offer)));
    let preemption = DefaultPreemption::default().with_leave(says.clone());
    let holds = Fake::new("Holds").set(|fake| {
        fake.permit = Box::new(|_, _| Ok(PermitDecision::Wait(Duration::from_mins(1))));
    });
    let profile = stock_profile_with("test", Arc::new(NeverBinds), preemption);
    let profiles = [profile.permit(Arc::new(holds)).build().unwrap()];
    let scheduler = Scheduler::new(profiles, SchedulerConfig::default()).unwrap();
    (Harbour(scheduler).nodes(&["n"]), says)
}

/// A full node of a pod that takes a minute to end, and a preemptor.
fn harbour() -> (Harbour, Arc<Says>) {
    let (mut harbour, says) = with_leave();
    let victim = pod("victim").on("n").request("cpu", "4").priority(1);
    harbour.add(victim.started(7).grace(60));
    harbour.add(heir("4"));
    (harbour, says)
}

#[test]
fn without_leave_it_is_only_said_what_it_would_take() {
    let (mut harbour, _) = harbour();
    let failure = harbour.fails(0);
    let Room::Offered(RoomOffer { node, cost, grace }) = &failure.room else {
        panic!("{failure:?}")
    };
    assert_eq!((node.as_str(), *grace), ("n", Duration::from_mins(1)));
    assert_eq!((cost.victims, cost.highest_priority), (1, 1));
    assert!(harbour.0.take_orders().is_empty(), "nobody is evicted");
    let status = failure.status().unwrap();
    assert_eq!(
        status.nomination,
        Nomination::Keep,
        "nor is it told to others"
    );
}

#[test]
fn what_is_offered_is_kept_from_others_until_it_is_given_up() {
    let (mut harbour, _) = harbour();
    harbour.fails(0);
    // The victim goes by itself; one of a lower priority doesn't get the room.
    harbour.add(pod("late").request("cpu", "4").priority(5));
    harbour.0.pod_deleted(&uid("victim"), at(0));
    let pod_tried = |harbour: &mut Harbour, now| {
        let attempt = harbour.0.schedule_next(at(now), &mut FirstOfEquals);
        attempt.map(|attempt| {
            (
                attempt.pod().key.name.to_string(),
                matches!(attempt, Attempt::Assumed(_)),
            )
        })
    };
    assert_eq!(pod_tried(&mut harbour, 0), Some(("late".into(), false)));
    harbour.0.give_up_room(&uid("heir"), at(0));
    assert!(matches!(
        harbour.0.place(&uid("late")),
        Some(Place::Backoff | Place::Active)
    ));
    harbour.0.pod_deleted(&uid("heir"), at(0));
    harbour.0.flush(at(60));
    assert_eq!(pod_tried(&mut harbour, 60), Some(("late".into(), true)));
}

#[test]
fn what_was_offered_is_free_for_others_once_it_is_refused() {
    let (mut harbour, says) = with_leave();
    harbour.runs("victim", "n", "3", 1, 7);
    harbour.add(heir("4"));
    harbour.fails(0);
    // There is room for it, but for the one that is expected.
    harbour.add(pod("late").request("cpu", "1"));
    assert_eq!(harbour.fails(0).room, Room::Nowhere);
    assert_eq!(harbour.0.place(&uid("late")), Some(Place::Unschedulable));
    *says.0.lock().unwrap() = Leave::Refuse;
    harbour.0.activate(&uid("heir"));
    assert_eq!(harbour.fails(0).pod.uid, uid("heir"));
    // Nobody gives the room up later: it isn't the pod's any more.
    harbour.0.give_up_room(&uid("heir"), at(0));
    match harbour.0.schedule_next(at(0), &mut FirstOfEquals) {
        Some(Attempt::Assumed(assumed)) => assert_eq!(*assumed.uid(), uid("late")),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        harbour.0.place(&uid("heir")),
        Some(Place::Unschedulable),
        "it isn't brought back by itself"
    );
}

#[test]
fn with_leave_room_is_awaited() {
    let (mut harbour, says) = harbour();
    *says.0.lock().unwrap() = Leave::Evict;
    let failure = harbour.fails(0);
    assert_eq!(failure.room, Room::Awaited("n".into()));
    assert_eq!(
        failure.status().unwrap().nomination,
        Nomination::Set("n".into())
    );
    let orders = harbour.asked();
    assert_eq!(orders.len(), 1);
    // Given up before it was carried out.
    harbour.0.give_up_room(&uid("heir"), at(0));
    assert!(!harbour.0.is_wanted(&orders[0].id));
}

#[test]
fn who_is_refused_leave_expects_nothing() {
    let (mut harbour, says) = harbour();
    *says.0.lock().unwrap() = Leave::Refuse;
    let failure = harbour.fails(0);
    assert_eq!(failure.room, Room::Nowhere);
    assert!(harbour.asked().is_empty());
    let said = failure.message();
    assert!(
        said.ends_with("preemption: not allowed at this cost."),
        "{said}"
    );
}

/// The cluster of a pod that has evicted one of two that have to go, and waits for the other one, that goes by itself.
fn one_goes_anyway() -> (Harbour, Arc<Says>) {
    let (mut harbour, says) = with_leave();
    let on = |name| pod(name).on("n").request("cpu", "2").priority(1).started(7);
    harbour.add(on("slow").deleting());
    harbour.add(on("quick"));
    harbour.add(heir("4"));
    *says.0.lock().unwrap() = Leave::Evict;
    let failure = harbour.fails(0);
    assert_eq!(harbour.outcome(&failure).victims, ["quick"]);
    harbour.0.pod_deleted(&uid("quick"), at(0));
    (harbour, says)
}

#[test]
fn who_has_used_its_leave_may_wait_for_one_that_is_going_anyway() {
    let (mut harbour, says) = one_goes_anyway();
    *says.0.lock().unwrap() = Leave::Used;
    let failure = harbour.fails(0);
    let said = failure.message();
    assert_eq!(failure.room, Room::Awaited("n".into()), "{said}");
    assert!(harbour.asked().is_empty());
    harbour.0.pod_deleted(&uid("slow"), at(0));
    harbour.0.flush(at(60));
    let attempt = harbour.0.schedule_next(at(60), &mut FirstOfEquals);
    assert!(matches!(attempt, Some(Attempt::Assumed(_))), "{attempt:?}");
}

#[test]
fn who_has_used_its_leave_evicts_nobody_else_and_who_has_none_waits_for_nobody() {
    for (leave, late) in [(Leave::Used, true), (Leave::Refuse, false)] {
        let (mut harbour, says) = one_goes_anyway();
        *says.0.lock().unwrap() = leave;
        if late {
            harbour.runs("late", "n", "2", 1, 7);
        }
        let failure = harbour.fails(0);
        assert_eq!(failure.room, Room::Nowhere, "{leave:?}");
        assert!(harbour.asked().is_empty());
    }
}

/// A full node of four, and two preemptors, each of which needs the room of one.
fn crowded(priorities: [i32; 2]) -> (Harbour, Arc<Says>) {
    let (mut harbour, says) = with_leave();
    for name in ["a", "b", "c", "d"] {
        harbour.runs(name, "n", "1", 1, 7);
    }
    for (name, priority) in ["first", "second"].into_iter().zip(priorities) {
        harbour.add(pod(name).request("cpu", "1").priority(priority));
    }
    (harbour, says)
}

/// How many would have to go for the next one that is tried.
fn offered(harbour: &mut Harbour) -> usize {
    let failure = harbour.fails(0);
    match &failure.room {
        Room::Offered(offer) => offer.cost.victims,
        other => panic!("{other:?}: {failure:?}"),
    }
}

#[test]
fn an_offer_costs_nothing_of_what_others_were_merely_offered() {
    for priorities in [[9, 9], [10, 9]] {
        let (mut harbour, _) = crowded(priorities);
        let both = [offered(&mut harbour), offered(&mut harbour)];
        assert_eq!(both, [1, 1], "neither may ever come");
    }
}

#[test]
fn who_has_leave_has_the_room_before_another_who_was_merely_offered_it() {
    let (mut harbour, says) = crowded([9, 9]);
    let both = [offered(&mut harbour), offered(&mut harbour)];
    assert_eq!(both, [1, 1]);
    *says.0.lock().unwrap() = Leave::Evict;
    harbour.0.give_up_room(&uid("second"), at(0));
    harbour.0.activate(&uid("second"));
    let failure = harbour.fails(0);
    assert_eq!(failure.pod.key.name.to_string(), "second");
    let gone = harbour.outcome(&failure).victims;
    assert_eq!(gone.len(), 1, "{gone:?}");
    harbour.0.pod_deleted(&uid(&gone[0]), at(0));
    harbour.0.flush(at(60));
    // The other one is offered room again, which is another one's.
    *says.0.lock().unwrap() = Leave::Offer;
    let tried = std::iter::from_fn(|| harbour.0.schedule_next(at(60), &mut FirstOfEquals));
    let placed = tried.filter_map(|attempt| match attempt {
        Attempt::Assumed(assumed) => Some(assumed.pod().key.name.to_string()),
        _ => None,
    });
    assert_eq!(placed.collect::<Vec<_>>(), ["second"]);
}

#[test]
fn who_has_the_room_that_was_made_keeps_it_while_another_ones_is_made() {
    for (priority, may_evict) in [(9, true), (9, false), (10, false)] {
        let (mut harbour, says) = crowded([9, priority]);
        // The second one comes when the first one's room is there.
        let second = harbour.0.pending_pod(&uid("second")).unwrap().clone();
        harbour.0.pod_deleted(&uid("second"), at(0));
        *says.0.lock().unwrap() = Leave::Evict;
        let failure = harbour.fails(0);
        let gone = harbour.outcome(&failure).victims;
        harbour.0.pod_deleted(&uid(&gone[0]), at(0));
        let attempt = harbour.0.schedule_next(at(0), &mut FirstOfEquals);
        assert!(matches!(attempt, Some(Attempt::Assumed(_))), "{attempt:?}");
        if !may_evict {
            *says.0.lock().unwrap() = Leave::Offer;
        }
        let second = second.pod().unwrap().clone();
        harbour.0.pod_applied(second, at(0)).unwrap();
        let failure = harbour.fails(0);
        assert_ne!(failure.room, Room::Nowhere);
        // Whoever has to go for it hasn't gone yet.
        let going = harbour.asked();
        assert_eq!(going.len(), usize::from(may_evict));
        let again = harbour.0.recheck(&uid("first"));
        assert!(matches!(again, Rechecked::Fits), "{again:?}");
    }
}

/// Only some of many nodes are tried at all.
#[test]
fn the_node_that_was_offered_is_tried_first() {
    let (harbour, says) = with_leave();
    let names: Vec<String> = (0..300).map(|number| format!("n{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut harbour = harbour.nodes(&names);
    for (number, name) in names.iter().enumerate() {
        // The cheapest one is far away from where a search begins without chance.
        let priority = if number == 250 { 1 } else { 2 };
        harbour.runs(&format!("on-{name}"), name, "4", priority, 7);
    }
    harbour.runs("victim", "n", "4", 3, 7);
    harbour.add(heir("4").nominated("n250"));
    let failure = harbour.fails(0);
    let Room::Offered(offer) = &failure.room else {
        panic!("{failure:?}")
    };
    assert_eq!(
        (offer.node.as_str(), offer.cost.highest_priority),
        ("n250", 1)
    );
    *says.0.lock().unwrap() = Leave::Evict;
    harbour.0.activate(&uid("heir"));
    let failure = harbour.fails(0);
    assert_eq!(harbour.outcome(&failure).victims, ["on-n250"]);
}
