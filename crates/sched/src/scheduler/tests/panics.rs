//! Plugins that panic for one pod, and mistakes in the scheduler itself: nobody else suffers.

use std::collections::HashSet;
use std::sync::Arc;

use super::{
    add, add_node, assumed, at, cpu_taken, failed, next, reserving, scheduler, stock, waiting,
};
use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::guard::{Panicked, caught};
use crate::names::NodeName;
use crate::plugin::{
    Bound, EnqueueExtensions, Filter, PermitDecision, Plugin, PostBind, PreFiltered, Reserve,
};
use crate::plugins::{PrioritySort, stock_profile};
use crate::pod_info::PodInfo;
use crate::profile::ProfileBuilder;
use crate::queue::Place;
use crate::scheduler::{Aftermath, Attempt, Incoming, Scheduler};
use crate::state::CycleState;
use crate::status::{Code, PluginName, Status, Verdict};
use crate::table::NodeView;
use crate::test_objects::{NeverBinds, PodBuilder, pod, uid};
use crate::test_plugins::{Fake, Log, block_on, profile, taken};
use crate::tie::TieBreaker;

const TEXT: &str = "plugin \"Bad\" failed: a mistake in Pilotage, please report it: on purpose";

fn check(pod: &PodInfo) {
    assert!(&*pod.key.name != "bad", "on purpose");
}

/// A plugin that panics for pod `bad` at one point.
fn panicking(point: &str) -> Arc<Fake> {
    let set = |fake: &mut Fake| match point {
        "PreEnqueue" => {
            fake.pre_enqueue = Box::new(|pod| {
                check(pod);
                Ok(())
            });
        }
        "PreFilter" => {
            fake.pre_filter = Box::new(|pod| {
                check(pod);
                Ok(PreFiltered::AllNodes)
            });
        }
        "Filter" => {
            fake.filter = Box::new(|pod, _| {
                check(pod);
                Ok(())
            });
        }
        "Score" => {
            fake.score = Box::new(|pod, _| {
                check(pod);
                Ok(0)
            });
        }
        "Reserve" => {
            fake.reserve = Box::new(|_, pod| {
                check(pod);
                Ok(())
            });
        }
        "Permit" => {
            fake.permit = Box::new(|_, pod| {
                check(pod);
                Ok(PermitDecision::Allow)
            });
        }
        _ => panic!("no such point"),
    };
    Arc::new(Fake::new("Bad").set(set))
}

/// Two nodes with four cores each, and such a plugin.
fn with_panic_at(point: &str) -> Scheduler {
    let bad = panicking(point);
    let mut scheduler = scheduler(
        stock_profile("test", Arc::new(NeverBinds))
            .pre_enqueue(bad.clone())
            .pre_filter(bad.clone())
            .filter(bad.clone())
            .score(bad.clone(), 1)
            .reserve(bad.clone())
            .permit(bad),
    );
    for name in ["a", "b"] {
        add_node(&mut scheduler, name, "4");
    }
    scheduler
}

/// Places two pods, which fill both nodes if nothing else is there.
fn fill(scheduler: &mut Scheduler) {
    for name in ["first", "second"] {
        add(scheduler, pod(name).request("cpu", "3"));
        let placed = assumed(scheduler);
        scheduler.bound(placed, at(0));
    }
    assert_eq!(["a", "b"].map(|node| cpu_taken(scheduler, node)), [3000; 2]);
}

#[test]
fn a_plugin_that_panics_for_one_pod_fails_its_attempt_alone() {
    for point in ["PreFilter", "Filter", "Score", "Reserve", "Permit"] {
        let mut scheduler = with_panic_at(point);
        add(&mut scheduler, pod("bad").request("cpu", "3"));
        let failure = failed(&mut scheduler, 0);
        assert_eq!(failure.event().unwrap().note, TEXT, "{point}");
        let condition = failure.status().unwrap().condition.unwrap();
        assert_eq!(condition.reason, "SchedulerError", "{point}");
        assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Backoff));
        fill(&mut scheduler);
    }
}

