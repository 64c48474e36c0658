//! What the watches show while a pod is queued, tried or bound.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{add, add_node, assumed, at, failed, next, scheduler, stock};
use crate::event::{Actions, EventKind, EventResource};
use crate::names::NodeName;
use crate::queue::Place;
use crate::scheduler::{Aftermath, PodChange};
use crate::status::Status;
use crate::test_objects::{PodBuilder, node, pod, pods_with, uid};
use crate::test_plugins::{Fake, profile};

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
    assert!(failure.event().is_none() && failure.status().is_none());
    assert_eq!(
        scheduler.nodes().iter().next().unwrap().pods().len(),
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
    assert_eq!(scheduler.nodes().iter().next().unwrap().pods().len(), 1);

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
fn the_room_of_a_pod_that_was_bound_elsewhere_is_free() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("p").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    scheduler.start_binding(&uid("p")).unwrap();
    add(&mut scheduler, pod("waits").request("cpu", "2"));
    failed(&mut scheduler, 0);
    assert_eq!(scheduler.place(&uid("waits")), Some(Place::Unschedulable));
    let elsewhere = pod("p").request("cpu", "3").on("elsewhere");
    let from = NodeName::from("n");
    assert_eq!(
        add(&mut scheduler, elsewhere),
        PodChange::Moved { from: from.clone() }
    );
    assert_eq!(scheduler.place(&uid("waits")), Some(Place::Backoff));
    let failure = scheduler.binding_failed(placed, Status::error("conflict"), at(0));
    assert_eq!(failure.aftermath, Aftermath::Bound);
    let placed = assumed(&mut scheduler);
    assert_eq!((placed.uid(), placed.node()), (&uid("waits"), &from));
    scheduler.bound(placed, at(0));
}

#[test]
fn what_changed_of_a_pod_while_it_was_bound_is_news_when_it_is_confirmed() {
    const HOST: &str = "kubernetes.io/hostname";
    type Make = fn() -> PodBuilder;
    // The pod before and after, and who waits for the change.
    let cases: [[Make; 3]; 2] = [
        [
            || pod("p").request("cpu", "3"),
            || pod("p").request("cpu", "1"),
            || pod("waits").request("cpu", "2"),
        ],
        [
            || pod("p").label("app", "web"),
            || pod("p").label("app", "db"),
            || pod("waits").away_from(pods_with(HOST, &[("app", "web")])),
        ],
    ];
    for [before, after, waits] in cases {
        let mut scheduler = stock();
        let node = node("n").label(HOST, "n").allocatable("cpu", "4");
        scheduler.node_applied(&node.build(), at(0)).unwrap();
        add(&mut scheduler, before());
        let placed = assumed(&mut scheduler);
        scheduler.start_binding(&uid("p")).unwrap();
        add(&mut scheduler, waits());
        failed(&mut scheduler, 0);
        assert_eq!(add(&mut scheduler, after()), PodChange::Trying);
        let place = scheduler.place(&uid("waits"));
        assert_eq!(place, Some(Place::Unschedulable), "it counts as it was");
        let confirmed = add(&mut scheduler, after().on("n"));
        assert_eq!(confirmed, PodChange::Confirmed);
        assert_eq!(scheduler.place(&uid("waits")), Some(Place::Backoff));
        scheduler.bound(placed, at(0));
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
    let nodes = scheduler.nodes();
    assert_eq!(nodes.len(), 1);
    let names = nodes
        .iter()
        .next()
        .unwrap()
        .row()
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
