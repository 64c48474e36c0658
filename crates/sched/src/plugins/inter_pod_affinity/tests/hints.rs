//! Which events help.

use std::sync::Arc;

use super::super::InterPodAffinity;
use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::node_object::NodeObject;
use crate::plugin::EnqueueExtensions;
use crate::pod_info::PodInfo;
use crate::test_objects::{PodBuilder, node, pod, pods_with, selecting};

fn app(name: &str, app: &str) -> PodBuilder {
    pod(name).label("app", app)
}

fn hint(pod: &PodInfo, event: &Event) -> Hint {
    let plugin = InterPodAffinity::default();
    let is_covered = |kind: &EventKind| kind.covers(event.kind);
    assert!(plugin.events().iter().any(is_covered), "{event}");
    plugin.hint(pod, event)
}

fn came(other: PodBuilder) -> Event {
    let other = Some(other.info());
    Event::pod(EventResource::AssignedPod, Actions::ADD, None, other)
}

fn went(other: PodBuilder) -> Event {
    let other = Some(other.info());
    Event::pod(EventResource::AssignedPod, Actions::DELETE, other, None)
}

fn changed(old: PodBuilder, new: PodBuilder) -> Event {
    let action = Actions::UPDATE_POD_LABEL;
    Event::pod(
        EventResource::AssignedPod,
        action,
        Some(old.info()),
        Some(new.info()),
    )
}

#[test]
fn events_that_cannot_help_are_nobody_s_business() {
    let events = InterPodAffinity::default().events();
    for (resource, action, covered) in [
        (EventResource::AssignedPod, Actions::ADD, true),
        (EventResource::AssignedPod, Actions::UPDATE_POD_LABEL, true),
        (EventResource::AssignedPod, Actions::DELETE, true),
        (EventResource::TargetPod, Actions::UPDATE_POD_LABEL, true),
        (EventResource::UnscheduledPod, Actions::DELETE, true),
        (EventResource::Pod, Actions::UPDATE_POD_SCALE_DOWN, false),
        (EventResource::Node, Actions::ADD, true),
        (EventResource::Node, Actions::UPDATE_NODE_LABEL, true),
        (EventResource::Node, Actions::UPDATE_NODE_TAINT, false),
        (EventResource::Node, Actions::DELETE, true),
    ] {
        let happened = EventKind::new(resource, action);
        let is_covered = events.iter().any(|kind| kind.covers(happened));
        assert_eq!(is_covered, covered, "{happened:?}");
    }
}

#[test]
fn pods_that_come_change_and_go() {
    let near = app("p", "web").near(pods_with("zone", &[("app", "db")]));
    let near = near.near(pods_with("rack", &[("tier", "back")])).info();
    let away = app("p", "web").away_from(pods_with("zone", &[("app", "db")]));
    let away = away
        .away_from(pods_with("rack", &[("tier", "back")]))
        .info();
    let plain = app("p", "web").info();
    let kin = app("p", "db").label("tier", "back");
    let kin = kin.near(pods_with("zone", &[("app", "db")]));
    let kin = kin.near(pods_with("rack", &[("tier", "back")])).info();
    let db = || app("db", "db").on("n");
    let both = || db().label("tier", "back");
    let keeper = || db().away_from(pods_with("zone", &[("app", "web")]));
    for (what, pod, event, hint_is) in [
        ("one for all terms came", &near, came(both()), Hint::Queue),
        ("one for one term", &near, came(db()), Hint::Skip),
        ("nobody is waited for", &plain, came(both()), Hint::Skip),
        ("another one to avoid", &away, came(both()), Hint::Skip),
        (
            "became one for all",
            &near,
            changed(db(), both()),
            Hint::Queue,
        ),
        (
            "was one already",
            &near,
            changed(both(), both()),
            Hint::Skip,
        ),
        ("is none any more", &near, changed(both(), db()), Hint::Skip),
        (
            "isn't to be avoided any more",
            &away,
            changed(both(), db()),
            Hint::Queue,
        ),
        ("is now", &away, changed(db(), both()), Hint::Skip),
        (
            "one to avoid for all terms went",
            &away,
            went(both()),
            Hint::Queue,
        ),
        ("one for one term only", &away, went(db()), Hint::Queue),
        ("one that kept it away", &plain, went(keeper()), Hint::Queue),
        ("one that kept others away", &near, went(db()), Hint::Skip),
        ("one it was near", &near, went(both()), Hint::Skip),
        (
            "maybe the last of its kind",
            &kin,
            went(both()),
            Hint::Queue,
        ),
        ("none of its kind", &kin, went(db()), Hint::Skip),
        (
            "is of its kind no more",
            &kin,
            changed(both(), db()),
            Hint::Queue,
        ),
        (
            "is of its kind still",
            &kin,
            changed(both(), both()),
            Hint::Skip,
        ),
        (
            "an assumed one to avoid, whose binding failed",
            &away,
            went(app("db", "db")),
            Hint::Queue,
        ),
    ] {
        assert_eq!(hint(pod, &event), hint_is, "{what}");
    }
    let unplaced = || app("db", "db").label("tier", "back");
    let nominated = || unplaced().nominated("n");
    let unscheduled = |action, old: Option<PodBuilder>, new: Option<PodBuilder>| {
        let info = |pod: PodBuilder| pod.info();
        Event::pod(
            EventResource::UnscheduledPod,
            action,
            old.map(info),
            new.map(info),
        )
    };
    for (what, pod, event, hint_is) in [
        (
            "it is nowhere",
            &near,
            unscheduled(Actions::ADD, None, Some(unplaced())),
            Hint::Skip,
        ),
        (
            "it is expected",
            &near,
            unscheduled(Actions::ADD, None, Some(nominated())),
            Hint::Queue,
        ),
        (
            "it was nowhere",
            &away,
            unscheduled(Actions::DELETE, Some(unplaced()), None),
            Hint::Skip,
        ),
        (
            "it was expected",
            &away,
            unscheduled(Actions::DELETE, Some(nominated()), None),
            Hint::Queue,
        ),
    ] {
        assert_eq!(hint(pod, &event), hint_is, "{what}");
    }
}

