//! Pods held at Permit, and what binding tasks and plugins do to each other.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::{add, add_node, assumed, at, cpu_taken, failed, reserving, scheduler, stock, waiting};
use crate::event::{Actions, EventKind, EventResource};
use crate::names::NodeName;
use crate::plugin::PermitDecision;
use crate::plugins::stock_profile;
use crate::queue::Place;
use crate::scheduler::{Aftermath, Assumed, Attempt, Rechecked, Scheduler};
use crate::status::{Code, Reason, Status};
use crate::test_objects::{NeverBinds, node, pod, pods_with, selecting, uid};
use crate::test_plugins::{Fake, Log, profile, taken};
use crate::tie::FirstOfEquals;
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
fn a_waiting_pod_that_begins_to_be_deleted_leaves_its_room() {
    let (mut scheduler, placed) = held(&Log::default());
    add(&mut scheduler, pod("p").request("cpu", "1").deleting());
    assert_eq!(scheduler.take_resolved(), [uid("p")]);
    let status = scheduler.start_binding(&uid("p")).unwrap_err();
    scheduler.binding_failed(placed, status, at(1));
    assert_eq!(cpu_taken(&mut scheduler, "n"), 0);
    scheduler.activate(&uid("p"));
    let attempt = scheduler.schedule_next(at(1), &mut FirstOfEquals);
    assert!(matches!(attempt, Some(Attempt::Skipped(_))), "{attempt:?}");
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

/// Why a held node isn't good any more.
fn misfit(scheduler: &mut Scheduler, name: &str) -> Status {
    match scheduler.recheck(&uid(name)) {
        Rechecked::Misfit(status) => status,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_recheck_leaves_the_pod_itself_out() {
    let mut scheduler = stock();
    add(&mut scheduler, pod("p").request("cpu", "3"));
    let placed = assumed(&mut scheduler);
    assert!(
        matches!(scheduler.recheck(&uid("p")), Rechecked::Fits),
        "its own room isn't in its way"
    );
    // Another scheduler, which doesn't see the hold, takes the room.
    add(&mut scheduler, pod("thief").request("cpu", "2").on("n"));
    let status = misfit(&mut scheduler, "p");
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
        misfit(&mut scheduler, "p").code(),
        Code::UnschedulableAndUnresolvable
    );
    let _ = scheduler.binding_failed(placed, status, at(0));
    assert_eq!(misfit(&mut scheduler, "p").code(), Code::Error);
}

/// The stock plugins, and one at Permit that holds every pod.
fn holding() -> Scheduler {
    let stock = stock_profile("test", Arc::new(NeverBinds)).evicting_nobody();
    let mut scheduler = scheduler(stock.permit(waiting("Tug", 60)));
    for name in ["n-a", "n-b"] {
        let node = node(name).label("zone", name).allocatable("cpu", "8");
        let node = node.allocatable("memory", "8Gi");
        scheduler.node_applied(&node.build(), at(0)).unwrap();
    }
    scheduler
}

#[test]
fn a_pod_that_is_spread_by_one_that_may_leave_leans_on_it() {
    let mut scheduler = holding();
    for name in ["first", "second", "third"] {
        let evenly = TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "zone".into(),
            when_unsatisfiable: "DoNotSchedule".into(),
            label_selector: Some(selecting(&[("app", "web")])),
            ..TopologySpreadConstraint::default()
        };
        let web = pod(name).label("app", "web").edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            spec.topology_spread_constraints = Some(vec![evenly]);
        });
        add(&mut scheduler, web);
    }
    let placed = [(); 3].map(|()| assumed(&mut scheduler));
    let node_of = |at: usize| placed[at].node().clone();
    assert_ne!(node_of(0), node_of(1));
    // The third shares a zone with one of them.
    let names = ["first", "second"];
    let (near, lone) = if node_of(2) == node_of(0) {
        (0, 1)
    } else {
        (1, 0)
    };
    let fits =
        |scheduler: &mut Scheduler, name| matches!(scheduler.recheck(&uid(name)), Rechecked::Fits);
    assert!(fits(&mut scheduler, "third"), "it would do as the only one");
    assert!(scheduler.allow(&uid("third"), "Tug"));
    assert!(fits(&mut scheduler, names[lone]));
    let alone = scheduler.recheck(&uid(names[near]));
    assert!(matches!(alone, Rechecked::Leans(_)), "{alone:?}");
    // Who is let pass stays.
    assert!(scheduler.allow(&uid(names[lone]), "Tug"));
    assert!(fits(&mut scheduler, names[near]));
}

#[test]
fn a_pod_that_is_near_one_that_may_leave_leans_on_it_and_others_never_do() {
    let mut scheduler = holding();
    add(
        &mut scheduler,
        pod("db").label("app", "db").request("cpu", "7"),
    );
    let database = assumed(&mut scheduler);
    let databases = pods_with("zone", &[("app", "db")]);
    add(&mut scheduler, pod("client").near(databases.clone()));
    add(&mut scheduler, pod("apart").away_from(databases));
    let (client, apart) = (assumed(&mut scheduler), assumed(&mut scheduler));
    assert_eq!(client.node(), database.node());
    assert_ne!(apart.node(), database.node());
    assert!(matches!(
        scheduler.recheck(&uid("client")),
        Rechecked::Leans(_)
    ));
    assert!(matches!(scheduler.recheck(&uid("apart")), Rechecked::Fits));
    // It leaves: the client has nobody to be near.
    let status = Status::unschedulable("lost");
    let _ = scheduler.binding_failed(database, status, at(0));
    let why = misfit(&mut scheduler, "client");
    assert_eq!(why.plugin(), Some("InterPodAffinity"));
}