#[test]
fn a_pod_that_panics_again_and_again_backs_off() {
    let mut scheduler = with_panic_at("PreFilter");
    add(&mut scheduler, pod("bad"));
    let mut tried = Vec::new();
    for second in 0..20 {
        scheduler.flush(at(second));
        while let Some(attempt) = next(&mut scheduler, second) {
            assert!(matches!(attempt, Attempt::Failed(_)));
            tried.push(second);
        }
    }
    // 1, 2, 4 and 8 seconds; one more until the second is over.
    assert_eq!(tried, [0, 2, 5, 10, 19]);
}

#[test]
fn a_pod_whose_gate_panics_is_gated_and_told() {
    let mut scheduler = with_panic_at("PreEnqueue");
    add(&mut scheduler, pod("bad"));
    assert_eq!(scheduler.place(&uid("bad")), Some(Place::Gated));
    let mishaps = scheduler.take_mishaps();
    assert_eq!(mishaps.len(), 1);
    assert_eq!(&*mishaps[0].pod.key.name, "bad");
    assert_eq!(mishaps[0].error.to_string(), TEXT);
    fill(&mut scheduler);
    assert!(scheduler.take_mishaps().is_empty());
}

/// A plugin whose only answer in time is *no* to pods that are late. All else panics.
struct Bad;

impl Plugin for Bad {
    fn name(&self) -> PluginName {
        "Bad"
    }
}

impl EnqueueExtensions for Bad {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(EventResource::Node, Actions::ADD)]
    }

    fn hint(&self, _: &PodInfo, _: &Event) -> Hint {
        panic!("on purpose")
    }
}

impl Filter for Bad {
    fn filter(&self, _: &CycleState, pod: &PodInfo, _: NodeView<'_>) -> Verdict {
        if &*pod.key.name == "late" {
            return Err(Status::unschedulable("late"));
        }
        Ok(())
    }
}

impl Reserve for Bad {
    fn reserve(&self, _: &Context<'_>, _: &mut CycleState, _: &PodInfo, _: &NodeName) -> Verdict {
        Ok(())
    }

    fn unreserve(&self, _: &mut CycleState, _: &PodInfo, _: &NodeName) {
        panic!("on purpose")
    }
}

impl PostBind for Bad {
    fn post_bind(&self, _: &CycleState, _: &PodInfo, _: &NodeName) {
        panic!("on purpose")
    }
}

#[test]
fn panics_where_no_answer_is_needed_are_told_and_change_nothing() {
    let (log, bad) = (Log::default(), Arc::new(Bad));
    let mut scheduler = scheduler(
        profile()
            .filter(bad.clone())
            .reserve(reserving("First", &log))
            .reserve(bad.clone())
            .post_bind(bad),
    );
    add_node(&mut scheduler, "a", "4");
    let told = |scheduler: &mut Scheduler, name: &str| {
        let mishaps = scheduler.take_mishaps();
        assert_eq!(mishaps.len(), 1, "{mishaps:?}");
        assert_eq!(mishaps[0].pod.key.name.as_ref(), name);
        assert_eq!(mishaps[0].error.to_string(), TEXT);
    };
    add(&mut scheduler, pod("p").request("cpu", "1"));
    let placed = assumed(&mut scheduler);
    scheduler.binding_failed(placed, Status::error("cut off"), at(0));
    told(&mut scheduler, "p");
    assert_eq!(taken(&log), ["First reserve", "First unreserve"]);
    assert_eq!(cpu_taken(&mut scheduler, "a"), 0);

    scheduler.activate(&uid("p"));
    let placed = assumed(&mut scheduler);
    scheduler.bound(placed, at(0));
    told(&mut scheduler, "p");
    assert_eq!(cpu_taken(&mut scheduler, "a"), 1000);

    add(&mut scheduler, pod("late"));
    failed(&mut scheduler, 0);
    assert_eq!(scheduler.place(&uid("late")), Some(Place::Unschedulable));
    add_node(&mut scheduler, "b", "4");
    told(&mut scheduler, "late");
    assert_eq!(
        scheduler.place(&uid("late")),
        Some(Place::Backoff),
        "in doubt it is tried"
    );
}

