//! Export of trace spans by OTLP, as JSON over HTTP. Off unless an endpoint is given.
//!
//! A component makes a [`Span`] of what it knows when something has ended, and hands it to its [`Tracer`]; that never
//! waits. The [`Exporter`] sends spans in batches. Both are bounded whatever collector and callers do: what is too
//! much, or can't be delivered, is dropped and counted. Must not know what the spans are about.
//!
//! The form is that of the OpenTelemetry Protocol 1.x: ids in hexadecimal, 64-bit numbers as texts, enums as numbers.

mod args;
mod counts;
mod export;
mod post;
mod span;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

pub use args::{Endpoint, Ratio, TraceArgs};
pub use export::Exporter;
pub use span::{Kind, Span, Value};

use counts::{Counts, Fate};

/// Spans that may wait to be sent. One takes about half a kilobyte.
const QUEUE: usize = 8192;

/// Where a component's spans go. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Tracer {
    spans: mpsc::Sender<Span>,
    ratio: Ratio,
    counts: Counts,
}

/// Who sends spans, as collectors show it.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the part (`service.name`).
    pub name: String,
    /// This process among its replicas (`service.instance.id`).
    pub instance: String,
}

impl Tracer {
    /// A tracer, and what has to run for its spans to leave. What becomes of them is counted in `registry`.
    pub fn new(
        endpoint: Endpoint,
        ratio: Ratio,
        service: Service,
        registry: &mut Registry,
    ) -> (Self, Exporter) {
        let (spans, waiting) = mpsc::channel(QUEUE);
        let counts = Counts::register(registry);
        let exporter = Exporter::new(endpoint, service, waiting, counts.clone());
        let tracer = Self {
            spans,
            ratio,
            counts,
        };
        (tracer, exporter)
    }

    /// Whether spans of this trace are exported: each component with the same ratio, or a higher one, says the same.
    pub fn takes(&self, trace: [u8; 16]) -> bool {
        self.ratio.takes(trace)
    }

    /// Hands over a span; without room it is dropped.
    pub fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.add(Fate::Dropped, 1);
        }
    }
}

/// The time of now, as spans have it: nanoseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
