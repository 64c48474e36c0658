//! What became of spans, as a metric.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What becomes of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The collector has it.
    Exported,
    /// There was no room in the queue.
    Dropped,
    /// The collector didn't take it, or couldn't be reached.
    Failed,
}

impl Fate {
    const ALL: [Self; 3] = [Self::Exported, Self::Dropped, Self::Failed];

    fn word(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    fate: &'static str,
}

/// Counts spans by what became of them. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Counts([Counter; Fate::ALL.len()]);

impl Counts {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let spans = Family::<FateLabel, Counter>::default();
        let registry = registry.sub_registry_with_prefix("pilotage");
        registry.register(
            "trace_spans",
            "Spans of traces, by what became of them",
            spans.clone(),
        );
        // All are there from the beginning, so that the first one is a rise.
        Self(Fate::ALL.map(|fate| {
            let fate = fate.word();
            spans.get_or_create(&FateLabel { fate }).clone()
        }))
    }

    pub(super) fn add(&self, fate: Fate, spans: u64) {
        self.0[fate as usize].inc_by(spans);
    }

    /// How many were lost, in whatever way.
    pub(super) fn lost(&self) -> u64 {
        self.of(Fate::Dropped).saturating_add(self.of(Fate::Failed))
    }

    pub(super) fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize].get()
    }
}