#[test]
fn a_binder_that_panics_fails_its_binding() {
    let bad = Fake::new("Bad").set(|fake| {
        fake.bind = Box::new(|pod| {
            check(pod);
            Ok(Bound::Done)
        });
    });
    let builder = ProfileBuilder::new("test")
        .queue_sort(Arc::new(PrioritySort))
        .bind(Arc::new(bad));
    let mut scheduler = scheduler(builder);
    add_node(&mut scheduler, "n", "4");
    for (name, binds) in [("bad", false), ("good", true)] {
        add(&mut scheduler, pod(name).request("cpu", "1"));
        let mut placed = assumed(&mut scheduler);
        scheduler.start_binding(&uid(name)).unwrap();
        match block_on(placed.bind()) {
            Ok(()) => scheduler.bound(placed, at(0)),
            Err(status) => {
                assert_eq!((status.code(), &*status.to_string()), (Code::Error, TEXT));
                scheduler.binding_failed(placed, status, at(0));
            }
        }
        assert_eq!(scheduler.is_assumed(&uid(name)), binds);
    }
    assert_eq!(cpu_taken(&mut scheduler, "n"), 1000);
}

/// Chance as a mistake in the scheduler itself.
struct NoDice;

impl TieBreaker for NoDice {
    fn pick(&mut self, _: usize) -> usize {
        panic!("no dice")
    }
}

#[test]
fn a_mistake_in_the_cycle_itself_fails_that_attempt_alone() {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)));
    for name in ["a", "b"] {
        add_node(&mut scheduler, name, "4");
    }
    add(&mut scheduler, pod("p").request("cpu", "3"));
    let Some(Attempt::Failed(failure)) = scheduler.schedule_next(at(0), &mut NoDice) else {
        panic!("it panicked")
    };
    let text = "a mistake in Pilotage, please report it: no dice";
    assert_eq!(failure.event().unwrap().note, text);
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Backoff));
    assert_eq!(failure.attempts, 1);
    fill(&mut scheduler);
}

#[test]
fn a_lost_binding_task_leaves_no_room_taken() {
    let log = Log::default();
    let mut scheduler = scheduler(
        profile()
            .reserve(reserving("R", &log))
            .permit(waiting("Tug", 60)),
    );
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("p").request("cpu", "1"));
    let placed = assumed(&mut scheduler);
    let (queued, node) = (placed.queued().clone(), placed.node().clone());
    drop(placed);
    let panic = || Panicked::new("on purpose");
    let abandoned = scheduler.abandon(queued.clone(), node.clone(), panic(), at(0));
    let failure = abandoned.unwrap();
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Backoff));
    assert_eq!((failure.node.as_ref(), failure.attempts), (Some(&node), 1));
    assert_eq!(taken(&log), ["R reserve", "R unreserve"]);
    assert!(scheduler.permit_state(&uid("p")).is_none());
    assert_eq!(cpu_taken(&mut scheduler, "n"), 0);
    let twice = scheduler.abandon(queued, node, panic(), at(0));
    assert!(twice.is_none(), "it was given back before");
}

#[test]
fn mending_finds_who_got_lost_and_keeps_who_has_a_place() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("runs").request("cpu", "1").on("n"));
    add(&mut scheduler, pod("held").request("cpu", "1"));
    let placed = assumed(&mut scheduler);
    for name in ["lost", "popped", "waits"] {
        add(&mut scheduler, pod(name).request("cpu", "1"));
    }
    scheduler.queue.delete(&uid("lost"));
    assert_eq!(scheduler.queue.pop(at(0)).unwrap().pod.uid, uid("popped"));
    scheduler.mend(at(0));
    for (name, place) in [
        ("lost", Some(Place::Backoff)),
        ("popped", Some(Place::Backoff)),
        ("waits", Some(Place::Active)),
        ("held", Some(Place::InFlight)),
        ("runs", None),
    ] {
        assert_eq!(scheduler.place(&uid(name)), place, "{name}");
    }
    assert!(scheduler.is_assumed(&uid("held")));
    assert_eq!(cpu_taken(&mut scheduler, "n"), 2000);
    scheduler.start_binding(&uid("held")).unwrap();
    scheduler.bound(placed, at(0));
    assert_eq!(scheduler.queue_size().in_flight_events, 0);
}

