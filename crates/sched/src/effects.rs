//! Owns what a plugin may ask to be done to *other* pods. Plain data: the scheduler carries it out when the
//! cycle or the binding that asked is over, so that plugins never reach into queue or waiting pods.

use std::collections::BTreeSet;

use crate::names::PodUid;
use crate::status::{PluginName, Reason};

/// Wishes of plugins about other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub(crate) activate: BTreeSet<PodUid>,
    pub(crate) allow: Vec<(PodUid, PluginName)>,
    pub(crate) reject: Vec<(PodUid, PluginName, Reason)>,
}

impl Effects {
    /// Brings the pod to the active queue, without backoff, wherever it waits.
    pub fn activate(&mut self, pod: PodUid) {
        self.activate.insert(pod);
    }

    /// Lets a pod that waits at Permit pass `plugin`.
    pub fn allow(&mut self, pod: PodUid, plugin: PluginName) {
        self.allow.push((pod, plugin));
    }

    /// Rejects a pod that waits at Permit, in the name of `plugin`.
    pub fn reject(&mut self, pod: PodUid, plugin: PluginName, reason: impl Into<Reason>) {
        self.reject.push((pod, plugin, reason.into()));
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.activate.is_empty() && self.allow.is_empty() && self.reject.is_empty()
    }
}
