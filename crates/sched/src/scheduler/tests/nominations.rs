//! Whom it helps that a pod isn't expected on a node any more.

use std::sync::Arc;

use super::{add, add_node, assumed, at, failed, scheduler};
use crate::plugins::stock_profile;
use crate::queue::Place;
use crate::scheduler::Scheduler;
use crate::status::Status;
use crate::test_objects::{NeverBinds, PodBuilder, node, pod, uid};
use crate::test_plugins::Fake;

fn heir(cpu: &str) -> PodBuilder {
    let pod = pod("heir").request("cpu", cpu).priority(10);
    pod.tolerate("dock", "Exists", "", "")
}

fn is_tried(scheduler: &Scheduler, name: &str) -> bool {
    let place = scheduler.place(&uid(name));
    matches!(place, Some(Place::Active | Place::Backoff))
}

/// A node with a free core of four. One pod is expected there with all four, and keeps a small one away, but none that
/// is more important. Of the others it alone may use the node `m`.
fn kept_away() -> Scheduler {
    let fake = Fake::new("Berths").set(|fake| {
        fake.reserve = Box::new(|_, pod| match &*pod.key.name {
            "unlucky" => Err(Status::unschedulable("no berth")),
            _ => Ok(()),
        });
    });
    let profile = stock_profile("test", Arc::new(NeverBinds)).evicting_nobody();
    let mut scheduler = scheduler(profile.reserve(Arc::new(fake)));
    add_node(&mut scheduler, "n", "4");
    let tainted = node("m")
        .allocatable("cpu", "4")
        .taint("dock", "", "NoSchedule");
    scheduler.node_applied(&tainted.build(), at(0)).unwrap();
    add(&mut scheduler, pod("runs").request("cpu", "3").on("n"));
    add(&mut scheduler, heir("4").nominated("n").gate("later"));
    add(&mut scheduler, pod("small").request("cpu", "1"));
    add(&mut scheduler, pod("boss").request("cpu", "4").priority(20));
    failed(&mut scheduler, 0);
    failed(&mut scheduler, 0);
    scheduler
}

type Step = fn(&mut Scheduler);

#[test]
fn who_was_kept_away_is_tried_when_the_pod_is_not_expected_any_more() {
    let ways: [(&str, Step, bool); 7] = [
        ("nothing happens", |_| {}, false),
        (
            "its status says so",
            |scheduler| drop(add(scheduler, heir("4").gate("later"))),
            true,
        ),
        (
            "its status names another node",
            |scheduler| drop(add(scheduler, heir("4").nominated("m").gate("later"))),
            true,
        ),
        (
            "it is bound elsewhere",
            |scheduler| drop(add(scheduler, heir("4").on("m"))),
            true,
        ),
        (
            "it is bound there",
            |scheduler| drop(add(scheduler, heir("4").on("n"))),
            false,
        ),
        (
            "it finds another node",
            |scheduler| {
                add(scheduler, heir("4").nominated("n"));
                let placed = assumed(scheduler);
                assert_eq!(placed.node().as_str(), "m");
            },
            true,
        ),
        (
            "it is gone",
            |scheduler| drop(scheduler.pod_deleted(&uid("heir"), at(0))),
            true,
        ),
    ];
    for (what, step, helps) in ways {
        let mut scheduler = kept_away();
        step(&mut scheduler);
        assert_eq!(is_tried(&scheduler, "small"), helps, "{what}");
        assert!(!is_tried(&scheduler, "boss"), "{what}");
    }
}

#[test]
fn a_pod_that_loses_its_room_does_not_bring_itself_back() {
    let mut scheduler = kept_away();
    scheduler.pod_deleted(&uid("heir"), at(0));
    let unlucky = pod("unlucky").request("cpu", "1").nominated("n");
    add(&mut scheduler, unlucky.priority(5).gate("later"));
    while is_tried(&scheduler, "small") {
        failed(&mut scheduler, 0);
    }
    let unlucky = pod("unlucky").request("cpu", "1").nominated("n");
    add(&mut scheduler, unlucky.priority(5));
    let failure = failed(&mut scheduler, 0);
    assert_eq!(failure.pod.key.name.to_string(), "unlucky");
    assert!(is_tried(&scheduler, "small"), "it was refused the room");
    assert!(!is_tried(&scheduler, "unlucky"));
}
