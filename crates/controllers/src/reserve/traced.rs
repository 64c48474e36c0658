//! What the edge tells of its candidates' traces, if they are exported: the rules are in [`super::trace`]. Only the
//! leader takes turns, so that nobody else begins one.

use pilotage_api::PodChaperon;
use pilotage_candidate::{
    Refusal,
    plan::{Answer, Write},
};
use pilotage_runtime::otlp::{Span, now};

use super::{
    edge::{Cell, Edge},
    metrics::BOUND,
    trace::{Work, context_of},
};
use crate::chaperon::Key;

/// A cycle has found this node, or none.
pub(super) fn found(cell: &mut Cell, node: Option<&str>) {
    if let Some(work) = &mut cell.traced {
        work.found(node, now());
    }
}

/// The binding is asked for.
pub(super) fn binds(cell: &mut Cell) {
    if let Some(work) = &mut cell.traced {
        work.binds(now());
    }
}

/// A refusal in a word.
fn word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unschedulable(_) => "unschedulable",
        Refusal::Unknown(_) => "unknown_constraint",
        Refusal::Gated(_) => "gated",
        Refusal::Expired => "expired",
        Refusal::NoLongerFits => "no_longer_fits",
        Refusal::PodGone => "pod_gone",
    }
}

impl Edge {
    fn send(&self, spans: impl IntoIterator<Item = Span>) {
        if let Some(tracer) = &self.tracer {
            spans.into_iter().for_each(|span| tracer.send(span));
        }
    }

    /// The scheduler may try a candidate: an attempt begins, unless one is under way.
    pub(super) fn trace_tried(&self, key: &Key, chaperon: Option<&PodChaperon>) {
        let (Some(tracer), Some(chaperon)) = (&self.tracer, chaperon) else {
            return;
        };
        self.with(key, |cell| {
            if cell.traced.is_none()
                && let Some(context) = context_of(chaperon)
                && tracer.takes(context.trace.bytes())
            {
                cell.traced = Some(Box::new(Work::begin(chaperon, context, now())));
            }
        });
    }

    /// An answer has been written.
    pub(super) fn trace_answered(&self, key: &Key, write: &Write) {
        if self.tracer.is_none() {
            return;
        }
        match &write.answer {
            Answer::Reserved { .. } => {
                let held = self.with(key, |cell| cell.traced.as_mut()?.held(write.attempt, now()));
                self.send(held);
            }
            Answer::Refused(why) => {
                let refused = self.with(key, |cell| cell.traced.take());
                let spans = refused.map(|work| work.refused(write.attempt, word(why), now()));
                self.send(spans.into_iter().flatten());
            }
        }
    }

    /// A node that was held, or taken, is bound or given back.
    pub(super) fn trace_ended(&self, key: &Key, end: &'static str) {
        if self.tracer.is_none() {
            return;
        }
        let ended = self.with(key, |cell| cell.traced.take());
        let spans = ended.map(|work| work.ended(end, end == BOUND, now()));
        self.send(spans.into_iter().flatten());
    }

    /// Nothing is left of a name.
    pub(super) fn trace_withdrawn(&self, traced: Option<Box<Work>>) {
        let spans = traced.map(|work| work.withdrawn(now()));
        self.send(spans.into_iter().flatten());
    }
}
