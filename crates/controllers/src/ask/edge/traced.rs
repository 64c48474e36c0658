//! What the edge tells of its pods' traces, if they are exported: the rules are in [`crate::ask::trace`]. Only the
//! leader looks at pods, so that nobody else has a story.

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::trace::TraceParent;
use pilotage_proxy::{Action, Outcome, ProxyView, Reaction, RefusalKind};
use pilotage_runtime::otlp::{self, Span, Tracer};

use super::Edge;
use crate::ask::trace::{Phase, Story, phase_of, trace_of};

/// The API server writes whole seconds.
const A_SECOND: u64 = 1_000_000_000;

/// What is traced of a pod.
#[derive(Debug, Default)]
pub(super) enum Traced {
    /// It hasn't been looked at yet.
    #[default]
    Unseen,
    /// It is on its way.
    Open(Box<Story>),
    /// Nothing, or all of it has been told.
    No,
}

/// An answer in a word, and whether the target doesn't take the pod.
fn word(answer: Reaction) -> (&'static str, bool) {
    match answer {
        Reaction::Reserved => ("reserved", false),
        Reaction::Evicts => ("evicts", false),
        Reaction::Bound => ("bound", false),
        Reaction::Missing => ("missing", true),
        Reaction::Refused(kind) => (kind.word(), true),
    }
}

/// Whether a pod has a way to trace: a question only has none.
fn is_on_its_way(view: &ProxyView, phase: Phase) -> bool {
    phase == Phase::Waits && !view.what_if
}

/// When a pod was created, as far as that is known: who is seen within its second is new.
fn begun(pod: &Pod, now: u64) -> u64 {
    let created = pod.metadata.creation_timestamp.as_ref();
    let created = created.and_then(|created| u64::try_from(created.0.as_nanosecond()).ok());
    created
        .filter(|created| now.saturating_sub(*created) > A_SECOND)
        .map_or(now, |created| created.min(now))
}

fn send(tracer: &Tracer, spans: impl IntoIterator<Item = Span>) {
    spans.into_iter().for_each(|span| tracer.send(span));
}

impl Edge {
    /// Something has happened to a pod whose story is open.
    fn tell<S: IntoIterator<Item = Span>>(
        &mut self,
        uid: &str,
        happened: impl FnOnce(&mut Story, u64) -> S,
    ) {
        if let Some(tracer) = &self.parts.tracer
            && let Some(proxy) = self.proxies.get_mut(uid)
            && let Traced::Open(story) = &mut proxy.traced
        {
            send(tracer, happened(story, otlp::now()));
        }
    }

    /// A pod is looked at: how far it is by now.
    pub(super) fn trace_look(&mut self, uid: &str) {
        let (Some(tracer), Some(view)) = (&self.parts.tracer, self.book.proxy(uid)) else {
            return;
        };
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let phase = phase_of(&proxy.pod);
        if matches!(proxy.traced, Traced::Unseen) {
            let takes = is_on_its_way(view, phase) && tracer.takes(trace_of(uid).bytes());
            proxy.traced = if takes {
                let asked = !self.book.chaperons(uid).is_empty();
                let story = Story::begin(&proxy.pod, begun(&proxy.pod, otlp::now()), asked);
                Traced::Open(Box::new(story))
            } else {
                Traced::No
            };
        }
        let Traced::Open(story) = &mut proxy.traced else {
            return;
        };
        if let Some(node) = &view.node_name {
            send(tracer, story.bound(node, otlp::now()));
        }
        if let Phase::Started(how) = phase
            && let Traced::Open(story) = std::mem::replace(&mut proxy.traced, Traced::No)
        {
            send(tracer, story.started(how, otlp::now()));
        }
    }

    /// A target is asked: the context that its chaperon carries, if the pod is traced.
    pub(super) fn trace_ask(&mut self, uid: &str, node: &str) -> Option<TraceParent> {
        let mut context = None;
        self.tell(uid, |story, now| {
            let (asked, spans) = story.asked(node, now);
            context = Some(asked);
            spans
        });
        context
    }

    /// A target has answered.
    pub(super) fn trace_answer(&mut self, uid: &str, node: &str, answer: Reaction) {
        let (word, failed) = word(answer);
        self.tell(uid, |story, now| story.answered(node, word, failed, now));
    }

    /// A target is lost, and with it the answers that pods wait for.
    pub(super) fn trace_lost(&mut self, node: &str) {
        if self.parts.tracer.is_some() {
            for uid in self.book.concerned(node) {
                self.tell(&uid, |story, now| story.answered(node, "lost", true, now));
            }
        }
    }

    /// A request of ours has ended.
    pub(super) fn trace_ended(&mut self, uid: &str, action: &Action, outcome: &Outcome) {
        match (action, outcome) {
            (Action::Ask { node }, Outcome::Refused(_)) => {
                self.trace_answer(uid, node, Reaction::Refused(RefusalKind::NotAsked));
            }
            (Action::Ask { node }, Outcome::Unknown(_)) => {
                self.tell(uid, |story, now| story.answered(node, "failed", true, now));
            }
            (Action::Grant { node, .. }, Outcome::Done) => {
                self.tell(uid, |story, now| story.granted(node, now));
            }
            _ => {}
        }
    }

    /// A cycle has chosen a target.
    pub(super) fn trace_choice(&mut self, uid: &str, node: &str) {
        self.tell(uid, |story, now| story.chosen(node, now));
    }

    /// The choice led nowhere.
    pub(super) fn trace_released(&mut self, uid: &str, why: &'static str) {
        self.tell(uid, |story, now| story.released(why, now));
    }

    /// A pod is gone.
    pub(super) fn trace_gone(&self, traced: Traced) {
        if let (Some(tracer), Traced::Open(story)) = (&self.parts.tracer, traced) {
            send(tracer, story.gone(otlp::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::keys;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_only_is_not_traced() {
        let view = |annotations: serde_json::Value| {
            let pod = json!({
                "metadata": {
                    "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": "1", "annotations": annotations,
                },
                "spec": { "containers": [] },
            });
            ProxyView::of(&serde_json::from_value(pod).unwrap()).unwrap()
        };
        let (pod, question) = (view(json!({})), view(json!({ keys::WHAT_IF: "true" })));
        assert!(is_on_its_way(&pod, Phase::Waits));
        assert!(!is_on_its_way(&question, Phase::Waits));
        assert!(!is_on_its_way(&pod, Phase::Started("running")));
    }

    #[test]
    fn a_pod_that_is_seen_within_its_second_is_new() {
        let pod = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let created = 1_767_225_600 * A_SECOND;
        for (now, want) in [
            (created + A_SECOND / 2, created + A_SECOND / 2),
            (created + 3 * A_SECOND, created),
            // Our clock is behind.
            (created - 1, created - 1),
        ] {
            assert_eq!(begun(&pod, now), want, "{now}");
        }
        assert_eq!(begun(&Pod::default(), 7), 7);
    }
}
