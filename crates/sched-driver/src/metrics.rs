//! The `scheduler_*` metrics, named and bucketed as kube-scheduler's, so that dashboards carry over.

mod gauges;

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use pilotage_runtime::metrics::buckets;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use self::gauges::{Gauges, Measured};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl EncodeLabelValue for AttemptResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: AttemptResult,
    profile: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PointLabels {
    extension_point: &'static str,
    status: &'static str,
    profile: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SliLabels {
    attempts: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PermitLabels {
    result: &'static str,
}

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// The driver's own metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: HistogramFamily<AttemptLabels>,
    algorithm_seconds: Histogram,
    pod_attempts: Histogram,
    sli_seconds: HistogramFamily<SliLabels>,
    point_seconds: HistogramFamily<PointLabels>,
    permit_wait_seconds: HistogramFamily<PermitLabels>,
    preemption_attempts: Counter,
    preemption_victims: Histogram,
    panics: Counter,
}

impl Metrics {
    /// Makes and registers them; `registry` is the process's root.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(millis_15),
            algorithm_seconds: millis_15(),
            pod_attempts: Histogram::new(buckets(1.0, 2.0, 5)),
            sli_seconds: Family::new_with_constructor(|| Histogram::new(buckets(0.01, 2.0, 20))),
            point_seconds: Family::new_with_constructor(|| {
                Histogram::new(buckets(0.000_1, 2.0, 12))
            }),
            permit_wait_seconds: Family::new_with_constructor(millis_15),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(buckets(1.0, 2.0, 7)),
            panics: Counter::default(),
        };
        let scheduler = registry.sub_registry_with_prefix("scheduler");
        scheduler.register(
            "schedule_attempts",
            "Attempts to schedule pods, by result",
            metrics.attempts.clone(),
        );
        scheduler.register(
            "scheduling_attempt_duration_seconds",
            "Time of one attempt, from the queue to the end of binding or to the failure",
            metrics.attempt_seconds.clone(),
        );
        scheduler.register(
            "scheduling_algorithm_duration_seconds",
            "Time of the search for a node",
            metrics.algorithm_seconds.clone(),
        );
        scheduler.register(
            "pod_scheduling_attempts",
            "Attempts that scheduled pods took",
            metrics.pod_attempts.clone(),
        );
        scheduler.register(
            "pod_scheduling_sli_duration_seconds",
            "Time from the first attempt's entry into the queue until the pod was bound",
            metrics.sli_seconds.clone(),
        );
        scheduler.register(
            "framework_extension_point_duration_seconds",
            "Time that an extension point took with all its plugins",
            metrics.point_seconds.clone(),
        );
        scheduler.register(
            "permit_wait_duration_seconds",
            "Time that pods were held at Permit",
            metrics.permit_wait_seconds.clone(),
        );
        scheduler.register(
            "preemption_attempts",
            "Pods that fit nowhere and for which others might have been evicted",
            metrics.preemption_attempts.clone(),
        );
        scheduler.register(
            "preemption_victims",
            "Pods that one pod had evicted",
            metrics.preemption_victims.clone(),
        );
        scheduler.register(
            "panics",
            "Panics about one pod or node, which stopped nobody else",
            metrics.panics.clone(),
        );
        metrics
    }

    /// An attempt ended.
    pub(crate) fn attempted(&self, profile: &Arc<str>, result: AttemptResult, took: Duration) {
        let labels = AttemptLabels {
            result,
            profile: profile.clone(),
        };
        self.attempts.get_or_create(&labels).inc();
        self.attempt_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// A search for a node ended, however.
    pub(crate) fn searched(&self, took: Duration) {
        self.algorithm_seconds.observe(took.as_secs_f64());
    }

    /// A pod was bound after so many attempts, and so long after it was first queued.
    pub(crate) fn scheduled(&self, attempts: u32, since_first: Duration) {
        self.pod_attempts.observe(f64::from(attempts));
        let attempts = if attempts >= 15 {
            "15+".to_owned()
        } else {
            attempts.to_string()
        };
        self.sli_seconds
            .get_or_create(&SliLabels { attempts })
            .observe(since_first.as_secs_f64());
    }

    /// An extension point ran.
    pub(crate) fn point(
        &self,
        profile: &Arc<str>,
        extension_point: &'static str,
        status: &'static str,
        took: Duration,
    ) {
        let labels = PointLabels {
            extension_point,
            status,
            profile: profile.clone(),
        };
        self.point_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// A pod fitted nowhere, and it was looked whether evictions help.
    pub(crate) fn preemption_attempted(&self) {
        self.preemption_attempts.inc();
    }

    /// So many pods are evicted for one.
    pub(crate) fn preempted(&self, victims: usize) {
        self.preemption_victims.observe(victims as f64);
    }

    /// Something about one object panicked.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// A pod left Permit.
    pub(crate) fn permit_waited(&self, result: &'static str, took: Duration) {
        self.permit_wait_seconds
            .get_or_create(&PermitLabels { result })
            .observe(took.as_secs_f64());
    }
}

/// 1 ms to 16 s, as kube-scheduler's latencies.
fn millis_15() -> Histogram {
    Histogram::new(buckets(0.001, 2.0, 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_kube_schedulers() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let profile: Arc<str> = "p".into();
        let took = Duration::from_millis(3);
        metrics.attempted(&profile, AttemptResult::Scheduled, took);
        metrics.searched(took);
        metrics.scheduled(17, took);
        metrics.point(&profile, "Bind", "Success", took);
        metrics.permit_waited("Success", took);
        metrics.preemption_attempted();
        metrics.preempted(3);
        metrics.panicked();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for want in [
            "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"p\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"0.004\",result=\"scheduled\",profile=\"p\"} 1",
            "scheduler_scheduling_algorithm_duration_seconds_count 1",
            "scheduler_pod_scheduling_attempts_count 1",
            "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 1",
            "scheduler_framework_extension_point_duration_seconds_count\
             {extension_point=\"Bind\",status=\"Success\",profile=\"p\"} 1",
            "scheduler_permit_wait_duration_seconds_count{result=\"Success\"} 1",
            "scheduler_preemption_attempts_total 1",
            "scheduler_preemption_victims_bucket{le=\"4.0\"} 1",
            "scheduler_preemption_victims_bucket{le=\"64.0\"} 1",
            "scheduler_panics_total 1",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
    }
}
