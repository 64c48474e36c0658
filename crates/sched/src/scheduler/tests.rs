use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::{
    Aftermath, Assumed, Attempt, EvaluateError, Failure, PodChange, Scheduler, SchedulerConfig,
    SkipReason,
};
use crate::cycle::Cause;
use crate::event::{Actions, EventKind, EventResource};
use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::plugin::{Bound, Nomination, PermitDecision, Preflight};
use crate::plugins::stock_profile;
use crate::profile::ProfileBuilder;
use crate::queue::Place;
use crate::status::{Code, Reason, Status};
use crate::test_objects::{NeverBinds, PodBuilder, node, pod, uid};
use crate::test_plugins::{Fake, Log, block_on, profile, taken};
use crate::tie::{FirstOfEquals, SeededTies};
use crate::waiting::PermitState;

fn at(seconds: u64) -> Moment {
    Moment::after_epoch(Duration::from_secs(seconds))
}

fn scheduler(profile: ProfileBuilder) -> Scheduler {
    Scheduler::new([profile.build().unwrap()], SchedulerConfig::default()).unwrap()
}

/// The stock plugins, and a node with four cores.
fn stock() -> Scheduler {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)));
    add_node(&mut scheduler, "n", "4");
    scheduler
}

fn add_node(scheduler: &mut Scheduler, name: &str, cpu: &str) {
    let node = node(name)
        .allocatable("cpu", cpu)
        .allocatable("memory", "8Gi");
    scheduler.node_applied(node.build(), at(0)).unwrap();
}

fn add(scheduler: &mut Scheduler, pod: PodBuilder) -> PodChange {
    scheduler.pod_applied(pod.object(), at(0)).unwrap()
}

fn next(scheduler: &mut Scheduler, now: u64) -> Option<Attempt> {
    scheduler.schedule_next(at(now), &mut FirstOfEquals)
}

fn assumed(scheduler: &mut Scheduler) -> Assumed {
    match next(scheduler, 0) {
        Some(Attempt::Assumed(assumed)) => *assumed,
        other => panic!("not assumed: {other:?}"),
    }
}

fn failed(scheduler: &mut Scheduler, now: u64) -> Failure {
    match next(scheduler, now) {
        Some(Attempt::Failed(failure)) => *failure,
        other => panic!("not failed: {other:?}"),
    }
}

fn cpu_taken(scheduler: &mut Scheduler, name: &str) -> i64 {
    let snapshot = scheduler.snapshot();
    snapshot
        .node(&NodeName::from(name))
        .unwrap()
        .requested()
        .milli_cpu
}

fn reserving(name: &'static str, log: &Log) -> Arc<Fake> {
    Arc::new(Fake::new(name).log(log))
}

#[test]
fn from_pending_to_bound() {
    let log = Log::default();
    let all = reserving("R", &log);
    let mut scheduler = scheduler(
        profile()
            .reserve(all.clone())
            .permit(all.clone())
            .pre_bind(all.clone())
            .post_bind(all),
    );
    add_node(&mut scheduler, "n", "4");
    assert_eq!(
        add(&mut scheduler, pod("p").request("cpu", "1")),
        PodChange::Queued(Place::Active)
    );
    let mut placed = assumed(&mut scheduler);
    assert_eq!((placed.node().as_str(), placed.waits()), ("n", false));
    assert_eq!(placed.evaluated_and_feasible(), (1, 1));
    assert!(scheduler.is_assumed(&uid("p")));
    assert_eq!(cpu_taken(&mut scheduler, "n"), 1000);

    // Our own status patches come back before the binding does.
    assert_eq!(
        add(&mut scheduler, pod("p").nominated("n")),
        PodChange::Trying
    );
    assert!(placed.preflight().unwrap());
    scheduler.start_binding(&uid("p")).unwrap();
    block_on(placed.bind()).unwrap();
    assert_eq!(
        placed.scheduled_event().note,
        "Successfully assigned default/p to n"
    );
    scheduler.bound(placed, at(1));
    assert!(scheduler.is_assumed(&uid("p")), "until the watch confirms");
    let expected = [
        "R reserve",
        "R permit",
        "R pre_bind begins",
        "R pre_bind ends",
        "R post_bind",
    ];
    assert_eq!(taken(&log), expected);

    let confirmed = add(&mut scheduler, pod("p").request("cpu", "1").on("n"));
    assert_eq!(confirmed, PodChange::Confirmed);
    assert!(!scheduler.is_assumed(&uid("p")));
    assert_eq!(cpu_taken(&mut scheduler, "n"), 1000);
    assert!(next(&mut scheduler, 9).is_none());
    scheduler.pod_deleted(&uid("p"), at(2));
    assert_eq!(cpu_taken(&mut scheduler, "n"), 0);
}

