//! The webhook's metrics.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::review::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// `untouched`, `local`, `mutated`, `denied`, `busy`, `malformed` or `panicked`.
    outcome: &'static str,
    /// Why it was denied; else empty.
    reason: &'static str,
}

/// The webhook's metrics.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<Labels, Counter>,
    duration: Histogram,
    repairs: Counter,
    certificate_expiry: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Registers all of them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("pilotage_webhook");
        let metrics = Self {
            requests: Family::default(),
            duration: Histogram::new(pilotage_runtime::metrics::buckets(0.000_1, 2.0, 14)),
            repairs: Counter::default(),
            certificate_expiry: Gauge::default(),
        };
        registry.register(
            "requests",
            "Admission reviews by what was answered",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Time until an admission review is answered, without network and TLS",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "configuration_writes",
            "How often the admission configuration was installed or repaired",
            metrics.repairs.clone(),
        );
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            "When the serving certificate that the webhook made for itself expires, in Unix time",
            Unit::Seconds,
            metrics.certificate_expiry.clone(),
        );
        metrics
    }

    /// A review was answered.
    pub fn answered(&self, outcome: Outcome, took: Duration) {
        let (outcome, reason) = match outcome {
            Outcome::Untouched => ("untouched", ""),
            Outcome::Local => ("local", ""),
            Outcome::Mutated => ("mutated", ""),
            Outcome::Denied(reason) => ("denied", reason),
            Outcome::Busy => ("busy", ""),
            Outcome::Malformed => ("malformed", ""),
            Outcome::Panicked => ("panicked", ""),
        };
        self.requests
            .get_or_create(&Labels { outcome, reason })
            .inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// An object of the admission configuration was written.
    pub fn configuration_written(&self) {
        self.repairs.inc();
    }

    /// The certificate now served expires then.
    pub fn certificate_expires(&self, at: Timestamp) {
        self.certificate_expiry.set(at.as_second() as f64);
    }
}
