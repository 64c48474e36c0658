//! One attempt after the other: placed, failed, retried, bound.

use std::sync::Arc;

use super::{add, add_node, assumed, at, cpu_taken, failed, next, reserving, scheduler, stock};
use crate::coming::Coming;
use crate::cycle::Cause;
use crate::plugin::{Bound, Nomination, Preflight};
use crate::plugins::stock_profile;
use crate::profile::ProfileBuilder;
use crate::queue::Place;
use crate::scheduler::{Aftermath, Attempt, EvaluateError, PodChange, SkipReason};
use crate::status::{Code, Status};
use crate::test_objects::{NeverBinds, node, pod, uid};
use crate::test_plugins::{Fake, Log, block_on, profile, taken};
use crate::tie::SeededTies;

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
    let event = failure.event().unwrap();
    assert_eq!(
        (event.reason, event.action, event.warning),
        ("FailedScheduling", "Scheduling", true)
    );
    assert_eq!(event.note, text);
    let patch = failure.status().unwrap();
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
    let condition = failure.status().unwrap().condition.unwrap();
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

#[test]
fn an_evaluation_needs_no_known_pod() {
    let mut scheduler = stock();
    add_node(&mut scheduler, "small", "1");
    let stranger = pod("stranger")
        .scheduler("nobody")
        .request("cpu", "2")
        .info();
    let found = scheduler
        .evaluate("test", &stranger, Arc::default())
        .unwrap();
    assert_eq!(
        (found.feasible[0].node.as_str(), found.feasible.len()),
        ("n", 1)
    );
    assert_eq!(
        found.rejected[0].rejection.plugin(),
        Some("NodeResourcesFit")
    );
    let unknown = scheduler.evaluate("nobody", &stranger, Arc::default());
    assert!(matches!(unknown, Err(EvaluateError::NoProfile(name)) if name == "nobody"));
    assert!(scheduler.place(&uid("stranger")).is_none());
}

#[test]
fn what_is_coming_lowers_a_score_and_excludes_nobody() {
    let mut scheduler = stock();
    add_node(&mut scheduler, "other", "4");
    let stranger = pod("stranger").request("cpu", "3").info();
    let mut coming = Coming::default();
    coming.add("n", &stranger.needs.requests);
    let found = scheduler
        .evaluate("test", &stranger, Arc::new(coming))
        .unwrap();
    let names: Vec<_> = found.feasible.iter().map(|s| s.node.as_str()).collect();
    assert_eq!(names, ["other", "n"]);
    let found = scheduler.evaluate("test", &stranger, Arc::default());
    assert_eq!(found.unwrap().feasible[0].node.as_str(), "n");
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

#[test]
fn a_nomination_ends_when_its_pod_has_a_node() {
    for by_us in [true, false] {
        let mut scheduler = stock();
        let expected = || {
            pod("expected")
                .priority(5)
                .request("cpu", "3")
                .nominated("n")
        };
        add(&mut scheduler, expected());
        if by_us {
            let placed = assumed(&mut scheduler);
            scheduler.bound(placed, at(0));
        } else {
            add(&mut scheduler, expected().on("n"));
        }
        // Three cores are taken once, not twice.
        add(&mut scheduler, pod("p").request("cpu", "1"));
        let placed = assumed(&mut scheduler);
        scheduler.bound(placed, at(0));
    }
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
    assert_eq!(failure.status().unwrap().condition.unwrap().message, text);
    assert_eq!(failure.attempts, 1);
}

#[test]
fn a_small_cluster_fills_up_evenly() {
    let mut scheduler = scheduler(stock_profile("test", Arc::new(NeverBinds)).evicting_nobody());
    for number in 0..4 {
        add_node(&mut scheduler, &format!("n{number}"), "2");
    }
    scheduler
        .node_applied(
            &node("taken")
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
            other => panic!("{other:?}"),
        }
    }
    let text = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient cpu.";
    assert_eq!(failures, [text]);
    for number in 0..4 {
        assert_eq!(cpu_taken(&mut scheduler, &format!("n{number}")), 2000);
    }
    assert_eq!(cpu_taken(&mut scheduler, "taken"), 0);
}

#[test]
fn a_failure_on_the_nominated_node_is_told_and_others_are_tried() {
    let leaky = Fake::new("Leaky").set(|fake| {
        fake.filter = Box::new(|_, node| match node.name().as_str() {
            "n" => Err(Status::error("leak")),
            _ => Ok(()),
        });
    });
    // It scores nothing, so that the first node that will do is enough.
    let mut scheduler = scheduler(profile().filter(Arc::new(leaky)));
    for name in ["m", "n"] {
        add_node(&mut scheduler, name, "4");
    }
    add(&mut scheduler, pod("a").nominated("n"));
    assert_eq!(assumed(&mut scheduler).node().as_str(), "m");
    let mishaps = scheduler.take_mishaps();
    assert_eq!(mishaps.len(), 1, "{mishaps:?}");
    assert_eq!(&*mishaps[0].pod.key.name, "a");
    let text = "plugin \"Leaky\" failed: leak";
    assert_eq!(mishaps[0].error.to_string(), text);
}
