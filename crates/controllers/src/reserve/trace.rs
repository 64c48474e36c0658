//! The trace of one candidate, as the target sees it: each attempt becomes spans as soon as it has ended.
//!
//! Pure: times are arguments, and ids follow from the chaperon's UID and the attempt. Of the source's words nothing
//! gets into a span but names, and which span it belongs under. Nothing is decided by it.
//!
//! ```text
//! (the source's span of its question) ── candidate ─┬─ schedule  until a cycle has found a node, or none
//!                                                   ├─ hold      the node is held for the source
//!                                                   └─ bind      until the pod is bound
//! ```

use pilotage_api::PodChaperon;
use pilotage_api::keys;
use pilotage_api::trace::{SpanId, TraceId, TraceParent};
use pilotage_runtime::otlp::{Kind, Span, Value};

/// Nanoseconds since 1970.
type Time = u64;

/// One attempt of a candidate that is under way.
#[derive(Clone, Debug)]
pub(super) struct Work {
    context: TraceParent,
    chaperon_uid: String,
    namespace: String,
    name: String,
    attempt: u64,
    begun: Time,
    /// What the newest cycle found, and when.
    found: Option<(Option<String>, Time)>,
    held: Option<Time>,
    binds: Option<Time>,
}

/// The context that a chaperon carries. It has to be exported, and of the trace of the pod that the chaperon says it is
/// for; any other text counts as none.
pub(super) fn context_of(chaperon: &PodChaperon) -> Option<TraceParent> {
    let meta = &chaperon.metadata;
    let text = meta.annotations.as_ref()?.get(keys::TRACEPARENT)?;
    let parent = meta.labels.as_ref()?.get(keys::PARENT_UID)?;
    match text.parse::<TraceParent>() {
        Ok(context) if context.trace == TraceId::of_pod(parent) => {
            Some(context).filter(|context| context.sampled)
        }
        Ok(_) => {
            tracing::debug!("a chaperon names another pod's trace: it isn't traced");
            None
        }
        Err(error) => {
            tracing::debug!(%error, "a chaperon's trace can't be read: it isn't traced");
            None
        }
    }
}

