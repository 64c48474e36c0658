//! Which events bring a waiting pod back.

use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::{Cluster, HARD, SOFT, constraint, in_zone, open, spread, web};
use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, HintReads};
use crate::plugins::{DefaultConstraint, PodTopologySpread, SpreadArgs, SpreadDefaults};
use crate::pod_info::PodInfo;
use crate::taints::Comparison;
use crate::test_objects::{NodeBuilder, PodBuilder, node, pod};
use crate::topology_spread::{SpreadRule, WhenUnsatisfiable};

const ASSIGNED: EventResource = EventResource::AssignedPod;

fn waiting() -> Arc<PodInfo> {
    let both = vec![
        constraint(HARD, "zone", 1),
        constraint(HARD, "rack", 1),
        constraint(SOFT, "disk", 1),
    ];
    spread(web("waiting"), both).info()
}

fn queued(pod: &PodInfo, event: &Event) -> bool {
    let plugin = PodTopologySpread::default();
    let covers = |kind: &EventKind| kind.covers(event.kind);
    assert!(plugin.events().iter().any(covers), "{event}");
    plugin.hint(pod, event) == Hint::Queue
}

#[test]
fn which_events_are_looked_at() {
    let events = PodTopologySpread::default().events();
    let looked_at = |resource, action| {
        let kind = EventKind::new(resource, action);
        events.iter().any(|it| it.covers(kind))
    };
    for resource in [
        ASSIGNED,
        EventResource::UnscheduledPod,
        EventResource::TargetPod,
    ] {
        for action in [
            Actions::ADD,
            Actions::DELETE,
            Actions::UPDATE_POD_LABEL,
            Actions::UPDATE_POD_TOLERATION,
        ] {
            assert!(looked_at(resource, action));
        }
        assert!(!looked_at(resource, Actions::UPDATE_POD_SCALE_DOWN));
    }
    for action in [
        Actions::ADD,
        Actions::DELETE,
        Actions::UPDATE_NODE_LABEL,
        Actions::UPDATE_NODE_TAINT,
    ] {
        assert!(looked_at(EventResource::Node, action));
    }
    assert!(!looked_at(
        EventResource::Node,
        Actions::UPDATE_NODE_ALLOCATABLE
    ));
}

#[test]
fn pods_that_come_and_go() {
    let elsewhere =
        |pod: PodBuilder| pod.edit(|pod| pod.metadata.namespace = Some("elsewhere".to_owned()));
    let unscheduled = EventResource::UnscheduledPod;
    for (what, resource, other, expected) in [
        ("it counts", ASSIGNED, web("o").on("n"), true),
        ("it is assumed to be there", ASSIGNED, web("o"), true),
        (
            "it is expected there",
            unscheduled,
            web("o").nominated("n"),
            true,
        ),
        ("it has no node", unscheduled, web("o"), false),
        ("other labels", ASSIGNED, pod("o").on("n"), false),
        (
            "another namespace",
            ASSIGNED,
            elsewhere(web("o").on("n")),
            false,
        ),
    ] {
        let other = other.info();
        let came = Event::pod(resource, Actions::ADD, None, Some(other.clone()));
        let went = Event::pod(resource, Actions::DELETE, Some(other), None);
        assert_eq!(queued(&waiting(), &came), expected, "{what}");
        assert_eq!(queued(&waiting(), &went), expected, "{what}");
    }
}

#[test]
fn pods_that_change_their_labels() {
    let update = |resource, old: PodBuilder, new: PodBuilder| {
        let (old, new) = (Some(old.info()), Some(new.info()));
        Event::pod(resource, Actions::UPDATE_POD_LABEL, old, new)
    };
    let there = |pod: PodBuilder| pod.on("n");
    for (old, new, expected) in [
        (there(web("o")), there(pod("o")), true),
        (there(pod("o")), there(web("o")), true),
        (there(web("o")), there(web("o").label("k", "v")), false),
        (there(pod("o")), there(pod("o").label("k", "v")), false),
        (there(web("o")), there(web("o")), false),
    ] {
        assert_eq!(queued(&waiting(), &update(ASSIGNED, old, new)), expected);
    }
    let nowhere = update(EventResource::UnscheduledPod, web("o"), pod("o"));
    assert!(!queued(&waiting(), &nowhere));
}

#[test]
fn the_waiting_pod_changes_itself() {
    let target = EventResource::TargetPod;
    let given = |policy: Option<&str>| TopologySpreadConstraint {
        node_taints_policy: policy.map(str::to_owned),
        ..constraint(HARD, "zone", 1)
    };
    for (policy, expected) in [(None, false), (Some("Honor"), true)] {
        let pod = || spread(web("waiting"), vec![given(policy)]);
        let tolerant = || pod().tolerate("t", "Exists", "", "");
        let (old, new) = (pod().info(), tolerant().info());
        let event = Event::pod(
            target,
            Actions::UPDATE_POD_TOLERATION,
            Some(old),
            Some(new.clone()),
        );
        assert_eq!(queued(&new, &event), expected, "{policy:?}");
        let (old, new) = (pod().on("n").uid("other"), tolerant().on("n").uid("other"));
        let action = Actions::UPDATE_POD_TOLERATION;
        let event = Event::pod(ASSIGNED, action, Some(old.info()), Some(new.info()));
        assert!(!queued(&pod().info(), &event), "another pod's don't matter");
    }
    let old = spread(pod("waiting"), vec![given(None)]).info();
    let new = spread(web("waiting"), vec![given(None)]).info();
    let event = Event::pod(
        target,
        Actions::UPDATE_POD_LABEL,
        Some(old),
        Some(new.clone()),
    );
    assert!(queued(&new, &event), "it counts itself from now on");
}

