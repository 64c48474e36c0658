//! Our scheduler with plugins that pass over all news, to show that it is noticed.

use std::sync::Arc;

use pilotage_sched::plugins::{
    DefaultBinder, FitArgs, NodeResourcesFit, NodeUnschedulable, PrioritySort, TaintToleration,
};
use pilotage_sched::taints::Comparison;
use pilotage_sched::{
    CycleState, EnqueueExtensions, Event, EventKind, Filter, Hint, HintReads, NodeView, Plugin,
    PluginName, PodInfo, Profile, ProfileBuilder, Reads, Verdict,
};

use super::Subject;
use super::profile::NoBinder;
use crate::configuration::{Configuration, Enabled, PROFILE};
use crate::side::SideError;

/// The plugins of [`deaf`], in order.
const PLUGINS: [&str; 5] = [
    "PrioritySort",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeResourcesFit",
    "DefaultBinder",
];

/// A filter that says of each event that it helps nobody.
struct Deaf(Arc<dyn Filter>);

impl Plugin for Deaf {
    fn name(&self) -> PluginName {
        self.0.name()
    }
}

impl EnqueueExtensions for Deaf {
    fn events(&self) -> Vec<EventKind> {
        self.0.events()
    }

    fn hint(&self, _: &PodInfo, _: &Event) -> Hint {
        Hint::Skip
    }

    fn hint_reads(&self) -> HintReads {
        self.0.hint_reads()
    }
}

impl Filter for Deaf {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        self.0.filter(state, pod, node)
    }

    fn reads(&self) -> Reads {
        self.0.reads()
    }
}

/// A scheduler whose hints always say that an event doesn't help. Its configuration is [`configuration`].
pub(crate) fn deaf() -> Subject {
    Subject::built_by(profile)
}

/// The configuration of [`deaf`], by which other schedulers decide the same.
pub(crate) fn configuration() -> Configuration {
    let enabled = |name: &str| Enabled {
        name: name.to_owned(),
        weight: None,
    };
    Configuration {
        plugins: PLUGINS.map(enabled).into(),
        ..Configuration::default()
    }
}

fn profile(_: &Configuration) -> Result<Arc<Profile>, SideError> {
    let filters: [Arc<dyn Filter>; 3] = [
        Arc::new(NodeUnschedulable),
        Arc::new(TaintToleration::new(Comparison::Off)),
        Arc::new(NodeResourcesFit::new(FitArgs::default())),
    ];
    let builder = ProfileBuilder::new(PROFILE).queue_sort(Arc::new(PrioritySort));
    let builder = filters.into_iter().fold(builder, |builder, filter| {
        builder.filter(Arc::new(Deaf(filter)))
    });
    builder
        .bind(Arc::new(DefaultBinder::new(Arc::new(NoBinder))))
        .build()
        .map_err(|error| SideError::refused("open", &error))
}