impl Work {
    /// An attempt may begin.
    pub(super) fn begin(chaperon: &PodChaperon, context: TraceParent, at: Time) -> Self {
        let meta = &chaperon.metadata;
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key);
        let attempt: u64 = annotation(keys::ATTEMPT)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        // What another process has reserved is still the same attempt.
        let reserved = annotation(keys::IS_RESERVED).is_some_and(|text| text == keys::TRUE);
        Self {
            context,
            chaperon_uid: meta.uid.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            attempt: attempt.saturating_add(u64::from(!reserved)),
            begun: at,
            found: None,
            held: None,
            binds: None,
        }
    }

    fn id(&self, name: &str) -> SpanId {
        SpanId::of(&[&self.chaperon_uid, &self.attempt.to_string(), name])
    }

    fn span(&self, name: &'static str, start: Time, end: Time) -> Span {
        Span {
            trace: self.context.trace.bytes(),
            id: self.id(name).bytes(),
            parent: Some(self.id("candidate").bytes()),
            name,
            kind: Kind::Internal,
            start,
            end,
            attributes: Vec::new(),
            failed: None,
        }
    }

    /// A cycle has found this node, or none.
    pub(super) fn found(&mut self, node: Option<&str>, at: Time) {
        // What is held is looked at again before it is bound.
        if self.held.is_none() {
            self.found = Some((node.map(str::to_owned), at));
        }
    }

    /// The node's binding is asked for.
    pub(super) fn binds(&mut self, at: Time) {
        self.binds.get_or_insert(at);
    }

    /// The source has been told of a node that is held.
    pub(super) fn held(&mut self, attempt: u64, at: Time) -> Option<Span> {
        if self.held.is_some() {
            return None;
        }
        self.attempt = attempt;
        self.held = Some(at);
        Some(self.scheduled(None, at))
    }

    /// Up to what the cycle found, or until now.
    fn scheduled(&self, failed: Option<&'static str>, at: Time) -> Span {
        let (node, end) = self.found.clone().unwrap_or((None, at));
        let mut span = self.span("schedule", self.begun, end);
        let node = node.map(|node| ("k8s.node.name", Value::from(node)));
        span.attributes.extend(node);
        span.failed = failed;
        span
    }

    /// The source has been told that there is no node, or the attempt came to nothing in another way.
    pub(super) fn refused(mut self, attempt: u64, why: &'static str, at: Time) -> Vec<Span> {
        if self.held.is_some() {
            return self.ended(why, false, at);
        }
        self.attempt = attempt;
        let schedule = self.scheduled(Some(why), at);
        vec![schedule, self.whole(why, Some(why), at)]
    }

    /// Nobody waits for it any more.
    pub(super) fn withdrawn(self, at: Time) -> Vec<Span> {
        let attempt = self.attempt;
        self.refused(attempt, "withdrawn", at)
    }

    /// A node that was held is bound, or given back. Another process may have told the source of it, or a write whose
    /// answer is lost: then nobody knows since when it was held.
    pub(super) fn ended(self, end: &'static str, bound: bool, at: Time) -> Vec<Span> {
        if self.held.is_none() && !bound {
            let attempt = self.attempt;
            return self.refused(attempt, end, at);
        }
        let failed = (!bound).then_some(end);
        let bind = self.binds.map(|since| {
            let mut span = self.span("bind", since, at);
            span.failed = failed;
            span
        });
        let first = match self.held {
            Some(held) => self.span("hold", held, self.binds.unwrap_or(at)),
            None => self.scheduled(None, at),
        };
        let mut spans: Vec<Span> = std::iter::once(first).chain(bind).collect();
        spans.push(self.whole(end, failed, at));
        spans
    }

    /// The whole attempt, under the source's question.
    fn whole(self, outcome: &'static str, failed: Option<&'static str>, at: Time) -> Span {
        let mut span = self.span("candidate", self.begun, at);
        span.parent = Some(self.context.span.bytes());
        span.kind = Kind::Server;
        span.attributes.extend([
            ("k8s.pod.name", self.name.into()),
            ("k8s.namespace.name", self.namespace.into()),
            ("pilotage.attempt", self.attempt.into()),
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
    const CONTEXT: &str = "00-6f8e2c0a9f0b4c7e8a391d2b7c5e4f60-00f067aa0ba902b7-01";

    fn chaperon(context: Option<&str>, parent: &str) -> PodChaperon {
        let mut chaperon = json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "metadata": {
                "namespace": "shop", "name": "web-1", "uid": "chaperon-uid",
                "labels": { keys::PARENT_UID: parent }, "annotations": { keys::ATTEMPT: "2" },
            },
            "spec": {},
        });
        if let Some(context) = context {
            chaperon["metadata"]["annotations"][keys::TRACEPARENT] = context.into();
        }
        serde_json::from_value(chaperon).unwrap()
    }

    fn work() -> Work {
        let chaperon = chaperon(Some(CONTEXT), UID);
        Work::begin(&chaperon, context_of(&chaperon).unwrap(), 100)
    }

    /// Name, times and failure of each. The attempt is under the source's span, and all else under the attempt.
    fn told(spans: &[Span]) -> Vec<(&'static str, Time, Time, Option<&'static str>)> {
        let context: TraceParent = CONTEXT.parse().unwrap();
        let whole = spans.iter().find(|span| span.name == "candidate").unwrap();
        for span in spans {
            assert_eq!(span.trace, context.trace.bytes());
            let (parent, kind) = if span.name == "candidate" {
                (context.span.bytes(), Kind::Server)
            } else {
                (whole.id, Kind::Internal)
            };
            assert_eq!((span.parent, span.kind), (Some(parent), kind), "{span:?}");
        }
        let told = spans
            .iter()
            .map(|span| (span.name, span.start, span.end, span.failed));
        told.collect()
    }

    #[test]
    fn only_the_pods_own_trace_counts_and_only_if_the_source_exports_it() {
        assert_eq!(
            context_of(&chaperon(Some(CONTEXT), UID)),
            CONTEXT.parse().ok()
        );
        let unsampled = CONTEXT.replace("-01", "-00");
        for (context, parent) in [
            (None, UID),
            (Some(unsampled.as_str()), UID),
            (Some(CONTEXT), "another"),
            (Some("00-"), UID),
            (Some(""), UID),
        ] {
            assert_eq!(context_of(&chaperon(context, parent)), None, "{context:?}");
        }
    }

    #[test]
    fn a_candidate_that_is_bound() {
        let mut work = work();
        work.found(Some("n1"), 110);
        let mut spans: Vec<Span> = work.held(3, 115).into_iter().collect();
        // Once more, as the grant comes.
        work.found(Some("n1"), 150);
        spans.extend(work.held(3, 151));
        work.binds(160);
        work.binds(165);
        spans.extend(work.ended("bound", true, 170));
        assert_eq!(
            told(&spans),
            [
                ("schedule", 100, 110, None),
                ("hold", 115, 160, None),
                ("bind", 160, 170, None),
                ("candidate", 100, 170, None),
            ]
        );
        let whole = spans.last().unwrap();
        assert!(whole.attributes.contains(&("pilotage.attempt", 3.into())));
        assert!(
            whole
                .attributes
                .contains(&("pilotage.outcome", "bound".into()))
        );
        assert!(
            spans[0]
                .attributes
                .contains(&("k8s.node.name", "n1".to_owned().into()))
        );
    }

    #[test]
    fn a_candidate_that_is_bound_without_a_hold_of_this_process() {
        // Another process has reserved it; or the answer's write has landed, and nobody heard so.
        for (reserved, attempt) in [(true, 2), (false, 3)] {
            let mut chaperon = chaperon(Some(CONTEXT), UID);
            if reserved {
                let annotations = chaperon.metadata.annotations.as_mut().unwrap();
                annotations.insert(keys::IS_RESERVED.to_owned(), keys::TRUE.to_owned());
            }
            let mut work = Work::begin(&chaperon, context_of(&chaperon).unwrap(), 100);
            work.found(Some("n1"), 110);
            work.binds(120);
            let spans = work.ended("bound", true, 130);
            assert_eq!(
                told(&spans),
                [
                    ("schedule", 100, 110, None),
                    ("bind", 120, 130, None),
                    ("candidate", 100, 130, None),
                ]
            );
            let number = ("pilotage.attempt", attempt.into());
            assert!(spans[2].attributes.contains(&number), "{spans:?}");
        }
    }

    #[test]
    fn a_candidate_that_finds_no_node() {
        let mut work = work();
        work.found(None, 110);
        let spans = work.refused(3, "unschedulable", 115);
        let failed = Some("unschedulable");
        assert_eq!(
            told(&spans),
            [
                ("schedule", 100, 110, failed),
                ("candidate", 100, 115, failed)
            ]
        );
    }

    #[test]
    fn a_node_that_nobody_takes_is_given_back() {
        let mut work = work();
        work.found(Some("n1"), 110);
        let mut spans: Vec<Span> = work.held(3, 115).into_iter().collect();
        spans.extend(work.clone().ended("expired", false, 200));
        let failed = Some("expired");
        let want = [
            ("schedule", 100, 110, None),
            ("hold", 115, 200, None),
            ("candidate", 100, 200, failed),
        ];
        assert_eq!(told(&spans), want);
        // The scheduler may take it back itself, and only then the source hears of it.
        let told_later = work.refused(4, "no_longer_fits", 210);
        assert_eq!(
            told(&told_later)[1],
            ("candidate", 100, 210, Some("no_longer_fits"))
        );
    }

    #[test]
    fn a_candidate_that_is_withdrawn_before_its_answer() {
        let spans = work().withdrawn(130);
        let failed = Some("withdrawn");
        assert_eq!(
            told(&spans),
            [
                ("schedule", 100, 130, failed),
                ("candidate", 100, 130, failed)
            ]
        );
    }

    #[test]
    fn attempts_have_ids_of_their_own() {
        let (mut third, mut fourth) = (work(), work());
        let third = third.held(3, 110).unwrap();
        let fourth = fourth.held(4, 110).unwrap();
        assert_ne!(third.id, fourth.id);
        assert_ne!(third.parent, fourth.parent);
    }
}
