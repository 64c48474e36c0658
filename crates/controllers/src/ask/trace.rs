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

#[cfg(test)]
mod tests;

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
