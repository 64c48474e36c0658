//! What the candidate scheduler counts beside its driver: answers to sources, who refused, and how holds ended.
//!
//! Labels are words of our own and names of plugins; to count allocates nothing.

use std::time::Duration;

use pilotage_candidate::plan::Answer;
use pilotage_runtime::metrics::buckets;
use pilotage_sched::Failure;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// How a hold ends that leads to a binding.
pub(super) const BOUND: &str = "bound";
/// How one ends that nobody granted in time.
const EXPIRED: &str = "expired";
/// How one ends whose source chose another target.
const NOT_CHOSEN: &str = "not_chosen";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabel {
    plugin: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    end: &'static str,
}

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    answers: Family<AnswerLabel, Counter>,
    refusals: Family<PluginLabel, Counter>,
    holds: Family<EndLabel, Histogram, fn() -> Histogram>,
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Reserved { preempts: None, .. } => "reserved",
        Answer::Reserved { .. } => "evicts",
        Answer::Refused(_) => "refused",
    }
}

impl Metrics {
    /// Registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            answers: Family::default(),
            refusals: Family::default(),
            // A hold lasts some seconds, unless room has to be made.
            holds: Family::new_with_constructor(|| Histogram::new(buckets(0.01, 2.0, 14))),
        };
        let registry = registry.sub_registry_with_prefix("pilotage_candidate");
        registry.register(
            "answers",
            "Answers to sources, by what they say",
            metrics.answers.clone(),
        );
        registry.register(
            "refusals",
            "Attempts that found no node for a candidate, by the plugins that rejected it",
            metrics.refusals.clone(),
        );
        registry.register(
            "hold_duration_seconds",
            "Time that nodes were held for sources, by how that ended",
            metrics.holds.clone(),
        );
        // These are there from the beginning, so that the first one is a rise.
        for answer in ["reserved", "evicts", "refused"] {
            drop(metrics.answers.get_or_create(&AnswerLabel { answer }));
        }
        for end in [BOUND, EXPIRED, NOT_CHOSEN] {
            drop(metrics.holds.get_or_create(&EndLabel { end }));
        }
        metrics
    }

    /// An answer was written.
    pub(super) fn answered(&self, answer: &Answer) {
        let answer = word(answer);
        self.answers.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// An attempt found no node.
    pub(super) fn found_none(&self, failure: &Failure) {
        let diagnosis = failure.cause.diagnosis();
        for &plugin in diagnosis.into_iter().flat_map(|it| &it.rejected_by) {
            self.refusals.get_or_create(&PluginLabel { plugin }).inc();
        }
    }

    /// A hold ended so, after so long.
    pub(super) fn released(&self, end: &'static str, after: Duration) {
        let hold = self.holds.get_or_create(&EndLabel { end });
        hold.observe(after.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use pilotage_candidate::{Refusal, plan::Dropped};

    use super::*;

    #[test]
    fn answers_and_ends_have_their_words() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let pod = "p".to_owned();
        metrics.answered(&Answer::Reserved {
            pod,
            preempts: None,
        });
        metrics.answered(&Answer::Refused(Refusal::Unschedulable("x".repeat(100))));
        metrics.released(BOUND, Duration::from_millis(300));
        metrics.released(Dropped::ChaperonLeft.word(), Duration::from_secs(2));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for want in [
            "pilotage_candidate_answers_total{answer=\"reserved\"} 1\n",
            "pilotage_candidate_answers_total{answer=\"refused\"} 1\n",
            "pilotage_candidate_answers_total{answer=\"evicts\"} 0\n",
            "pilotage_candidate_hold_duration_seconds_count{end=\"bound\"} 1\n",
            "pilotage_candidate_hold_duration_seconds_sum{end=\"not_chosen\"} 2.0\n",
            "pilotage_candidate_hold_duration_seconds_count{end=\"expired\"} 0\n",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
        assert_eq!(Dropped::Expired.word(), EXPIRED);
    }
}
