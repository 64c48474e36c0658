//! Owns what a plugin may ask to be done to *other* pods. Plain data: the scheduler carries it out when the
//! cycle or the binding that asked is over, so that plugins never reach into queue or waiting pods.

use std::collections::BTreeSet;

use crate::names::PodUid;
use crate::room::RoomOffer;
use crate::status::{PluginName, Reason};

/// Pods that have to leave their node, so that another one finds room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Who has to leave. The last one leaves last.
    pub victims: Vec<PodUid>,
    /// For whom.
    pub preemptor: PodUid,
    /// Who says so.
    pub plugin: PluginName,
}

/// Wishes of plugins about other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub(crate) activate: BTreeSet<PodUid>,
    pub(crate) allow: Vec<(PodUid, PluginName)>,
    pub(crate) reject: Vec<(PodUid, PluginName, Reason)>,
    pub(crate) evict: Vec<Eviction>,
    pub(crate) clear_nomination: BTreeSet<PodUid>,
    pub(crate) room: Option<RoomOffer>,
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

    /// Has pods leave their node. One that isn't bound yet only gives its place up; of others the driver gets
    /// [`EvictionOrder`](crate::EvictionOrder)s.
    pub fn evict(&mut self, eviction: Eviction) {
        self.evict.push(eviction);
    }

    /// Takes the nomination of a pod away: somebody else needs the room that it was to have.
    pub fn clear_nomination(&mut self, pod: PodUid) {
        self.clear_nomination.insert(pod);
    }

    /// Tells what it would take to make room for the pod at hand.
    pub fn offer_room(&mut self, offer: RoomOffer) {
        self.room = Some(offer);
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