#[test]
fn a_pod_without_room_waits_until_some_is_left() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("big").request("cpu", "3").on("n"));
    add(&mut scheduler, pod("p").request("cpu", "2"));
    let failure = failed(&mut scheduler, 0);
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Unschedulable));
    let text = "0/1 nodes are available: 1 Insufficient cpu.";
    let event = failure.event.unwrap();
    assert_eq!(
        (event.reason, event.action, event.warning),
        ("FailedScheduling", "Scheduling", true)
    );
    assert_eq!(event.note, text);
    let patch = failure.status.unwrap();
    let condition = patch.condition.unwrap();
    assert_eq!(
        (condition.reason, condition.message.as_str()),
        ("Unschedulable", text)
    );
    assert_eq!(
        (condition.transition, patch.nomination),
        (true, Nomination::Keep)
    );

    scheduler.pod_deleted(&uid("big"), at(5));
    assert_eq!(scheduler.place(&uid("p")), Some(Place::Active));
    let placed = assumed(&mut scheduler);
    scheduler.bound(placed, at(5));
}

#[test]
fn an_empty_cluster_fails_by_error_backoff_with_its_own_text() {
    let mut scheduler = scheduler(profile());
    add(&mut scheduler, pod("p"));
    let failure = failed(&mut scheduler, 0);
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Backoff));
    let condition = failure.status.unwrap().condition.unwrap();
    assert_eq!(condition.reason, "Unschedulable");
    assert_eq!(condition.message, "no nodes available to schedule pods");
}

#[test]
fn pods_that_need_not_be_tried() {
    let mut scheduler = stock();
    assert_eq!(
        add(&mut scheduler, pod("other").scheduler("default-scheduler")),
        PodChange::Foreign
    );
    assert_eq!(
        add(&mut scheduler, pod("done").on("n").phase("Succeeded")),
        PodChange::Gone
    );
    add(&mut scheduler, pod("going").deleting());
    let Some(Attempt::Skipped(skipped)) = next(&mut scheduler, 0) else {
        panic!("not skipped")
    };
    assert_eq!(skipped.why, SkipReason::Deleting);
    assert_eq!(
        skipped.event.unwrap().note,
        "skip schedule deleting pod: default/going"
    );
    assert!(next(&mut scheduler, 0).is_none());
}

#[test]
fn a_failed_reserve_gives_everything_back_in_reverse() {
    let log = Log::default();
    let second = Fake::new("Second")
        .log(&log)
        .set(|fake| fake.reserve = Box::new(|_, _| Err(Status::unschedulable("no berth"))));
    let mut scheduler = scheduler(
        profile()
            .reserve(reserving("First", &log))
            .reserve(Arc::new(second))
            .reserve(reserving("Third", &log)),
    );
    for name in ["a", "b"] {
        add_node(&mut scheduler, name, "4");
    }
    add(&mut scheduler, pod("p"));
    let failure = failed(&mut scheduler, 0);
    assert_eq!(
        failure.cause.to_string(),
        "0/1 nodes are available: 1 no berth."
    );
    assert_eq!(failure.node.unwrap().as_str(), "a");
    assert!(!scheduler.is_assumed(&uid("p")));
    let calls = [
        "First reserve",
        "Second reserve",
        "Third unreserve",
        "Second unreserve",
        "First unreserve",
    ];
    assert_eq!(taken(&log), calls);
}

