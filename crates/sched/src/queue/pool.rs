//! Owns the pods that wait for an event, in circles of pods that the same plugins rejected (see [`super::circle`]).
//! Knows nothing of events.

use std::collections::{BTreeMap, HashMap};

use super::QueuedPod;
use super::circle::{Circle, CircleKey};
use super::hints::Hints;
use super::kindred::{Help, Turn};
use crate::names::PodUid;

/// Pods that wait for an event: those that no node would take, and gated ones.
#[derive(Debug, Default)]
pub(super) struct Pool {
    // Ordered, so that they are told in a repeatable order.
    unschedulable: BTreeMap<PodUid, QueuedPod>,
    gated: BTreeMap<PodUid, QueuedPod>,
    circles: HashMap<CircleKey, Circle>,
    turn: Turn,
}

impl Pool {
    /// Keeps a pod that waits from now on; a gate makes it a gated one.
    pub(super) fn insert(&mut self, mut queued: QueuedPod, hints: &Hints) {
        self.turn = self.turn.saturating_add(1);
        queued.waits_since = self.turn;
        self.put_back(queued, hints);
    }

    /// Keeps a pod that was taken out for a moment: it waits as long as it did.
    pub(super) fn put_back(&mut self, queued: QueuedPod, hints: &Hints) {
        let uid = queued.pod.uid.clone();
        self.remove(&uid, hints);
        let key = CircleKey::of(&queued);
        let circle = self.circles.entry(key.clone()).or_default();
        circle.insert(&queued, &key, hints);
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
    pub(super) fn circles_mut(&mut self) -> impl Iterator<Item = (&CircleKey, &mut Circle)> {
        self.circles.iter_mut()
    }

    /// The turn of the last pod that has begun to wait.
    pub(super) const fn turn(&self) -> Turn {
        self.turn
    }

    /// Whether some may not have been told who are helped as parts of a whole.
    pub(super) fn is_helped(&self) -> bool {
        self.circles.values().any(Circle::is_helped)
    }

    /// What is kept for a pod, as for its kindred.
    pub(super) fn help_for(&self, queued: &QueuedPod) -> Option<&Help> {
        self.circles.get(&CircleKey::of(queued))?.help_for(queued)
    }

    /// So many at most of those who are helped as parts of a whole. They have to leave, or lose their help, before
    /// the next are told.
    pub(super) fn tell_helped(&mut self, most: usize) -> Vec<(PodUid, Help)> {
        let mut told = Vec::new();
        loop {
            let helped = self.circles.iter_mut().filter(|(_, it)| it.is_helped());
            let Some((_, circle)) = helped.min_by(|(one, _), (other, _)| one.cmp(other)) else {
                return told;
            };
            circle.tell(most, &mut told);
            if circle.is_helped() {
                return told;
            }
        }
    }

    /// How many there are that no node would take, and how many gated ones.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.unschedulable.len(), self.gated.len())
    }
}
