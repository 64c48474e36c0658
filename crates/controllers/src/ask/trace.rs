//! The trace of one proxy pod, as the source sees it: what happened when becomes spans as soon as it has ended.
//!
//! Pure: times are arguments, and ids follow from the pod's UID, so that another leader goes on with the same trace.
//! Only what is under way is kept, an entry a target at most. Nothing is decided by it.
//!
//! ```text
//! pod ─┬─ queue   until the first target is asked, or one is chosen without
//!      ├─ ask     a target, until it answers: the target's spans are below it
//!      ├─ choose  from the first answer with a node until a target is chosen
//!      ├─ grant   until the choice is recorded, and the target knows
//!      ├─ bind    until the proxy is bound
//!      └─ start   until the pod runs
//! ```

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::trace::{SpanId, TraceId, TraceParent};
use pilotage_runtime::otlp::{Kind, Span, Value};

/// Nanoseconds since 1970.
type Time = u64;

/// What the span of a pod's whole way is called.
const ROOT: &str = "pod";
/// How an open question ends once another target has the pod.
const NOT_CHOSEN: &str = "not_chosen";
/// How anything ends whose pod is deleted.
const DELETED: &str = "deleted";

/// A target is asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: SpanId,
    at: Time,
}

/// A target was chosen; who is granted the pod binds it next.
#[derive(Clone, Debug)]
struct Chosen {
    node: String,
    at: Time,
    granted: Option<Time>,
}

/// A pod on its way.
#[derive(Clone, Debug)]
pub(super) struct Story {
    uid: String,
    namespace: String,
    name: String,
    trace: TraceId,
    root: SpanId,
    begun: Time,
    /// Nobody was asked yet.
    queued: bool,
    asked: BTreeMap<String, Asked>,
    /// Who could be chosen, and since when somebody could.
    holding: BTreeSet<String>,
    choosable: Option<Time>,
    chosen: Option<Chosen>,
    bound: Option<Bound>,
}

/// Where a pod is bound, and since when, if that is known.
#[derive(Clone, Debug)]
struct Bound {
    node: String,
    at: Option<Time>,
}

/// How far a pod has come, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has no place, or waits there.
    Waits,
    /// It runs, or has run.
    Started(&'static str),
}

/// What a pod says of itself.
pub(super) fn phase_of(pod: &Pod) -> Phase {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    match phase {
        Some("Running") => Phase::Started("running"),
        Some("Succeeded") => Phase::Started("succeeded"),
        Some("Failed") => Phase::Started("failed"),
        _ => Phase::Waits,
    }
}

/// When a pod was bound, by its own word.
fn bound_at(pod: &Pod) -> Option<Time> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions
        .iter()
        .find(|it| it.type_ == "PodScheduled" && it.status == "True")?;
    let time = scheduled.last_transition_time.as_ref()?;
    u64::try_from(time.0.as_nanosecond()).ok()
}

/// The trace of the pod with this UID.
pub(super) fn trace_of(uid: &str) -> TraceId {
    TraceId::of_pod(uid)
}