#[test]
fn the_pod_s_own_labels() {
    let pod = app("p", "web").info();
    let with_labels = |name: &str| {
        let (old, new) = (app(name, "web").info(), app(name, "api").info());
        let action = Actions::UPDATE_POD_LABEL;
        Event::pod(EventResource::TargetPod, action, Some(old), Some(new))
    };
    assert_eq!(hint(&pod, &with_labels("p")), Hint::Queue);
    assert_eq!(hint(&pod, &with_labels("q")), Hint::Skip);
}

#[test]
fn a_selector_may_select_any_namespace() {
    let selecting_all = |selector| {
        let mut term = pods_with("zone", &[("app", "db")]);
        term.namespace_selector = Some(selecting(selector));
        pod("p").near(term).info()
    };
    let event = came(app("db", "db").on("n").namespace("shop"));
    assert_eq!(hint(&selecting_all(&[]), &event), Hint::Queue);
    assert_eq!(hint(&selecting_all(&[("team", "x")]), &event), Hint::Queue);
    let other = came(app("web", "web").on("n").namespace("shop"));
    assert_eq!(hint(&selecting_all(&[("team", "x")]), &other), Hint::Skip);
}

#[test]
fn nodes_that_come_and_change() {
    let at = |labels: &[(&str, &str)]| -> Arc<NodeObject> {
        let labels = labels.iter();
        labels
            .fold(node("n"), |node, (key, value)| node.label(key, value))
            .object()
    };
    let plain = pod("p").info();
    let near = pod("p").near(pods_with("zone", &[])).info();
    let away = pod("p").away_from(pods_with("zone", &[])).info();
    let came = |labels: &[(&str, &str)]| Event::node(Actions::ADD, None, Some(at(labels)));
    let changed = |old: &[(&str, &str)], new: &[(&str, &str)]| {
        Event::node(Actions::UPDATE_NODE_LABEL, Some(at(old)), Some(at(new)))
    };
    let (none, a, b) = (&[][..], &[("zone", "a")][..], &[("zone", "b")][..]);
    for (what, pod, event, hint_is) in [
        (
            "came, away from who keeps it away",
            &plain,
            came(a),
            Hint::Queue,
        ),
        ("came with a place", &near, came(a), Hint::Queue),
        ("came without", &near, came(none), Hint::Skip),
        ("any is away from others", &away, came(none), Hint::Queue),
        ("got a place", &near, changed(none, a), Hint::Queue),
        ("got another one", &near, changed(a, b), Hint::Queue),
        (
            "left who kept it away",
            &near,
            changed(a, none),
            Hint::Queue,
        ),
        ("kept it", &near, changed(a, a), Hint::Skip),
        ("got a place", &away, changed(none, a), Hint::Skip),
        ("got another one", &away, changed(a, b), Hint::Queue),
        ("lost it", &away, changed(a, none), Hint::Queue),
        ("kept it", &away, changed(a, a), Hint::Skip),
        ("left who kept it away", &plain, changed(a, b), Hint::Queue),
        ("got a place", &plain, changed(none, a), Hint::Skip),
    ] {
        assert_eq!(hint(pod, &event), hint_is, "{what} {event}");
    }
}