fn waiting(name: &'static str, seconds: u64) -> Arc<Fake> {
    let wait = PermitDecision::Wait(Duration::from_secs(seconds));
    Arc::new(Fake::new(name).set(|fake| fake.permit = Box::new(move |_, _| Ok(wait))))
}

/// A scheduler with one pod held by `Tug` for a minute and by `Pilot` for half of one.
fn held(log: &Log) -> (Scheduler, Assumed) {
    let mut scheduler = scheduler(
        profile()
            .reserve(reserving("R", log))
            .permit(waiting("Tug", 60))
            .permit(waiting("Pilot", 30)),
    );
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("p").request("cpu", "1"));
    let placed = assumed(&mut scheduler);
    assert!(placed.waits());
    (scheduler, placed)
}

#[test]
fn permit_waits_for_all() {
    let (mut scheduler, placed) = held(&Log::default());
    let state = scheduler.permit_state(&uid("p")).unwrap();
    assert!(matches!(state, PermitState::Waiting { deadline } if deadline == at(30)));
    assert_eq!(scheduler.next_deadline(), Some(at(30)));
    assert!(scheduler.start_binding(&uid("p")).is_err(), "not yet");
    assert!(scheduler.allow(&uid("p"), "Pilot"));
    assert!(scheduler.take_resolved().is_empty());
    assert!(scheduler.allow(&uid("p"), "Tug"));
    assert_eq!(scheduler.take_resolved(), [uid("p")]);
    scheduler.start_binding(&uid("p")).unwrap();
    assert!(scheduler.permit_state(&uid("p")).is_none());
    scheduler.bound(placed, at(1));
}

#[test]
fn a_wait_ends_by_rejection_or_time() {
    for (ends, text) in [
        (true, "0/1 nodes are available: 1 tide turned."),
        (
            false,
            "0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Pilot.",
        ),
    ] {
        let log = Log::default();
        let (mut scheduler, placed) = held(&log);
        if ends {
            assert!(scheduler.reject(&uid("p"), "Tug", Reason::fixed("tide turned")));
        } else {
            scheduler.flush(at(30));
        }
        assert_eq!(scheduler.take_resolved(), [uid("p")]);
        let status = scheduler.start_binding(&uid("p")).unwrap_err();
        let failure = scheduler.binding_failed(placed, status, at(30));
        assert_eq!(failure.cause.to_string(), text);
        assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Unschedulable));
        assert_eq!(taken(&log), ["R reserve", "R unreserve"]);
        assert_eq!(cpu_taken(&mut scheduler, "n"), 0);
    }
}

#[test]
fn a_freed_node_wakes_others_but_not_the_pod_that_was_rejected() {
    let wants_room = |name| {
        let freed = EventKind::new(EventResource::AssignedPod, Actions::DELETE);
        Fake::new(name).set(|fake| fake.events = vec![freed])
    };
    let full = wants_room("Full").set(|fake| {
        fake.filter = Box::new(|_, node| {
            if node.pods().is_empty() {
                Ok(())
            } else {
                Err(Status::unschedulable("full"))
            }
        });
    });
    let wait = wants_room("Wait").set(|fake| {
        fake.permit = Box::new(|_, _| Ok(PermitDecision::Wait(Duration::from_secs(9))));
    });
    let mut scheduler = scheduler(profile().filter(Arc::new(full)).permit(Arc::new(wait)));
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("first").priority(1));
    add(&mut scheduler, pod("second"));
    let placed = assumed(&mut scheduler);
    assert_eq!(
        failed(&mut scheduler, 0).aftermath,
        Aftermath::Requeued(Place::Unschedulable)
    );
    scheduler.reject(&uid("first"), "Wait", "no");
    let status = scheduler.start_binding(&uid("first")).unwrap_err();
    let failure = scheduler.binding_failed(placed, status, at(9));
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Unschedulable));
    assert_eq!(scheduler.place(&uid("first")), Some(Place::Unschedulable));
    assert_eq!(scheduler.place(&uid("second")), Some(Place::Active));
}