impl Story {
    /// A pod is seen first. `begun` is its creation as far as that is known; `asked`: another process has asked for it.
    pub(super) fn begin(pod: &Pod, begun: Time, asked: bool) -> Self {
        let meta = &pod.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            trace: trace_of(&uid),
            root: SpanId::of(&[&uid, ROOT]),
            begun,
            queued: !asked && node.is_none(),
            asked: BTreeMap::new(),
            holding: BTreeSet::new(),
            choosable: None,
            chosen: None,
            // Who has bound it was another process.
            bound: node.map(|node| Bound {
                node,
                at: bound_at(pod).map(|at| at.max(begun)),
            }),
            uid,
        }
    }

    /// A child of the root.
    fn child(&self, name: &'static str, start: Time, end: Time, node: Option<&str>) -> Span {
        let of = node.unwrap_or_default();
        let id = SpanId::of(&[&self.uid, name, of, &start.to_string()]);
        let target = node.map(|node| ("pilotage.target", Value::from(node.to_owned())));
        Span {
            trace: self.trace.bytes(),
            id: id.bytes(),
            parent: Some(self.root.bytes()),
            name,
            kind: Kind::Internal,
            start,
            end,
            attributes: target.into_iter().collect(),
            failed: None,
        }
    }

    fn dequeued(&mut self, at: Time) -> Option<Span> {
        let queued = std::mem::take(&mut self.queued);
        queued.then(|| self.child("queue", self.begun, at, None))
    }

    /// A target is asked. The context is for its chaperon.
    pub(super) fn asked(&mut self, node: &str, at: Time) -> (TraceParent, Vec<Span>) {
        let mut spans: Vec<Span> = self
            .answered(node, "asked_again", true, at)
            .into_iter()
            .collect();
        spans.extend(self.dequeued(at));
        let id = SpanId::of(&[&self.uid, "ask", node, &at.to_string()]);
        self.asked.insert(node.to_owned(), Asked { id, at });
        let context = TraceParent {
            trace: self.trace,
            span: id,
            sampled: true,
        };
        (context, spans)
    }

    /// A target has answered so. `failed`: it doesn't take the pod.
    pub(super) fn answered(
        &mut self,
        node: &str,
        answer: &'static str,
        failed: bool,
        at: Time,
    ) -> Option<Span> {
        if failed {
            self.holding.remove(node);
            if self.holding.is_empty() {
                self.choosable = None;
            }
        } else if self.chosen.is_none() && self.bound.is_none() {
            self.holding.insert(node.to_owned());
            self.choosable.get_or_insert(at);
        }
        let asked = self.asked.remove(node)?;
        let mut span = self.child("ask", asked.at, at, Some(node));
        span.id = asked.id.bytes();
        span.kind = Kind::Client;
        span.attributes.push(("pilotage.answer", answer.into()));
        span.failed = failed.then_some(answer);
        Some(span)
    }

    /// A cycle has chosen a target.
    pub(super) fn chosen(&mut self, node: &str, at: Time) -> Vec<Span> {
        let mut spans: Vec<Span> = self.dequeued(at).into_iter().collect();
        let since = self.choosable.take();
        self.holding.clear();
        spans.extend(since.map(|since| self.child("choose", since, at, Some(node))));
        let node = node.to_owned();
        self.chosen = Some(Chosen {
            node,
            at,
            granted: None,
        });
        spans
    }

    /// The chosen target knows that it is.
    pub(super) fn granted(&mut self, node: &str, at: Time) -> Option<Span> {
        let chosen = self.chosen.as_mut();
        let chosen = chosen.filter(|chosen| chosen.node == node && chosen.granted.is_none())?;
        chosen.granted = Some(at);
        let since = chosen.at;
        Some(self.child("grant", since, at, Some(node)))
    }

    /// The choice led nowhere, for this reason in a word.
    pub(super) fn released(&mut self, why: &'static str, at: Time) -> Option<Span> {
        let Chosen {
            node,
            at: chosen,
            granted,
        } = self.chosen.take()?;
        let (name, since) = granted.map_or(("grant", chosen), |granted| ("bind", granted));
        let mut span = self.child(name, since, at, Some(&node));
        span.failed = Some(why);
        Some(span)
    }

    /// The proxy is bound.
    pub(super) fn bound(&mut self, node: &str, at: Time) -> Vec<Span> {
        if self.bound.is_some() {
            return Vec::new();
        }
        self.bound = Some(Bound {
            node: node.to_owned(),
            at: Some(at),
        });
        let mut spans: Vec<Span> = Vec::new();
        if let Some(chosen) = self.chosen.take() {
            // A grant may have arrived without an answer: then nobody knows where it ends and the binding begins.
            let (name, since) = match chosen.granted {
                Some(granted) => ("bind", granted),
                None => ("grant", chosen.at),
            };
            let mut span = self.child(name, since, at, Some(&chosen.node));
            span.failed = (chosen.node != node).then_some(NOT_CHOSEN);
            spans.push(span);
        }
        spans.extend(self.dequeued(at));
        spans.extend(self.unanswered(NOT_CHOSEN, at));
        spans
    }

    /// Questions that nobody waits for any more.
    fn unanswered(&mut self, why: &'static str, at: Time) -> Vec<Span> {
        let nodes: Vec<String> = self.asked.keys().cloned().collect();
        let spans = nodes
            .iter()
            .filter_map(|node| self.answered(node, why, true, at));
        spans.collect()
    }

    /// The pod runs, or has run: the end of its trace.
    pub(super) fn started(mut self, how: &'static str, at: Time) -> Vec<Span> {
        let mut spans = self.unanswered(NOT_CHOSEN, at);
        spans.extend(self.start(at));
        let failed = (how == "failed").then_some(how);
        spans.push(self.whole(how, failed, at));
        spans
    }

    /// The pod is gone, and never ran: the end of its trace.
    pub(super) fn gone(mut self, at: Time) -> Vec<Span> {
        let mut spans: Vec<Span> = self.released(DELETED, at).into_iter().collect();
        spans.extend(self.dequeued(at));
        spans.extend(self.unanswered(DELETED, at));
        spans.extend(self.start(at).map(|start| Span {
            failed: Some(DELETED),
            ..start
        }));
        spans.push(self.whole(DELETED, Some(DELETED), at));
        spans
    }

    /// From the binding until now.
    fn start(&self, at: Time) -> Option<Span> {
        let Bound { node, at: since } = self.bound.as_ref()?;
        // The API server's clock isn't this process's.
        let since = (*since)?.min(at);
        Some(self.child("start", since, at, Some(node)))
    }

    fn whole(self, outcome: &'static str, failed: Option<&'static str>, at: Time) -> Span {
        let node = self.bound.as_ref().map(|bound| bound.node.as_str());
        let mut span = self.child(ROOT, self.begun, at, node);
        span.id = self.root.bytes();
        span.parent = None;
        span.attributes.extend([
            ("k8s.pod.uid", self.uid.into()),
            ("k8s.pod.name", self.name.into()),
            ("k8s.namespace.name", self.namespace.into()),
            ("pilotage.outcome", outcome.into()),
        ]);
        span.failed = failed;
        span
    }
}

#[cfg(test)]
mod tests {
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
}
