//! Owns the question whether an event is worth a new try of a rejected pod: which plugins asked for it, and what
//! their hints say. Knows nothing of where the pod waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::QueuedPod;
use crate::event::{Event, EventKind, EventResource, Hint};
use crate::guard::{Mishaps, caught};
use crate::plugin::{EnqueueExtensions, HintReads, OtherPods};
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
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

pub(super) struct Registration {
    plugin: Arc<dyn EnqueueExtensions>,
    kinds: Vec<EventKind>,
}

impl Registration {
    fn covers(&self, event: &Event) -> bool {
        self.kinds.iter().any(|kind| kind.covers(event.kind))
    }

    fn tells_node_labels(&self) -> bool {
        self.plugin.node_labels().is_some()
    }

    fn wants(&self, pod: &Arc<PodInfo>, event: &Event, mishaps: &Mishaps) -> bool {
        match caught(|| self.plugin.hint(pod, event)) {
            Ok(hint) => hint == Hint::Queue,
            Err(panic) => {
                mishaps.note(pod, panic.by(self.plugin.name()));
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

    fn registration(&self, profile: &Arc<str>, plugin: PluginName) -> Option<&Registration> {
        self.by_profile.get(profile)?.get(plugin)
    }

    /// Whether the event can be worth anything to any pod.
    pub(super) fn concerns_anybody(&self, event: &Event) -> bool {
        event.is_wildcard() || self.all.iter().any(|kind| kind.covers(event.kind))
    }

    /// Who is asked what an event is worth to pods that were rejected like this; the same for all of them.
    pub(super) fn asked(&self, rejected: Rejected<'_>, event: &Event) -> Asked<'_> {
        let mut asked = Asked {
            each: Vec::new(),
            mishaps: &self.mishaps,
        };
        if event.is_wildcard() {
            asked.each.push((None, Worth::AfterBackoff));
            return asked;
        }
        let Rejected {
            profile,
            by,
            pending_by,
            gate,
        } = rejected;
        // A plugin that registered nothing at all can't tell, so anything may help.
        let registration = |plugin: PluginName| self.registration(profile, plugin);
        let hears = |plugin| registration(plugin).is_none_or(|known| known.covers(event));
        if let Some(gate) = gate {
            // It is asked about again only if that plugin cares; then whoever rejected the pod before has a say, too.
            if !hears(gate) {
                return asked;
            }
            asked.each.push((registration(gate), Worth::AfterBackoff));
        } else if by.is_empty() && pending_by.is_empty() {
            // Nobody can say what it waits for.
            asked.each.push((None, Worth::AfterBackoff));
        }
        let pending = pending_by.iter().map(|plugin| (plugin, Worth::AtOnce));
        let rejecting = by.iter().map(|plugin| (plugin, Worth::AfterBackoff));
        let others = pending.chain(rejecting);
        let others = others.filter(|(plugin, _)| hears(plugin));
        asked
            .each
            .extend(others.map(|(plugin, worth)| (registration(plugin), worth)));
        asked
    }

    /// What an event is worth to a pod.
    pub(super) fn worth(&self, queued: &QueuedPod, event: &Event) -> Worth {
        let targeted = event.kind.resource == EventResource::TargetPod;
        let is_meant = !targeted || event.is_about(&queued.pod.uid);
        if !is_meant || !event.may_help(&queued.pod) {
            return Worth::Nothing;
        }
        self.asked(Rejected::of(queued), event)
            .worth(&queued.pod, event)
    }

    /// What of these needs a plugin's hint about a node reads, if that is told in short.
    pub(super) fn reads_for_nodes(
        &self,
        profile: &Arc<str>,
        plugin: PluginName,
        needs: &PodNeeds,
    ) -> Option<String> {
        let registration = self.registration(profile, plugin)?;
        caught(|| registration.plugin.reads_for_nodes(needs))
            .ok()
            .flatten()
    }

    /// Whether a plugin tells which labels of a node matter.
    pub(super) fn tells_node_labels(&self, profile: &Arc<str>, plugin: PluginName) -> bool {
        let registration = self.registration(profile, plugin);
        registration.is_some_and(Registration::tells_node_labels)
    }

    /// The keys of a node's labels that matter to a plugin; `None` if it doesn't tell, or panics.
    pub(super) fn node_labels(
        &self,
        profile: &Arc<str>,
        plugin: PluginName,
        needs: &PodNeeds,
    ) -> Option<BTreeSet<String>> {
        let registration = self.registration(profile, plugin)?;
        let labels = registration.plugin.node_labels()?;
        caught(|| labels.read(needs)).ok()
    }

    /// A plugin that says to whom other pods matter.
    pub(super) fn other_pods(
        &self,
        profile: &Arc<str>,
        plugin: PluginName,
    ) -> Option<&dyn OtherPods> {
        let registration = self.registration(profile, plugin)?;
        registration.plugin.other_pods()
    }
}

/// How a pod was rejected last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected<'a> {
    pub(super) profile: &'a Arc<str>,
    pub(super) by: &'a BTreeSet<PluginName>,
    pub(super) pending_by: &'a BTreeSet<PluginName>,
    pub(super) gate: Option<PluginName>,
}

impl<'a> Rejected<'a> {
    fn of(queued: &'a QueuedPod) -> Self {
        Self {
            profile: &queued.pod.scheduler_name,
            by: &queued.rejected_by,
            pending_by: &queued.pending_by,
            gate: queued.gate.as_ref().map(|gate| gate.plugin),
        }
    }
}

/// Those who are asked what an event is worth, in order, and what it is worth if they want it; without a registration
/// they want anything.
pub(super) struct Asked<'a> {
    each: Vec<(Option<&'a Registration>, Worth)>,
    mishaps: &'a Mishaps,
}

impl Asked<'_> {
    /// Whether it is nobody, so that the event is worth nothing.
    pub(super) const fn is_nobody(&self) -> bool {
        self.each.is_empty()
    }

    /// What of a pod counts: pods that are equal in that need be asked about once.
    pub(super) fn reads(&self) -> HintReads {
        let known = self
            .each
            .iter()
            .filter_map(|(registration, _)| *registration);
        let reads = known.map(|known| known.plugin.hint_reads());
        reads.max().unwrap_or(HintReads::Needs)
    }

    /// What the event is worth to a pod.
    pub(super) fn worth(&self, pod: &Arc<PodInfo>, event: &Event) -> Worth {
        let wanted = self.each.iter().find(|(registration, _)| {
            registration.is_none_or(|known| known.wants(pod, event, self.mishaps))
        });
        wanted.map_or(Worth::Nothing, |(_, worth)| *worth)
    }

    /// Whether each of them says which labels of a node matter.
    pub(super) fn tell_node_labels(&self) -> bool {
        let mut each = self.each.iter();
        each.all(|(registration, _)| registration.is_some_and(Registration::tells_node_labels))
    }

    /// The plugins, if each of them says to whom other pods matter.
    pub(super) fn by_other_pods(&self) -> Option<Vec<(PluginName, &dyn OtherPods)>> {
        let each = self.each.iter().map(|(registration, _)| {
            let plugin = &registration.as_ref()?.plugin;
            Some((plugin.name(), plugin.other_pods()?))
        });
        each.collect()
    }
}