#[test]
fn a_bind_error_is_retried_without_an_event() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("p"));
    let mut placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("p")).unwrap();
    let status = block_on(placed.bind()).unwrap_err();
    assert_eq!(status.code(), Code::Error);
    let failure = scheduler.binding_failed(placed, status, at(0));
    assert_eq!(failure.aftermath, Aftermath::Requeued(Place::Backoff));
    assert!(matches!(failure.cause, Cause::Error(_)));
    let text = "plugin \"DefaultBinder\" failed: nothing is bound here";
    assert_eq!(failure.status.unwrap().condition.unwrap().message, text);
    assert_eq!(failure.attempts, 1);
}

#[test]
fn what_happens_to_a_pod_while_it_is_bound() {
    // Somebody else's bind, or our own whose answer was lost: nothing is published.
    let mut scheduler = stock();
    add(&mut scheduler, pod("p"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("p")).unwrap();
    add(&mut scheduler, pod("p").on("n"));
    let failure = scheduler.binding_failed(placed, Status::error("timeout"), at(0));
    assert_eq!(failure.aftermath, Aftermath::Bound);
    assert!(failure.event.is_none() && failure.status.is_none());
    assert_eq!(
        scheduler.snapshot().nodes()[0].pods().len(),
        1,
        "it is really there"
    );

    // Deleted before the bind failed.
    add(&mut scheduler, pod("q"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("q")).unwrap();
    scheduler.pod_deleted(&uid("q"), at(0));
    assert!(
        scheduler.is_assumed(&uid("q")),
        "its room is taken until the task ends"
    );
    let failure = scheduler.binding_failed(placed, Status::error("404"), at(0));
    assert_eq!(failure.aftermath, Aftermath::Gone);
    assert_eq!(scheduler.snapshot().nodes()[0].pods().len(), 1);

    // Deleted although the bind succeeded: no watch event will ever free the room.
    add(&mut scheduler, pod("r"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("r")).unwrap();
    scheduler.pod_deleted(&uid("r"), at(0));
    scheduler.bound(placed, at(0));
    assert!(!scheduler.is_assumed(&uid("r")));

    // Deleted between our bind and its confirmation.
    add(&mut scheduler, pod("s"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("s")).unwrap();
    scheduler.bound(placed, at(0));
    scheduler.pod_deleted(&uid("s"), at(0));
    assert!(!scheduler.is_assumed(&uid("s")));
    assert!(
        next(&mut scheduler, 100).is_none(),
        "nobody is left in the queue"
    );
}

#[test]
fn a_waiting_pod_that_goes_or_is_bound_elsewhere_is_rejected() {
    for (deleted, aftermath) in [(true, Aftermath::Gone), (false, Aftermath::Bound)] {
        let (mut scheduler, placed) = held(&Log::default());
        if deleted {
            scheduler.pod_deleted(&uid("p"), at(1));
        } else {
            add(&mut scheduler, pod("p").on("elsewhere"));
        }
        assert_eq!(scheduler.take_resolved(), [uid("p")]);
        let status = scheduler.start_binding(&uid("p")).unwrap_err();
        assert_eq!(
            scheduler.binding_failed(placed, status, at(1)).aftermath,
            aftermath
        );
        assert_eq!(cpu_taken(&mut scheduler, "n"), 0);
    }
}

#[test]
fn a_namesake_is_another_pod() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("p"));
    let placed = assumed(&mut scheduler);
    // The deletion of the first was missed.
    add(&mut scheduler, pod("p").uid("second"));
    let failure = scheduler.binding_failed(placed, Status::error("conflict"), at(0));
    assert_eq!(failure.aftermath, Aftermath::Gone);
    assert_eq!(assumed(&mut scheduler).uid().as_str(), "second");
    assert!(next(&mut scheduler, 100).is_none());
}

#[test]
fn a_new_list_repairs_missed_deletions() {
    let mut scheduler = stock();
    add_node(&mut scheduler, "gone", "4");
    add(&mut scheduler, pod("kept").on("n"));
    add(&mut scheduler, pod("lost").on("n"));
    add(&mut scheduler, pod("pending"));
    scheduler.retain_pods(&HashSet::from([uid("kept")]), at(0));
    scheduler.retain_nodes(&HashSet::from([NodeName::from("n")]), at(0));
    let snapshot = scheduler.snapshot();
    assert_eq!(snapshot.nodes().len(), 1);
    let names = snapshot.nodes()[0]
        .pods()
        .iter()
        .map(|pod| pod.key.name.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["kept"]);
    assert!(next(&mut scheduler, 0).is_none());
}

#[test]
fn gates_hold_until_they_are_gone() {
    let mut scheduler = stock();
    assert_eq!(
        add(&mut scheduler, pod("p").gate("quota")),
        PodChange::Queued(Place::Gated)
    );
    let gate = scheduler.gate(&uid("p")).unwrap();
    assert_eq!(
        gate.status.to_string(),
        "waiting for scheduling gates: [quota]"
    );
    assert_eq!(
        add(&mut scheduler, pod("p")),
        PodChange::Queued(Place::Active)
    );
}

#[test]
fn a_custom_event_opens_its_gate_and_so_does_activation() {
    for by_event in [true, false] {
        let open = Arc::new(AtomicBool::new(false));
        let seen = open.clone();
        let gate = Fake::new("Board").set(|fake| {
            fake.events = vec![EventKind::new(
                EventResource::Custom("Answer"),
                Actions::ALL,
            )];
            fake.pre_enqueue = Box::new(move |_| {
                if seen.load(Ordering::SeqCst) {
                    Ok(())
                } else {
                    Err(Status::unschedulable("asked"))
                }
            });
        });
        let mut scheduler = scheduler(profile().pre_enqueue(Arc::new(gate)));
        add_node(&mut scheduler, "n", "4");
        assert_eq!(
            add(&mut scheduler, pod("p")),
            PodChange::Queued(Place::Gated)
        );
        open.store(true, Ordering::SeqCst);
        if by_event {
            assert_eq!(scheduler.custom_event("Answer", None, at(0)), 1);
        } else {
            assert_eq!(scheduler.activate(&uid("p")), Some(Place::Active));
        }
        let placed = assumed(&mut scheduler);
        scheduler.bound(placed, at(0));
    }
}

#[test]
fn effects_reach_other_pods_when_the_cycle_is_over() {
    let leads = Fake::new("Gang").set(|fake| {
        fake.permit = Box::new(|state, pod| {
            if &*pod.key.name == "leader" {
                state.request(|effects| {
                    effects.allow(uid("a"), "Gang");
                    effects.reject(uid("b"), "Gang", "left behind");
                    effects.activate(uid("late"));
                });
                return Ok(PermitDecision::Allow);
            }
            Ok(PermitDecision::Wait(Duration::from_mins(1)))
        });
    });
    let late = Fake::new("Late").set(|fake| {
        fake.filter = Box::new(|pod, _| {
            if &*pod.key.name == "late" {
                Err(Status::unschedulable("late"))
            } else {
                Ok(())
            }
        });
    });
    let mut scheduler = scheduler(profile().filter(Arc::new(late)).permit(Arc::new(leads)));
    add_node(&mut scheduler, "n", "4");
    for (name, priority) in [("a", 9), ("b", 8), ("late", 7), ("leader", 6)] {
        add(&mut scheduler, pod(name).priority(priority));
    }
    let (a, b) = (assumed(&mut scheduler), assumed(&mut scheduler));
    assert_eq!(
        failed(&mut scheduler, 0).aftermath,
        Aftermath::Requeued(Place::Unschedulable)
    );
    let leader = assumed(&mut scheduler);
    assert_eq!(scheduler.take_resolved(), [uid("a"), uid("b")]);
    assert!(scheduler.start_binding(a.uid()).is_ok());
    assert!(scheduler.start_binding(b.uid()).is_err());
    assert_eq!(scheduler.place(&uid("late")), Some(Place::Active));
    for placed in [a, b, leader] {
        scheduler.bound(placed, at(0));
    }
}

#[test]
fn a_recheck_leaves_the_pod_itself_out() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("p").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    assert!(
        scheduler.recheck(&uid("p")).is_ok(),
        "its own room isn't in its way"
    );
    // Another scheduler, which doesn't see the hold, takes the room.
    add(&mut scheduler, pod("thief").request("cpu", "2").on("n"));
    let status = scheduler.recheck(&uid("p")).unwrap_err();
    assert_eq!(
        (status.plugin(), status.to_string().as_str()),
        (Some("NodeResourcesFit"), "Insufficient cpu")
    );
    assert_eq!(
        cpu_taken(&mut scheduler, "n"),
        5000,
        "nothing was changed by asking"
    );
    scheduler.node_deleted(&NodeName::from("n"), at(0));
    assert_eq!(
        scheduler.recheck(&uid("p")).unwrap_err().code(),
        Code::UnschedulableAndUnresolvable
    );
    let _ = scheduler.binding_failed(placed, status, at(0));
    assert_eq!(
        scheduler.recheck(&uid("p")).unwrap_err().code(),
        Code::Error
    );
}

#[test]
fn an_evaluation_needs_no_known_pod() {
    let mut scheduler = stock();
    add_node(&mut scheduler, "small", "1");
    let stranger = pod("stranger")
        .scheduler("nobody")
        .request("cpu", "2")
        .info();
    let found = scheduler.evaluate("test", &stranger).unwrap();
    assert_eq!(
        (found.feasible[0].node.as_str(), found.feasible.len()),
        ("n", 1)
    );
    assert_eq!(
        found.rejected[0].rejection.plugin(),
        Some("NodeResourcesFit")
    );
    let unknown = scheduler.evaluate("nobody", &stranger);
    assert!(matches!(unknown, Err(EvaluateError::NoProfile(name)) if name == "nobody"));
    assert!(scheduler.place(&uid("stranger")).is_none());
}

#[test]
fn a_nomination_holds_room_until_its_pod_comes_or_goes() {
    let mut scheduler = stock();
    add(
        &mut scheduler,
        pod("expected")
            .priority(5)
            .request("cpu", "3")
            .nominated("n")
            .gate("later"),
    );
    add(&mut scheduler, pod("p").request("cpu", "2"));
    assert_eq!(
        failed(&mut scheduler, 0).cause.to_string(),
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    scheduler.pod_deleted(&uid("expected"), at(5));
    let placed = assumed(&mut scheduler);
    scheduler.bound(placed, at(5));
}

fn parallel(name: &'static str, log: &Log, preflight: Preflight) -> Arc<Fake> {
    Arc::new(
        Fake::new(name)
            .log(log)
            .set(|fake| fake.preflight = Ok(preflight)),
    )
}

#[test]
fn pre_bind_neighbours_run_together_if_all_allow_it() {
    let log = Log::default();
    let together = Preflight::Act { parallel: true };
    let alone = Preflight::Act { parallel: false };
    let mut scheduler = scheduler(
        profile()
            .pre_bind(parallel("A", &log, together))
            .pre_bind(parallel("B", &log, together))
            .pre_bind(parallel("C", &log, alone))
            .pre_bind(parallel("D", &log, Preflight::Skip))
            .pre_bind(parallel("E", &log, together)),
    );
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("p"));
    let mut placed = assumed(&mut scheduler);
    block_on(placed.bind()).unwrap();
    let calls = taken(&log)
        .into_iter()
        .map(|call| call.replace("pre_bind ", ""))
        .collect::<Vec<_>>();
    let expected = [
        "A begins", "B begins", "A ends", "B ends", "C begins", "C ends", "E begins", "E ends",
    ];
    assert_eq!(calls, expected);
    scheduler.bound(placed, at(0));
}

#[test]
fn binders_are_asked_in_order() {
    let log = Log::default();
    let skips = Fake::new("Skips")
        .log(&log)
        .set(|fake| fake.bind = Box::new(|_| Ok(Bound::Skip)));
    let builder = ProfileBuilder::new("test").queue_sort(Arc::new(crate::plugins::PrioritySort));
    let mut scheduler = scheduler(
        builder
            .bind(Arc::new(skips))
            .bind(Arc::new(Fake::new("Binds").log(&log))),
    );
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("p"));
    let mut placed = assumed(&mut scheduler);
    block_on(placed.bind()).unwrap();
    assert_eq!(taken(&log), ["Skips bind p to n", "Binds bind p to n"]);
    scheduler.bound(placed, at(0));
}

