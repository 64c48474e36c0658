//! Pods held at Permit, and what binding tasks and plugins do to each other.

use std::sync::Arc;
use std::time::Duration;

use super::{add, add_node, assumed, at, cpu_taken, failed, reserving, scheduler, stock, waiting};
use crate::event::{Actions, EventKind, EventResource};
use crate::names::NodeName;
use crate::plugin::PermitDecision;
use crate::queue::Place;
use crate::scheduler::{Aftermath, Assumed, Scheduler};
use crate::status::{Code, Reason, Status};
use crate::test_objects::{pod, uid};
use crate::test_plugins::{Fake, Log, profile, taken};
use crate::waiting::PermitState;

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
