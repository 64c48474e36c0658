//! Owns what follows an assumed pod: its wait at Permit, *bound* or *failed*, and what a failure gives back.

use super::attempt::{cause_at, unreserve};
use super::{Aftermath, Assumed, Failure, Scheduler};
use crate::cycle::{Cause, Diagnosis};
use crate::event::{Actions, Event, EventResource};
use crate::guard::caught;
use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::plugin::Nomination;
use crate::queue::{Outcome, QueuedPod};
use crate::status::{PluginName, Reason, Status, Verdict};
use crate::waiting::{PermitState, WaitingPod, WaitingPods};

impl Scheduler {
    /// Where a pod stands at Permit; `None` if it isn't held.
    pub fn permit_state(&self, uid: &PodUid) -> Option<PermitState> {
        self.waiting.get(uid).map(WaitingPod::state)
    }

    /// The pods held at Permit.
    pub const fn waiting_pods(&self) -> &WaitingPods {
        &self.waiting
    }

    /// Lets a waiting pod pass `plugin`. `false` if that plugin doesn't hold it.
    pub fn allow(&mut self, uid: &PodUid, plugin: PluginName) -> bool {
        self.waiting.allow(uid, plugin)
    }

    /// Rejects a waiting pod in `plugin`'s name. `false` if it isn't held.
    pub fn reject(&mut self, uid: &PodUid, plugin: PluginName, reason: impl Into<Reason>) -> bool {
        self.waiting.reject(uid, plugin, reason.into())
    }

    /// The pods whose wait at Permit ended (allowed, rejected, timed out) since the last call. Any method of the
    /// scheduler may end a wait, so a driver asks after each.
    pub fn take_resolved(&mut self) -> Vec<PodUid> {
        self.waiting.take_resolved()
    }

    /// Ends the wait at Permit: `Ok` if the pod may be bound now. From here on it can't be rejected as
    /// unschedulable any more, so events are no longer kept for it.
    ///
    /// Call it for pods that didn't wait, too.
    pub fn start_binding(&mut self, uid: &PodUid) -> Verdict {
        match self.waiting.get(uid).map(WaitingPod::state) {
            None | Some(PermitState::Allowed) => {}
            Some(PermitState::Rejected(status)) => {
                self.waiting.take(uid);
                return Err(status);
            }
            Some(PermitState::Waiting { .. }) => {
                return Err(Status::error("pod is still held at Permit"));
            }
        }
        self.waiting.take(uid);
        self.queue.done(uid);
        Ok(())
    }

    /// The pod was bound. Its room stays taken until the watch confirms it.
    pub fn bound(&mut self, assumed: Assumed, now: Moment) {
        let Assumed {
            queued,
            node,
            profile,
            state,
            ..
        } = assumed;
        let uid = queued.pod.uid.clone();
        for plugin in profile.post_binds() {
            if let Err(panic) = caught(|| plugin.post_bind(&state, &queued.pod, &node)) {
                let error = panic.by(plugin.name());
                self.queue.mishaps().note(&queued.pod, error);
            }
        }
        self.waiting.take(&uid);
        self.binding.remove(&uid);
        self.queue.done(&uid);
        if self.cache.is_assumed(&uid) && !self.pending.contains_key(&uid) {
            // Deleted while it was bound: no watch event will ever take it off the node.
            self.release(&uid, None, now);
        }
        self.carry_out(state.take_effects(), now);
    }

    /// The pod was rejected at Permit, or `PreBind` or Bind failed: gives everything back and requeues it.
    pub fn binding_failed(&mut self, assumed: Assumed, status: Status, now: Moment) -> Failure {
        let Assumed {
            queued,
            node,
            profile,
            mut state,
            ..
        } = assumed;
        let uid = queued.pod.uid.clone();
        let mishaps = self.queue.mishaps();
        unreserve(&profile, &mut state, &queued.pod, &node, mishaps);
        self.waiting.take(&uid);
        self.binding.remove(&uid);
        let effects = state.take_effects();
        let rejected = matches!(status, Status::Rejected(_));
        let cause = cause_at(&node, status);
        let failure = self.failure(queued, cause, &Nomination::Clear, Some(node), now);
        // Others may use the room; the pod itself was rejected for another reason than room.
        self.release(&uid, rejected.then_some(&uid), now);
        self.carry_out(effects, now);
        failure
    }

    /// Forgets an assumed pod and announces its room.
    pub(super) fn release(&mut self, uid: &PodUid, not: Option<&PodUid>, now: Moment) {
        if let Some(pod) = self.cache.forget(uid) {
            let event = Event::pod(EventResource::AssignedPod, Actions::DELETE, Some(pod), None);
            self.queue.on_event_but(&event, not, now);
            self.has_gone(uid, now);
        }
    }

    /// Requeues the pod in its newest version, and says what is left to publish.
    pub(super) fn failure(
        &mut self,
        mut queued: QueuedPod,
        cause: Cause,
        nomination: &Nomination,
        node: Option<NodeName>,
        now: Moment,
    ) -> Failure {
        let uid = queued.pod.uid.clone();
        let attempts = queued.attempts;
        let Some(newest) = self.pending.get(&uid).cloned() else {
            self.queue.done(&uid);
            self.expect_nowhere(&uid, now);
            let placed = self.cache.pod(&uid).is_some() && !self.cache.is_assumed(&uid);
            let aftermath = if placed {
                Aftermath::Bound
            } else {
                Aftermath::Gone
            };
            let failure = Failure::new(queued.pod, attempts, cause, aftermath);
            return Failure { node, ..failure };
        };
        queued.pod = newest.clone();
        let outcome = match cause.diagnosis() {
            Some(Diagnosis {
                rejected_by,
                pending_by,
                ..
            }) => Outcome::Rejected {
                by: rejected_by.clone(),
                pending: pending_by.clone(),
            },
            None => Outcome::Failed,
        };
        let place = self.queue.requeue(queued, outcome, now);
        match nomination {
            Nomination::Keep => {}
            Nomination::Clear => {
                self.expect_nowhere(&uid, now);
            }
            Nomination::Set(node) => self.expect_on(newest.clone(), node.clone(), now),
        }
        Failure {
            node,
            nomination: nomination.clone(),
            ..Failure::new(newest, attempts, cause, Aftermath::Requeued(place))
        }
    }
}
