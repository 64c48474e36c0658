//! What the ask edge counts: questions, answers and grants by target, refusals by kind, how long pods take to each
//! stage, and events of stages that nobody is told.
//!
//! A target's series begin when its Target may be connected and end with it, and nothing that a target says becomes a
//! label. To count allocates nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotage_proxy::{Action, Outcome, Reaction, RefusalKind};
use pilotage_runtime::metrics::buckets;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{
        MetricType, counter::ConstCounter, counter::Counter, family::Family, gauge::ConstGauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use super::progress::Stage;

/// What a target may answer, as metrics have it.
const ANSWERS: [&str; 6] = [
    "reserved", "evicts", "refused", "bound", "missing", "failed",
];

/// How to count what was asked of no use: nobody knows what became of the question.
const FAILED: usize = 5;
const REFUSED: usize = 2;

fn index(answer: Reaction) -> usize {
    match answer {
        Reaction::Reserved => 0,
        Reaction::Evicts => 1,
        Reaction::Refused(_) => REFUSED,
        Reaction::Bound => 3,
        Reaction::Missing => 4,
    }
}

/// One target.
#[derive(Debug, Default)]
struct Tally {
    asks: u64,
    answers: [u64; ANSWERS.len()],
    grants: u64,
    /// Pods that wait for their turn.
    queue: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// What the ask edge counts. Clones share it.
#[derive(Clone, Debug)]
pub struct AskMetrics {
    by_target: Arc<Mutex<BTreeMap<String, Tally>>>,
    refusals: [Counter; RefusalKind::ALL.len()],
    stages: [Histogram; Stage::ALL.len()],
    untold: Counter,
}

impl AskMetrics {
    /// Registers all of it.
    pub fn register(registry: &mut Registry) -> Self {
        let refusals = Family::<ReasonLabel, Counter>::default();
        let stages =
            Family::<StageLabel, Histogram, fn() -> Histogram>::new_with_constructor(|| {
                Histogram::new(buckets(0.01, 2.0, 20))
            });
        let untold = Counter::default();
        let registry = registry.sub_registry_with_prefix("pilotage");
        registry.register(
            "stage_events_dropped",
            "Events of stages on the ways of pods that were not written, since there were too many",
            untold.clone(),
        );
        registry.register(
            "target_refusals",
            "Refusals of targets, by the word that they begin with",
            refusals.clone(),
        );
        registry.register(
            "pod_stage_duration_seconds",
            "Time from a pod's creation, or from the end of its last scheduling gate, until it reached a stage",
            stages.clone(),
        );
        let metrics = Self {
            by_target: Arc::default(),
            // All are there from the beginning, so that the first one is a rise.
            refusals: RefusalKind::ALL.map(|kind| {
                let reason = kind.word();
                refusals.get_or_create(&ReasonLabel { reason }).clone()
            }),
            stages: Stage::ALL.map(|stage| {
                let stage = stage.word();
                stages.get_or_create(&StageLabel { stage }).clone()
            }),
            untold,
        };
        registry.register_collector(Box::new(ByTarget(Arc::clone(&metrics.by_target))));
        metrics
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<String, Tally>> {
        self.by_target
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, target: &str, add: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tallies().get_mut(target) {
            add(tally);
        }
    }

    /// There is a Target with this virtual node, and it may be connected.
    pub(super) fn begin(&self, target: &str) {
        let mut all = self.tallies();
        if !all.contains_key(target) {
            all.insert(target.to_owned(), Tally::default());
        }
    }

    /// There is none any more.
    pub(super) fn end(&self, target: &str) {
        self.tallies().remove(target);
    }

    /// A target is asked.
    pub(super) fn asked(&self, target: &str) {
        self.count(target, |tally| {
            tally.asks = tally.asks.saturating_add(1);
        });
    }

    /// A target has answered.
    pub(super) fn answered(&self, target: &str, answer: Reaction) {
        self.count_answer(target, index(answer));
        if let Reaction::Refused(kind) = answer {
            self.refusals[kind as usize].inc();
        }
    }

    fn count_answer(&self, target: &str, answer: usize) {
        self.count(target, |tally| {
            tally.answers[answer] = tally.answers[answer].saturating_add(1);
        });
    }

    /// A request of ours ended.
    pub(super) fn ended(&self, action: &Action, outcome: &Outcome) {
        match (action, outcome) {
            (Action::Ask { node }, Outcome::Refused(_)) => {
                self.answered(node, Reaction::Refused(RefusalKind::NotAsked));
            }
            (Action::Ask { node }, Outcome::Unknown(_)) => self.count_answer(node, FAILED),
            (Action::Grant { node, .. }, Outcome::Done) => self.count(node, |tally| {
                tally.grants = tally.grants.saturating_add(1);
            }),
            _ => {}
        }
    }

    /// A pod that waited for its turn at `before` waits at `after` now.
    pub(super) fn queued(&self, before: &[String], after: &[String]) {
        let mut all = self.tallies();
        for node in before {
            if let Some(tally) = all.get_mut(node) {
                tally.queue = tally.queue.saturating_sub(1);
            }
        }
        for node in after {
            if let Some(tally) = all.get_mut(node) {
                tally.queue = tally.queue.saturating_add(1);
            }
        }
    }

    /// A pod has reached a stage after so long.
    pub(super) fn reached(&self, stage: Stage, after: Duration) {
        self.stages[stage as usize].observe(after.as_secs_f64());
    }

    /// Counts stages of which there are no events, though there would be.
    pub(super) fn untold(&self) -> &Counter {
        &self.untold
    }
}

/// Reads what is counted by target at each scrape.
#[derive(Debug)]
struct ByTarget(Arc<Mutex<BTreeMap<String, Tally>>>);

impl Collector for ByTarget {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = encoder.encode_descriptor(
            "target_asks",
            "Questions to targets whether they take a pod",
            None,
            MetricType::Counter,
        )?;
        for (target, tally) in &*all {
            counter(&mut family, &[("target", target.as_str())], tally.asks)?;
        }
        let mut family = encoder.encode_descriptor(
            "target_answers",
            "Answers of targets, by what they say",
            None,
            MetricType::Counter,
        )?;
        for (target, tally) in &*all {
            for (answer, count) in ANSWERS.into_iter().zip(tally.answers) {
                let labels = [("target", target.as_str()), ("answer", answer)];
                counter(&mut family, &labels, count)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "target_grants",
            "Pods that targets were granted",
            None,
            MetricType::Counter,
        )?;
        for (target, tally) in &*all {
            counter(&mut family, &[("target", target.as_str())], tally.grants)?;
        }
        let mut family = encoder.encode_descriptor(
            "target_queued_pods",
            "Pods that wait until a target has answered those before them",
            None,
            MetricType::Gauge,
        )?;
        for (target, tally) in &*all {
            let gauge = ConstGauge::new(i64::try_from(tally.queue).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("target", target.as_str())])?)?;
        }
        Ok(())
    }
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], count: u64) -> fmt::Result {
    ConstCounter::new(count).encode(family.encode_family(&labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn a_targets_series_begin_and_end_with_its_target() {
        let mut registry = Registry::default();
        let metrics = AskMetrics::register(&mut registry);
        let ask = |node: &str| Action::Ask { node: node.into() };
        metrics.asked("paris");
        metrics.begin("paris");
        metrics.begin("paris");
        metrics.asked("paris");
        metrics.answered("paris", Reaction::Reserved);
        metrics.answered("paris", Reaction::Refused(RefusalKind::Expired));
        metrics.ended(&ask("paris"), &Outcome::Refused("no namespace".into()));
        metrics.ended(&ask("paris"), &Outcome::Unknown("timed out".into()));
        metrics.ended(&ask("paris"), &Outcome::Done);
        metrics.queued(&[], &["paris".into(), "rome".into()]);
        metrics.queued(&[], &["paris".into()]);
        metrics.queued(&["paris".into()], &[]);
        metrics.reached(Stage::Asked, Duration::from_millis(15));
        metrics.untold().inc_by(2);
        let text = shown(&registry);
        for want in [
            "pilotage_target_asks_total{target=\"paris\"} 1\n",
            "pilotage_target_answers_total{target=\"paris\",answer=\"reserved\"} 1\n",
            "pilotage_target_answers_total{target=\"paris\",answer=\"refused\"} 2\n",
            "pilotage_target_answers_total{target=\"paris\",answer=\"failed\"} 1\n",
            "pilotage_target_answers_total{target=\"paris\",answer=\"bound\"} 0\n",
            "pilotage_target_refusals_total{reason=\"expired\"} 1\n",
            "pilotage_target_refusals_total{reason=\"not_asked\"} 1\n",
            "pilotage_target_refusals_total{reason=\"other\"} 0\n",
            "pilotage_target_grants_total{target=\"paris\"} 0\n",
            "pilotage_target_queued_pods{target=\"paris\"} 1\n",
            "pilotage_pod_stage_duration_seconds_bucket{le=\"0.02\",stage=\"asked\"} 1\n",
            "pilotage_pod_stage_duration_seconds_count{stage=\"bound\"} 0\n",
            "pilotage_stage_events_dropped_total 2\n",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
        assert!(!text.contains("rome"), "nobody knows it:\n{text}");
        metrics.end("paris");
        metrics.answered("paris", Reaction::Bound);
        let text = shown(&registry);
        assert!(!text.contains("paris"), "{text}");
        assert!(
            text.contains("# TYPE pilotage_target_asks counter"),
            "{text}"
        );
    }
}
