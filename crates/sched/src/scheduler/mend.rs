//! Owns what makes the books agree again after a panic in the scheduler itself, in the middle of whatever it did.
//!
//! What can be derived is made anew: sums, the order of nodes, the snapshot. A pod is in the queue, in a binding task
//! or on a node, or it is put into the queue. What was being taken in may be left out; then the node of such a pod is
//! closed.

use std::sync::Arc;

use super::attempt::unreserve;
use super::{Failure, Scheduler};
use crate::cycle::Cause;
use crate::guard::{Mishap, Panicked, caught};
use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::plugin::Nomination;
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::state::CycleState;
use crate::status::PluginError;

impl Scheduler {
    /// What went wrong in plugins since the last call and failed no attempt. Any method of the scheduler may run
    /// plugins, so a driver asks after each.
    pub fn take_mishaps(&mut self) -> Vec<Mishap> {
        self.queue.mishaps().take()
    }

    /// A binding task panicked, and its [`Assumed`](super::Assumed) is lost: gives everything back and requeues the
    /// pod, as [`Scheduler::binding_failed`] does. `None` if it was given back before.
    pub fn abandon(
        &mut self,
        queued: QueuedPod,
        node: NodeName,
        panic: Panicked,
        now: Moment,
    ) -> Option<Failure> {
        let has_task = self.binding.contains_key(&queued.pod.uid);
        has_task.then(|| self.undo(queued, Some(node), panic, now))
    }

    /// Ends the attempt of a pod that panicked, wherever it was; `node` if it may have been assumed there.
    pub(super) fn undo(
        &mut self,
        queued: QueuedPod,
        node: Option<NodeName>,
        panic: Panicked,
        now: Moment,
    ) -> Failure {
        let pod = queued.pod.clone();
        if let (Some(node), Some(profile)) = (&node, self.profiles.get(&pod.scheduler_name)) {
            // What its plugins said is lost, but they know the pod.
            let mut state = CycleState::new();
            unreserve(profile, &mut state, &pod, node, self.queue.mishaps());
        }
        self.waiting.take(&pod.uid);
        self.binding.remove(&pod.uid);
        let cause = Cause::Error(PluginError::new(panic));
        let failure = self.failure(queued, cause, &Nomination::Clear, node, now);
        self.release(&pod.uid, None, now);
        failure
    }

    /// Makes the books agree again after a panic in one of the methods here.
    pub fn mend(&mut self, now: Moment) {
        let left_out = self.cache.rebuild();
        self.waiting.retain(|uid| self.binding.contains_key(uid));
        let nobodys = self.queue.in_flight().filter(|uid| !self.has_task(uid));
        for uid in nobodys.cloned().collect::<Vec<PodUid>>() {
            self.queue.done(&uid);
        }
        let is_known =
            |uid: &PodUid| self.pending.contains_key(uid) || self.cache.pod(uid).is_some();
        self.uids.retain(|_, uid| is_known(uid));
        for pod in self.lost() {
            if caught(|| self.queue.recover(pod.clone(), now)).is_err() {
                self.pending.remove(&pod.uid);
            }
        }
        self.close_nodes(left_out, now);
    }

    /// Whether somebody else will come back with the pod.
    fn has_task(&self, uid: &PodUid) -> bool {
        self.binding.contains_key(uid) || self.paused.contains(uid)
    }

    /// The pods without a node that are nowhere, by UID.
    fn lost(&self) -> Vec<Arc<PodInfo>> {
        let is_lost = |pod: &&Arc<PodInfo>| {
            let uid = &pod.uid;
            !self.has_task(uid) && self.queue.place(uid).is_none() && self.cache.pod(uid).is_none()
        };
        let mut lost: Vec<_> = self.pending.values().filter(is_lost).cloned().collect();
        lost.sort_by(|a, b| a.uid.cmp(&b.uid));
        lost
    }
}
