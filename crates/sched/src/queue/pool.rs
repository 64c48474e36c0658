//! Owns the pods that wait for an event, in circles of pods that the same plugins rejected (see [`super::circle`]).
//! Knows nothing of events.

use std::collections::{BTreeMap, HashMap};

use super::QueuedPod;
use super::circle::{Circle, CircleKey};
use super::hints::Hints;
use crate::names::PodUid;

/// Pods that wait for an event: those that no node would take, and gated ones.
#[derive(Debug, Default)]
pub(super) struct Pool {
    // Ordered, so that they are told in a repeatable order.
    unschedulable: BTreeMap<PodUid, QueuedPod>,
    gated: BTreeMap<PodUid, QueuedPod>,
    circles: HashMap<CircleKey, Circle>,
}

impl Pool {
    /// Keeps a pod; a gate makes it a gated one.
    pub(super) fn insert(&mut self, queued: QueuedPod, hints: &Hints) {
        let uid = queued.pod.uid.clone();
        self.remove(&uid, hints);
        let key = CircleKey::of(&queued);
        let circle = self.circles.entry(key.clone()).or_default();
        circle.insert(&queued.pod, &key, hints);
        if queued.gate.is_some() {
            self.gated.insert(uid, queued);
        } else {
            self.unschedulable.insert(uid, queued);
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid, hints: &Hints) -> Option<QueuedPod> {
        let removed = self.unschedulable.remove(uid);
        let queued = removed.or_else(|| self.gated.remove(uid))?;
        let key = CircleKey::of(&queued);
        if let Some(circle) = self.circles.get_mut(&key) {
            circle.remove(&queued.pod, &key, hints);
            if circle.is_empty() {
                self.circles.remove(&key);
            }
        }
        Some(queued)
    }

    pub(super) fn get(&self, uid: &PodUid) -> Option<&QueuedPod> {
        self.unschedulable.get(uid).or_else(|| self.gated.get(uid))
    }

    pub(super) fn is_gated(&self, uid: &PodUid) -> bool {
        self.gated.contains_key(uid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unschedulable.is_empty() && self.gated.is_empty()
    }

    /// Those that no node would take, then the gated ones, each by UID.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.unschedulable.values().chain(self.gated.values())
    }

    /// The circles in no particular order.
    pub(super) fn circles(&self) -> impl Iterator<Item = (&CircleKey, &Circle)> {
        self.circles.iter()
    }

    /// How many there are that no node would take, and how many gated ones.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.unschedulable.len(), self.gated.len())
    }
}