#[test]
fn a_small_cluster_fills_up_evenly() {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)));
    for number in 0..4 {
        add_node(&mut scheduler, &format!("n{number}"), "2");
    }
    scheduler
        .node_applied(
            node("taken")
                .allocatable("cpu", "64")
                .taint("t", "", "NoSchedule")
                .build(),
            at(0),
        )
        .unwrap();
    for number in 0..9 {
        add(
            &mut scheduler,
            pod(&format!("p{number}"))
                .request("cpu", "1")
                .request("memory", "1Gi"),
        );
    }
    let mut ties = SeededTies::new(3);
    let mut failures = Vec::new();
    while let Some(attempt) = scheduler.schedule_next(at(0), &mut ties) {
        match attempt {
            Attempt::Assumed(placed) => scheduler.bound(*placed, at(0)),
            Attempt::Failed(failure) => failures.push(failure.cause.to_string()),
            Attempt::Skipped(skipped) => panic!("{skipped:?}"),
        }
    }
    let text = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient cpu.";
    assert_eq!(failures, [text]);
    for number in 0..4 {
        assert_eq!(cpu_taken(&mut scheduler, &format!("n{number}")), 2000);
    }
    assert_eq!(cpu_taken(&mut scheduler, "taken"), 0);
}

/// Something that happens to a scheduler.
#[derive(Clone, Debug)]
enum Op {
    Apply(u8),
    Recreate(u8),
    BindElsewhere(u8),
    Delete(u8),
    Next,
    Bound(u8),
    BindFails(u8),
    Reject(u8),
    Allow(u8),
    Node(bool),
    Sleep(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let pod = 0u8..6;
    prop_oneof![
        3 => pod.clone().prop_map(Op::Apply),
        1 => pod.clone().prop_map(Op::Recreate),
        1 => pod.clone().prop_map(Op::BindElsewhere),
        1 => pod.clone().prop_map(Op::Delete),
        4 => Just(Op::Next),
        2 => pod.clone().prop_map(Op::Bound),
        2 => pod.clone().prop_map(Op::BindFails),
        1 => pod.clone().prop_map(Op::Reject),
        2 => pod.prop_map(Op::Allow),
        1 => any::<bool>().prop_map(Op::Node),
        1 => (0u8..40).prop_map(Op::Sleep),
    ]
}

proptest! {
    /// Whatever happens in whatever order: a pod is queued, in a binding task, or on a node, and only one of
    /// these; a node's room is the sum of what is on it; when all is quiet nothing is left behind.
    #[test]
    fn no_pod_is_lost(ops in proptest::collection::vec(op(), 0..120)) {
        let mut scheduler = scheduler(
            stock_profile("test", Arc::new(NeverBinds)).permit(waiting("Tug", 20)),
        );
        add_node(&mut scheduler, "n", "3");
        // A pod that is made again under its name has another UID.
        let mut lives = [0u8; 6];
        let name = |n: u8| format!("p{n}");
        let id = |lives: &[u8; 6], n: u8| PodUid::from(format!("{n}-{}", lives[usize::from(n)]));
        let make = |lives: &[u8; 6], n: u8| {
            pod(&name(n)).uid(id(lives, n).as_str()).request("cpu", "1")
        };
        let mut now = 0u64;
        let mut pending = HashSet::new();
        let mut on_node = HashSet::new();
        let mut tasks: BTreeMap<PodUid, Assumed> = BTreeMap::new();
        for op in ops {
            let time = at(now);
            match op {
                Op::Recreate(n) => {
                    // The deletion of the last life is missed.
                    lives[usize::from(n)] += 1;
                    on_node.remove(&n);
                    scheduler.pod_applied(make(&lives, n).object(), time).unwrap();
                    pending.insert(n);
                }
                // The API server never takes a node from a pod.
                Op::Apply(n) if !on_node.contains(&n) => {
                    scheduler.pod_applied(make(&lives, n).object(), time).unwrap();
                    pending.insert(n);
                }
                Op::BindElsewhere(n) => {
                    scheduler.pod_applied(make(&lives, n).on("n").object(), time).unwrap();
                    pending.remove(&n);
                    on_node.insert(n);
                }
                Op::Delete(n) => {
                    scheduler.pod_deleted(&id(&lives, n), time);
                    lives[usize::from(n)] += 1;
                    pending.remove(&n);
                    on_node.remove(&n);
                }
                Op::Next => {
                    let attempt = scheduler.schedule_next(time, &mut FirstOfEquals);
                    if let Some(Attempt::Assumed(placed)) = attempt {
                        let twice = tasks.insert(placed.uid().clone(), *placed);
                        prop_assert!(twice.is_none(), "bound twice at once");
                    }
                }
                Op::Bound(n) => {
                    let task = tasks.keys().nth(usize::from(n)).cloned();
                    if let Some((uid, placed)) = task.and_then(|uid| tasks.remove_entry(&uid)) {
                        match scheduler.start_binding(&uid) {
                            Ok(()) => scheduler.bound(placed, time),
                            Err(Status::Rejected(rejection)) => {
                                scheduler.binding_failed(placed, rejection.into(), time);
                            }
                            Err(Status::Error(_)) => {
                                tasks.insert(uid, placed);
                            }
                        }
                    }
                }
                Op::BindFails(n) => {
                    let task = tasks.keys().nth(usize::from(n)).cloned();
                    if let Some(placed) = task.and_then(|uid| tasks.remove(&uid)) {
                        scheduler.binding_failed(placed, Status::error("cut off"), time);
                    }
                }
                Op::Reject(n) => { scheduler.reject(&id(&lives, n), "Tug", "no"); }
                Op::Allow(n) => { scheduler.allow(&id(&lives, n), "Tug"); }
                Op::Node(true) => add_node(&mut scheduler, "n", "3"),
                Op::Node(false) => scheduler.node_deleted(&NodeName::from("n"), time),
                Op::Sleep(seconds) => {
                    now += u64::from(seconds);
                    scheduler.flush(at(now));
                }
                Op::Apply(_) => {}
            }
            for n in 0..6 {
                let uid = id(&lives, n);
                let queued = scheduler.place(&uid).is_some() && !tasks.contains_key(&uid);
                let assumed = scheduler.is_assumed(&uid);
                if on_node.contains(&n) {
                    prop_assert!(!queued && !assumed, "p{} is on its node alone", n);
                } else if pending.contains(&n) {
                    prop_assert!(queued != assumed, "p{} is queued or assumed", n);
                } else {
                    prop_assert!(!queued && !assumed, "p{} is gone", n);
                }
            }
            let snapshot = scheduler.snapshot();
            for node in snapshot.nodes() {
                prop_assert_eq!(node.requested().milli_cpu, 1000 * node.pods().len() as i64);
            }
        }
        for placed in tasks.into_values() {
            scheduler.binding_failed(placed, Status::error("cut off"), at(now));
        }
        for n in 0..6 {
            scheduler.pod_deleted(&id(&lives, n), at(now));
        }
        let size = scheduler.queue_size();
        prop_assert_eq!(size.active + size.backoff + size.unschedulable + size.gated, 0);
        prop_assert_eq!(size.in_flight_events, 0);
        prop_assert_eq!(scheduler.cache_size().pods, 0);
        prop_assert_eq!(scheduler.waiting_pods().iter().count(), 0);
    }
}