/// A pod whose taking in panics, as a driver meets it.
fn breaks_off(scheduler: &mut Scheduler, pod: PodBuilder, now: u64) {
    let broken = caught::<()>(|| {
        scheduler.take_in(Incoming::Object(pod.object()), |_, _| panic!("on purpose"));
    });
    assert!(broken.is_err());
    scheduler.mend(at(now));
}

#[test]
fn a_pod_that_could_not_be_taken_in_closes_its_node_until_it_is() {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)));
    for (name, cpu) in [("a", "4"), ("b", "2")] {
        add_node(&mut scheduler, name, cpu);
    }
    breaks_off(&mut scheduler, pod("bad").request("cpu", "3").on("a"), 0);
    add(&mut scheduler, pod("first").request("cpu", "2"));
    assert_eq!(assumed(&mut scheduler).node().as_str(), "b");
    add(&mut scheduler, pod("late").request("cpu", "1"));
    let note = failed(&mut scheduler, 0).event().unwrap().note;
    let why = "1 Insufficient cpu, 1 node(s) had a pod that could not be taken in (UID uid-bad)";
    assert!(note.contains(why), "{note}");

    // It is tried again, counts, and leaves room for another one.
    assert_eq!(scheduler.next_deadline(), Some(at(10)));
    scheduler.flush(at(10));
    assert_eq!(cpu_taken(&mut scheduler, "a"), 3000);
    scheduler.flush(at(12));
    let Some(Attempt::Assumed(placed)) = next(&mut scheduler, 12) else {
        panic!("the node is open again")
    };
    assert_eq!((placed.uid(), placed.node().as_str()), (&uid("late"), "a"));
}

#[test]
fn a_pod_that_cannot_be_taken_in_is_tried_less_and_less_often_until_it_is_gone() {
    let mut scheduler = stock();
    for (now, due) in [
        (0, 10),
        (10, 30),
        (30, 70),
        (70, 150),
        (150, 310),
        (310, 610),
    ] {
        breaks_off(&mut scheduler, pod("bad").on("n"), now);
        assert_eq!(scheduler.next_deadline(), Some(at(due)));
    }
    breaks_off(&mut scheduler, pod("bad").on("n"), 610);
    assert_eq!(
        scheduler.next_deadline(),
        Some(at(910)),
        "five minutes at most"
    );
    // Deleted, and nobody saw it.
    scheduler.retain_pods(&HashSet::new(), at(610));
    assert_eq!(scheduler.next_deadline(), None);
    add(&mut scheduler, pod("p").request("cpu", "4"));
    assert_eq!(assumed(&mut scheduler).node().as_str(), "n");
}

#[test]
fn a_pod_that_takes_no_room_or_counts_already_closes_no_node() {
    let mut scheduler = stock();
    let finished = pod("finished").on("n").edit(|pod| {
        pod.status.get_or_insert_default().phase = Some("Failed".to_owned());
    });
    breaks_off(&mut scheduler, finished, 0);
    breaks_off(&mut scheduler, pod("pending").request("cpu", "4"), 0);
    let counted = pod("counted").on("n").request("cpu", "3").object();
    let broken = caught::<()>(|| {
        scheduler.take_in(Incoming::Object(counted), |scheduler, pod| {
            scheduler.read_in(pod, at(0)).unwrap();
            panic!("on purpose")
        });
    });
    assert!(broken.is_err());
    scheduler.mend(at(0));
    assert_eq!(scheduler.next_deadline(), None);
    add(&mut scheduler, pod("p").request("cpu", "1"));
    assert_eq!(assumed(&mut scheduler).node().as_str(), "n");
    assert_eq!(cpu_taken(&mut scheduler, "n"), 4000);
}