#[test]
fn nodes_that_come_go_and_change() {
    let whole = |name: &str| in_zone(name, "x").label("rack", "1");
    let event = |action, old: Option<NodeBuilder>, new: Option<NodeBuilder>| {
        Event::node(
            action,
            old.map(NodeBuilder::object),
            new.map(NodeBuilder::object),
        )
    };
    let (label, taint) = (Actions::UPDATE_NODE_LABEL, Actions::UPDATE_NODE_TAINT);
    for (what, event, expected) in [
        (
            "a whole one",
            event(Actions::ADD, None, Some(whole("n"))),
            true,
        ),
        (
            "no rack",
            event(Actions::ADD, None, Some(in_zone("n", "x"))),
            false,
        ),
        (
            "it goes",
            event(Actions::DELETE, Some(whole("n")), None),
            true,
        ),
        (
            "without",
            event(Actions::DELETE, Some(node("n")), None),
            false,
        ),
        (
            "it gets its rack",
            event(label, Some(in_zone("n", "x")), Some(whole("n"))),
            true,
        ),
        (
            "it loses its rack",
            event(label, Some(whole("n")), Some(in_zone("n", "x"))),
            true,
        ),
        (
            "another rack",
            event(label, Some(whole("n")), Some(whole("n").label("rack", "2"))),
            true,
        ),
        (
            "another label",
            event(
                label,
                Some(whole("n")),
                Some(whole("n").label("disk", "ssd")),
            ),
            false,
        ),
        (
            "a taint",
            event(
                taint,
                Some(whole("n")),
                Some(whole("n").taint("t", "", "NoSchedule")),
            ),
            true,
        ),
        (
            "a taint where nobody counts",
            event(
                taint,
                Some(node("n")),
                Some(node("n").taint("t", "", "NoSchedule")),
            ),
            false,
        ),
        (
            "a cordon",
            event(taint, Some(whole("n")), Some(whole("n").unschedulable())),
            false,
        ),
    ] {
        assert_eq!(queued(&waiting(), &event), expected, "{what}");
    }
}

#[test]
fn a_node_that_counts_no_more_makes_room_elsewhere() {
    let on = |name: &str, zone: &str, disk: &str| in_zone(name, zone).label("disk", disk);
    let given = |policy: Option<&str>| TopologySpreadConstraint {
        node_affinity_policy: policy.map(str::to_owned),
        ..constraint(HARD, "zone", 1)
    };
    let waiting = |policy: Option<&str>| {
        let pod = web("waiting").node_selector("disk", "ssd");
        spread(pod, vec![given(policy)]).info()
    };
    let (old, new) = (on("y1", "y", "ssd"), on("y1", "y", "hdd"));
    let mut cluster = Cluster::with(vec![(on("x1", "x", "ssd"), 1), (on("y1", "y", "ssd"), 0)]);
    assert_eq!(open(&cluster, &waiting(None)), [false, true]);
    cluster.table.set_node(on("y1", "y", "hdd").object());
    assert_eq!(
        open(&cluster, &waiting(None)),
        [true, true],
        "of y1 NodeAffinity has its say"
    );

    let label = Actions::UPDATE_NODE_LABEL;
    let (old, new) = (Some(old.object()), Some(new.object()));
    let leaves = Event::node(label, old.clone(), new.clone());
    let comes = Event::node(label, new.clone(), old.clone());
    for (policy, expected) in [(None, true), (Some("Honor"), true), (Some("Ignore"), false)] {
        assert_eq!(queued(&waiting(policy), &leaves), expected, "{policy:?}");
        assert_eq!(queued(&waiting(policy), &comes), expected, "{policy:?}");
    }
    let anywhere = spread(web("waiting"), vec![given(None)]).info();
    assert!(
        !queued(&anywhere, &leaves),
        "it counts for who goes anywhere"
    );
    let without = |disk: &str| Some(node("y1").label("disk", disk).object());
    let never_counted = Event::node(label, without("ssd"), without("hdd"));
    assert!(!queued(&waiting(None), &never_counted));
}

#[test]
fn of_pods_that_a_default_constraint_holds_up_more_is_said_than_needed() {
    let list = vec![DefaultConstraint {
        rule: SpreadRule::new("zone", 1),
        when: WhenUnsatisfiable::DoNotSchedule,
    }];
    let args = SpreadArgs {
        defaults: SpreadDefaults::List(list),
    };
    let plugin = PodTopologySpread::new(args, Comparison::Off).unwrap();
    let reads = PodTopologySpread::default().hint_reads();
    assert_eq!(
        (plugin.hint_reads(), reads),
        (HintReads::Pod, HintReads::Needs)
    );
    let (alone, own) = (web("p").info(), waiting());
    let came = |pod: PodBuilder| Event::pod(ASSIGNED, Actions::ADD, None, Some(pod.info()));
    let db = came(pod("o").on("n"));
    assert_eq!(plugin.hint(&alone, &db), Hint::Queue);
    assert_eq!(plugin.hint(&own, &db), Hint::Skip);
    let unscheduled = EventResource::UnscheduledPod;
    let nodeless = Event::pod(unscheduled, Actions::ADD, None, Some(web("o").info()));
    assert_eq!(plugin.hint(&alone, &nodeless), Hint::Skip);
    let bare = Event::node(Actions::ADD, None, Some(node("n").object()));
    assert_eq!(plugin.hint(&alone, &bare), Hint::Queue);
    assert_eq!(plugin.hint(&own, &bare), Hint::Skip);
}
