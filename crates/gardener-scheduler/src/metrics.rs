//! Owns the metrics of the scheduler of Shoots.

use std::time::Duration;

use pilotage_runtime::metrics::buckets;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLabel {
    by: &'static str,
}

/// How Shoots fare.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    attempts: Family<ResultLabel, Counter>,
    decisions: Histogram,
    woken: Family<ByLabel, Counter>,
    waiting: Gauge,
    seeds: Gauge,
}

impl Metrics {
    /// Makes and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            decisions: Histogram::new(buckets(0.000_01, 2.0, 16)),
            woken: Family::default(),
            waiting: Gauge::default(),
            seeds: Gauge::default(),
        };
        let shoots = registry.sub_registry_with_prefix("pilotage_shoots");
        shoots.register(
            "attempts",
            "Attempts to place a Shoot, by how they ended",
            metrics.attempts.clone(),
        );
        shoots.register(
            "decision_duration_seconds",
            "Time of the decision about one Shoot",
            metrics.decisions.clone(),
        );
        shoots.register(
            "woken",
            "Attempts that a change of an object asked for, by its kind",
            metrics.woken.clone(),
        );
        shoots.register(
            "waiting",
            "Shoots that have no Seed yet",
            metrics.waiting.clone(),
        );
        shoots.register("seeds", "Seeds that can be read", metrics.seeds.clone());
        metrics
    }

    /// An attempt ended.
    pub(crate) fn attempted(&self, result: &'static str) {
        self.attempts.get_or_create(&ResultLabel { result }).inc();
    }

    /// A decision took so long.
    pub(crate) fn decided(&self, took: Duration) {
        self.decisions.observe(took.as_secs_f64());
    }

    /// A change of this kind woke so many.
    pub(crate) fn woke(&self, by: &'static str, count: usize) {
        if count > 0 {
            self.woken
                .get_or_create(&ByLabel { by })
                .inc_by(count as u64);
        }
    }

    /// How much there is.
    pub(crate) fn sizes(&self, waiting: usize, seeds: usize) {
        self.waiting.set(waiting as i64);
        self.seeds.set(seeds as i64);
    }
}
