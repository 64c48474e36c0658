//! Stories of pods, and the spans that come of them.

use serde_json::json;

use super::*;

const UID: &str = "6f8e2c0a-9f0b-4c7e-8a39-1d2b7c5e4f60";

fn pod(node: Option<&str>, phase: &str) -> Pod {
    let pod = json!({
        "metadata": { "namespace": "shop", "name": "web", "uid": UID },
        "spec": { "containers": [], "nodeName": node },
        "status": { "phase": phase },
    });
    serde_json::from_value(pod).unwrap()
}

fn story() -> Story {
    Story::begin(&pod(None, "Pending"), 100, false)
}

/// Name, times and failure of each; every parent is the root, and every id another one.
fn told(spans: &[Span]) -> Vec<(&'static str, Time, Time, Option<&'static str>)> {
    let root = SpanId::of(&[UID, ROOT]).bytes();
    let mut ids = std::collections::BTreeSet::new();
    for span in spans {
        assert_eq!(span.trace, TraceId::of_pod(UID).bytes());
        assert!(ids.insert(span.id), "{span:?}");
        let is_root = span.name == ROOT;
        assert_eq!(span.parent, (!is_root).then_some(root), "{span:?}");
        assert_eq!(is_root, span.id == root);
    }
    let told = spans
        .iter()
        .map(|span| (span.name, span.start, span.end, span.failed));
    told.collect()
}

/// The value of a text attribute.
fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|(name, _)| *name == key)?;
    match &found.1 {
        Value::Text(text) => Some(text.to_string()),
        Value::Number(_) => None,
    }
}

#[test]
fn a_pod_that_is_placed_at_once() {
    let mut story = story();
    let (context, mut spans) = story.asked("paris", 110);
    spans.extend(story.answered("paris", "reserved", false, 150));
    // It is said again by a later version of the chaperon.
    spans.extend(story.answered("paris", "reserved", false, 155));
    spans.extend(story.chosen("paris", 160));
    spans.extend(story.granted("paris", 180));
    spans.extend(story.granted("paris", 181));
    spans.extend(story.bound("paris", 190));
    spans.extend(story.bound("paris", 195));
    spans.extend(story.started("running", 300));
    assert_eq!(
        told(&spans),
        [
            ("queue", 100, 110, None),
            ("ask", 110, 150, None),
            ("choose", 150, 160, None),
            ("grant", 160, 180, None),
            ("bind", 180, 190, None),
            ("start", 190, 300, None),
            ("pod", 100, 300, None),
        ]
    );
    assert_eq!(context.span.bytes(), spans[1].id);
    assert_eq!((spans[1].kind, context.sampled), (Kind::Client, true));
    let root = spans.last().unwrap();
    for (key, value) in [
        ("k8s.pod.uid", UID),
        ("k8s.pod.name", "web"),
        ("k8s.namespace.name", "shop"),
        ("pilotage.target", "paris"),
        ("pilotage.outcome", "running"),
    ] {
        assert_eq!(attribute(root, key).as_deref(), Some(value), "{key}");
    }
}

#[test]
fn a_grant_whose_answer_is_lost_ends_with_the_binding() {
    let mut story = story();
    let mut spans = story.chosen("paris", 160);
    spans.extend(story.bound("paris", 190));
    assert_eq!(
        told(&spans),
        [("queue", 100, 160, None), ("grant", 160, 190, None)]
    );
}

#[test]
fn nobody_can_be_chosen_once_all_holds_have_expired() {
    let mut story = story();
    for (node, failed, at) in [
        ("paris", false, 110),
        ("rome", false, 115),
        ("paris", true, 120),
    ] {
        story.answered(node, "it says so", failed, at);
    }
    let mut other = story.clone();
    // Rome still holds a node.
    let spans = other.chosen("rome", 130);
    assert_eq!(told(&spans)[1], ("choose", 110, 130, None));
    story.answered("rome", "expired", true, 140);
    story.answered("paris", "reserved", false, 900);
    let spans = story.chosen("paris", 910);
    assert_eq!(told(&spans)[1], ("choose", 900, 910, None));
}

