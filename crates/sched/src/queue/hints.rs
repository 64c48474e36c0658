//! Owns the question whether an event is worth a new try of a rejected pod: which plugins asked for it, and what
//! their hints say. Knows nothing of where the pod waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::QueuedPod;
use crate::event::{Event, EventKind, EventResource, Hint};
use crate::guard::{Mishaps, caught};
use crate::plugin::{EnqueueExtensions, HintReads};
use crate::profile::Profiles;
use crate::status::PluginName;

/// What to do with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// Leave it where it is.
    Nothing,
    /// Try it when its backoff is over.
    AfterBackoff,
    /// Try it at once.
    AtOnce,
}

struct Registration {
    plugin: Arc<dyn EnqueueExtensions>,
    kinds: Vec<EventKind>,
}

impl Registration {
    fn wants(&self, queued: &QueuedPod, event: &Event, mishaps: &Mishaps) -> bool {
        if !self.kinds.iter().any(|kind| kind.covers(event.kind)) {
            return false;
        }
        match caught(|| self.plugin.hint(&queued.pod, event)) {
            Ok(hint) => hint == Hint::Queue,
            Err(panic) => {
                mishaps.note(&queued.pod, panic.by(self.plugin.name()));
                // In doubt it is worth a try.
                true
            }
        }
    }
}

/// The registrations of all plugins of all profiles.
pub(super) struct Hints {
    by_profile: HashMap<Arc<str>, HashMap<PluginName, Registration>>,
    // Everything that anybody registered for: most events of a cluster are nobody's business.
    all: BTreeSet<EventKind>,
    mishaps: Arc<Mishaps>,
}

impl Hints {
    pub(super) fn new(profiles: &Profiles, mishaps: Arc<Mishaps>) -> Self {
        let registrations = profiles.iter().map(|profile| {
            let plugins = profile.enqueue_extensions().iter().map(|plugin| {
                let registration = Registration {
                    plugin: plugin.clone(),
                    kinds: plugin.events(),
                };
                (plugin.name(), registration)
            });
            (profile.name().clone(), plugins.collect())
        });
        let by_profile: HashMap<_, HashMap<_, _>> = registrations.collect();
        let all = by_profile
            .values()
            .flat_map(HashMap::values)
            .flat_map(|registration| registration.kinds.iter().copied())
            .collect();
        Self {
            by_profile,
            all,
            mishaps,
        }
    }

    /// Whether the event can be worth anything to any pod.
    pub(super) fn concerns_anybody(&self, event: &Event) -> bool {
        event.is_wildcard() || self.all.iter().any(|kind| kind.covers(event.kind))
    }

    /// What of a pod counts for what an event is worth to it: pods that are equal in that, and were rejected alike, need be
    /// asked about once.
    pub(super) fn reads(&self, one: &QueuedPod, event: &Event) -> HintReads {
        if event.kind.resource == EventResource::TargetPod {
            return HintReads::Pod;
        }
        let plugins = self.by_profile.get(&one.pod.scheduler_name);
        let reads = |plugin: &PluginName| {
            let known = plugins.and_then(|plugins| plugins.get(plugin))?;
            let asked = known.kinds.iter().any(|kind| kind.covers(event.kind));
            asked.then(|| known.plugin.hint_reads())
        };
        let gating = one.gate.iter().map(|gate| &gate.plugin);
        let asked = gating.chain(&one.pending_by).chain(&one.rejected_by);
        asked.filter_map(reads).max().unwrap_or(HintReads::Needs)
    }

    /// What an event is worth to a pod.
    pub(super) fn worth(&self, queued: &QueuedPod, event: &Event) -> Worth {
        if event.is_wildcard() {
            return Worth::AfterBackoff;
        }
        let targeted = event.kind.resource == EventResource::TargetPod;
        if targeted && !event.is_about(&queued.pod.uid) {
            return Worth::Nothing;
        }
        if let Some(gate) = &queued.gate {
            // It is asked about again only if that plugin cares; then whoever rejected the pod before has a say, too.
            if !self.is_registered(gate.plugin, queued, event) {
                return Worth::Nothing;
            }
            let worth = self.asks(gate.plugin, queued, event, Worth::AfterBackoff);
            if worth != Worth::Nothing {
                return worth;
            }
        } else if queued.rejected_by.is_empty() && queued.pending_by.is_empty() {
            // Nobody can say what it waits for.
            return Worth::AfterBackoff;
        }
        let pending = queued
            .pending_by
            .iter()
            .map(|plugin| (plugin, Worth::AtOnce));
        let rejecting = queued
            .rejected_by
            .iter()
            .map(|plugin| (plugin, Worth::AfterBackoff));
        for (plugin, worth) in pending.chain(rejecting) {
            let found = self.asks(plugin, queued, event, worth);
            if found != Worth::Nothing {
                return found;
            }
        }
        Worth::Nothing
    }

    /// Whether the plugin wants to hear of such events; one that registered nothing at all hears of everything.
    fn is_registered(&self, plugin: PluginName, queued: &QueuedPod, event: &Event) -> bool {
        let plugins = self.by_profile.get(&queued.pod.scheduler_name);
        let registration = plugins.and_then(|plugins| plugins.get(plugin));
        registration.is_none_or(|known| known.kinds.iter().any(|kind| kind.covers(event.kind)))
    }

    fn asks(&self, plugin: PluginName, queued: &QueuedPod, event: &Event, worth: Worth) -> Worth {
        let plugins = self.by_profile.get(&queued.pod.scheduler_name);
        let wanted = plugins
            .and_then(|plugins| plugins.get(plugin))
            // A plugin that registered nothing at all can't tell, so anything may help.
            .is_none_or(|registration| registration.wants(queued, event, &self.mishaps));
        if wanted { worth } else { Worth::Nothing }
    }
}