#[test]
fn a_pod_that_one_target_refuses_goes_to_the_next() {
    let mut story = story();
    let (first, mut spans) = story.asked("paris", 110);
    spans.extend(story.answered("paris", "unschedulable", true, 120));
    let (second, more) = story.asked("rome", 121);
    spans.extend(more);
    let (third, more) = story.asked("fra", 122);
    spans.extend(more);
    spans.extend(story.answered("rome", "evicts", false, 130));
    spans.extend(story.chosen("rome", 140));
    spans.extend(story.granted("rome", 150));
    spans.extend(story.bound("rome", 160));
    assert_eq!(
        told(&spans),
        [
            ("queue", 100, 110, None),
            ("ask", 110, 120, Some("unschedulable")),
            ("ask", 121, 130, None),
            ("choose", 130, 140, None),
            ("grant", 140, 150, None),
            ("bind", 150, 160, None),
            ("ask", 122, 160, Some(NOT_CHOSEN)),
        ]
    );
    assert!(first.span != second.span && second.span != third.span);
    assert_eq!(
        attribute(&spans[1], "pilotage.target").as_deref(),
        Some("paris")
    );
}

#[test]
fn a_target_that_is_asked_again_is_two_questions() {
    let mut story = story();
    let (first, _) = story.asked("paris", 110);
    let (second, spans) = story.asked("paris", 115);
    assert_eq!(told(&spans), [("ask", 110, 115, Some("asked_again"))]);
    assert_ne!(first.span, second.span);
}

#[test]
fn a_pod_that_its_target_lets_go_is_granted_anew() {
    let mut story = story();
    let mut spans = story.chosen("paris", 150);
    spans.extend(story.granted("paris", 160));
    spans.extend(story.released("released", 170));
    spans.extend(story.released("released", 171));
    spans.extend(story.granted("paris", 172));
    spans.extend(story.chosen("rome", 180));
    spans.extend(story.released("failed", 190));
    assert_eq!(
        told(&spans),
        [
            ("queue", 100, 150, None),
            ("grant", 150, 160, None),
            ("bind", 160, 170, Some("released")),
            ("grant", 180, 190, Some("failed")),
        ]
    );
}

#[test]
fn a_pod_whose_target_is_lost_is_deleted_unplaced() {
    let mut story = story();
    let (_, mut spans) = story.asked("paris", 110);
    spans.extend(story.answered("paris", "lost", true, 120));
    let (_, more) = story.asked("rome", 125);
    spans.extend(more);
    spans.extend(story.gone(200));
    assert_eq!(
        told(&spans),
        [
            ("queue", 100, 110, None),
            ("ask", 110, 120, Some("lost")),
            ("ask", 125, 200, Some(DELETED)),
            ("pod", 100, 200, Some(DELETED)),
        ]
    );
}

#[test]
fn another_leader_goes_on_with_the_same_trace() {
    let mut before = story();
    let (context, _) = before.asked("paris", 110);
    let mut story = Story::begin(&pod(None, "Pending"), 99, true);
    let mut spans = story.chosen("paris", 160);
    spans.extend(story.granted("paris", 170));
    spans.extend(story.bound("paris", 180));
    spans.extend(story.started("running", 200));
    let names: Vec<_> = told(&spans).iter().map(|span| span.0).collect();
    assert_eq!(names, ["grant", "bind", "start", "pod"]);
    assert_eq!(context.trace.bytes(), spans[0].trace);

    // When it was bound, only the pod may say.
    let silent = Story::begin(&pod(Some("paris"), "Pending"), 99, true);
    assert_eq!(
        told(&silent.started("running", 200)),
        [("pod", 99, 200, None)]
    );
    let mut bound = pod(Some("paris"), "Pending");
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    let condition = serde_json::from_value(condition).unwrap();
    bound.status.as_mut().unwrap().conditions = Some(vec![condition]);
    assert_eq!(bound_at(&bound), Some(0));
    let bound = Story::begin(&bound, 99, true);
    let spans = bound.clone().gone(200);
    let failed = Some(DELETED);
    assert_eq!(
        told(&spans),
        [("start", 99, 200, failed), ("pod", 99, 200, failed)]
    );
    let spans = bound.started("failed", 200);
    assert_eq!(
        told(&spans),
        [("start", 99, 200, None), ("pod", 99, 200, Some("failed"))]
    );
}

#[test]
fn a_pod_says_itself_how_far_it_is() {
    for (phase, want) in [
        ("Pending", Phase::Waits),
        ("Running", Phase::Started("running")),
        ("Succeeded", Phase::Started("succeeded")),
        ("Failed", Phase::Started("failed")),
        ("", Phase::Waits),
    ] {
        assert_eq!(phase_of(&pod(None, phase)), want, "{phase}");
    }
}
