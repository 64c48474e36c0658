//! Owns the scheduler as a whole: cache, queue, nominations and waiting pods, and the life of an attempt from
//! pop to *bound* or *requeued*. No I/O, no clock, no randomness, no tasks: a driver feeds watches in, runs
//! bindings, and publishes what comes out.

mod assumed;
mod changes;
mod failure;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

pub use self::assumed::Assumed;
pub use self::failure::{Aftermath, EventNote, FailedCondition, Failure, StatusPatch};
pub use self::watch::PodChange;
use crate::cache::{Cache, CacheSize};
use crate::context::Context;
use crate::cycle::{self, Cause, Choice, Diagnosis, Evaluation, NoChoice, SearchSize};
use crate::effects::Effects;
use crate::event::{Actions, AnyObject, Event, EventResource};
use crate::moment::Moment;
use crate::names::{NodeName, ObjectKey, PodUid};
use crate::nominator::Nominator;
use crate::plugin::{Nomination, PermitDecision};
use crate::pod_info::{IdentityError, PodInfo};
use crate::profile::{Profile, ProfileError, Profiles};
use crate::queue::{Gate, Outcome, Place, Queue, QueueConfig, QueueSize, QueuedPod};
use crate::snapshot::Snapshot;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Reason, Status, Verdict};
use crate::tie::TieBreaker;
use crate::waiting::{PermitState, WaitingPod, WaitingPods};

/// How a scheduler behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// `percentageOfNodesToScore` for profiles without their own; 0 means adaptive.
    pub percentage_of_nodes_to_score: u8,
    /// How the queue behaves.
    pub queue: QueueConfig,
}

/// What became of a pod that was popped.
#[derive(Debug)]
pub enum Attempt {
    /// It has a node: run the binding.
    Assumed(Box<Assumed>),
    /// It has none, and is back in the queue: publish why.
    Failed(Box<Failure>),
    /// It needn't be scheduled.
    Skipped(Skipped),
}

/// A popped pod that needn't be scheduled.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why not.
    pub why: SkipReason,
    /// The event to record, if users should know.
    pub event: Option<EventNote>,
}

/// Why a popped pod isn't scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It is being deleted.
    Deleting,
    /// It has a node already, assumed or real.
    Placed,
    /// No profile has its `schedulerName`.
    NoProfile,
}

/// Why a pod can't be evaluated.
#[derive(Clone, Debug, Error)]
pub enum EvaluateError {
    /// No profile has this name.
    #[error("no profile is named {0:?}")]
    NoProfile(String),
    /// The pod has no identity.
    #[error("pod can't be evaluated: {0}")]
    Identity(#[from] IdentityError),
    /// A plugin failed.
    #[error("pod can't be evaluated: {0}")]
    Plugin(#[from] PluginError),
}

/// The scheduler. See the crate's documentation for the flow.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    profiles: Profiles,
    cache: Cache,
    queue: Queue,
    nominator: Nominator,
    waiting: WaitingPods,
    // Pods without a node, as last seen: what the informer's store is to kube-scheduler.
    pending: HashMap<PodUid, Arc<PodInfo>>,
    // Every pod that is tracked, pending or on a node.
    uids: HashMap<ObjectKey, PodUid>,
    // Pods between `Assumed` and `bound` or `binding_failed`.
    binding: HashSet<PodUid>,
    next_start: usize,
}

impl Scheduler {
    /// An empty scheduler.
    pub fn new(
        profiles: impl IntoIterator<Item = Arc<Profile>>,
        config: SchedulerConfig,
    ) -> Result<Self, ProfileError> {
        let profiles = Profiles::new(profiles)?;
        Ok(Self {
            queue: Queue::new(&profiles, config.queue)?,
            config,
            profiles,
            cache: Cache::new(),
            nominator: Nominator::default(),
            waiting: WaitingPods::default(),
            pending: HashMap::new(),
            uids: HashMap::new(),
            binding: HashSet::new(),
            next_start: 0,
        })
    }

    // ---- Scheduling -------------------------------------------------------------------------------------

    /// Pops the next pod and tries to place it; `None` if none is ready.
    pub fn schedule_next(&mut self, now: Moment, ties: &mut dyn TieBreaker) -> Option<Attempt> {
        let queued = self.queue.pop(now)?;
        Some(match self.admit(&queued) {
            Ok(profile) => self.schedule(queued, profile, now, ties),
            Err(skipped) => {
                self.queue.done(&queued.pod.uid);
                Attempt::Skipped(skipped)
            }
        })
    }

    /// The profile of a popped pod, or why it needn't be scheduled.
    fn admit(&self, queued: &QueuedPod) -> Result<Arc<Profile>, Skipped> {
        let pod = &queued.pod;
        let skipped = |why, event| Skipped {
            pod: pod.clone(),
            why,
            event,
        };
        let Some(profile) = self.profiles.get(&pod.scheduler_name) else {
            return Err(skipped(SkipReason::NoProfile, None));
        };
        if pod.deleting {
            let note = format!("skip schedule deleting pod: {}", pod.key);
            let event = EventNote::failed_scheduling(&note);
            return Err(skipped(SkipReason::Deleting, Some(event)));
        }
        if self.cache.pod(&pod.uid).is_some() {
            return Err(skipped(SkipReason::Placed, None));
        }
        Ok(profile.clone())
    }

    fn schedule(
        &mut self,
        queued: QueuedPod,
        profile: Arc<Profile>,
        now: Moment,
        ties: &mut dyn TieBreaker,
    ) -> Attempt {
        let pod = queued.pod.clone();
        let snapshot = self.cache.snapshot();
        let mut state = CycleState::new();
        let size = self.search_size(&profile);
        let cx = Context::new(&profile, &snapshot, &self.nominator, &self.waiting);
        match cycle::choose(&cx, &mut state, &pod, size, &mut self.next_start, ties) {
            Ok(Choice {
                node,
                evaluated,
                feasible,
            }) => {
                let preflight = None;
                let waits = false;
                let assumed = Assumed {
                    queued,
                    node,
                    profile,
                    state,
                    waits,
                    evaluated,
                    feasible,
                    preflight,
                };
                self.take(assumed, &snapshot, now)
            }
            Err(NoChoice { cause, nomination }) => {
                let failure = self.failure(queued, cause, nomination, None, now);
                self.apply(state.take_effects());
                Attempt::Failed(Box::new(failure))
            }
        }
    }

    fn search_size(&self, profile: &Profile) -> SearchSize {
        if profile.scores().is_empty() {
            return SearchSize::One;
        }
        let own = profile.percentage_of_nodes_to_score();
        SearchSize::Percentage(own.unwrap_or(self.config.percentage_of_nodes_to_score))
    }

    /// Takes the chosen node: assume, Reserve, Permit.
    fn take(&mut self, mut assumed: Assumed, snapshot: &Snapshot, now: Moment) -> Attempt {
        let pod = assumed.pod().clone();
        if let Err(error) = self.cache.assume(pod.clone(), &assumed.node) {
            let cause = Cause::Error(PluginError::new(error));
            let failure = self.failure(assumed.queued, cause, Nomination::Clear, None, now);
            return Attempt::Failed(Box::new(failure));
        }
        self.nominator.clear(&pod.uid);
        let profile = assumed.profile.clone();
        let cx = Context::new(&profile, snapshot, &self.nominator, &self.waiting);
        let waits = reserve(&cx, &mut assumed).and_then(|()| permit(&cx, &mut assumed));
        let effects = assumed.state.take_effects();
        let attempt = match waits {
            Ok(waits) => {
                if !waits.is_empty() {
                    assumed.waits = true;
                    self.waiting
                        .hold(pod.clone(), assumed.node.clone(), &waits, now);
                }
                self.binding.insert(pod.uid.clone());
                Attempt::Assumed(Box::new(assumed))
            }
            Err(status) => {
                unreserve(&mut assumed);
                self.cache.forget(&pod.uid);
                let Assumed { queued, node, .. } = assumed;
                let cause = cause_at(&node, status);
                let failure = self.failure(queued, cause, Nomination::Clear, Some(node), now);
                Attempt::Failed(Box::new(failure))
            }
        };
        self.apply(effects);
        attempt
    }

    // ---- Permit and binding -----------------------------------------------------------------------------

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
        let uid = assumed.uid().clone();
        for plugin in assumed.profile.post_binds() {
            plugin.post_bind(&assumed.state, assumed.pod(), &assumed.node);
        }
        self.waiting.take(&uid);
        self.binding.remove(&uid);
        self.queue.done(&uid);
        if self.cache.is_assumed(&uid) && !self.pending.contains_key(&uid) {
            // Deleted while it was bound: no watch event will ever take it off the node.
            self.release(&uid, None, now);
        }
        self.apply(assumed.state.take_effects());
    }

    /// The pod was rejected at Permit, or `PreBind` or Bind failed: gives everything back and requeues it.
    pub fn binding_failed(
        &mut self,
        mut assumed: Assumed,
        status: Status,
        now: Moment,
    ) -> Box<Failure> {
        let uid = assumed.uid().clone();
        unreserve(&mut assumed);
        self.waiting.take(&uid);
        self.binding.remove(&uid);
        let effects = assumed.state.take_effects();
        let rejected = matches!(status, Status::Rejected(_));
        let Assumed { queued, node, .. } = assumed;
        let cause = cause_at(&node, status);
        let failure = self.failure(queued, cause, Nomination::Clear, Some(node), now);
        // Others may use the room; the pod itself was rejected for another reason than room.
        self.release(&uid, rejected.then_some(&uid), now);
        self.apply(effects);
        Box::new(failure)
    }

    /// Forgets an assumed pod and announces its room.
    fn release(&mut self, uid: &PodUid, not: Option<&PodUid>, now: Moment) {
        if let Some(pod) = self.cache.forget(uid) {
            let event = Event::pod(EventResource::AssignedPod, Actions::DELETE, Some(pod), None);
            self.queue.on_event_but(&event, not, now);
        }
    }

    // ---- Failures ---------------------------------------------------------------------------------------

    /// Requeues the pod in its newest version, and says what is left to publish.
    fn failure(
        &mut self,
        mut queued: QueuedPod,
        cause: Cause,
        nomination: Nomination,
        node: Option<NodeName>,
        now: Moment,
    ) -> Failure {
        let uid = queued.pod.uid.clone();
        let attempts = queued.attempts;
        let Some(newest) = self.pending.get(&uid).cloned() else {
            self.queue.done(&uid);
            self.nominator.clear(&uid);
            let placed = self.cache.pod(&uid).is_some() && !self.cache.is_assumed(&uid);
            let aftermath = if placed {
                Aftermath::Bound
            } else {
                Aftermath::Gone
            };
            let pod = queued.pod;
            return Failure {
                pod,
                attempts,
                node,
                cause,
                aftermath,
                event: None,
                status: None,
            };
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
        match &nomination {
            Nomination::Keep => {}
            Nomination::Clear => self.nominator.clear(&uid),
            Nomination::Set(node) => self.nominator.nominate(newest.clone(), node.clone()),
        }
        Failure {
            attempts,
            node,
            event: Some(EventNote::failed_scheduling(&cause.to_string())),
            status: StatusPatch::of(&newest, &cause, &nomination),
            cause,
            aftermath: Aftermath::Requeued(place),
            pod: newest,
        }
    }

    fn apply(&mut self, effects: Effects) {
        let Effects {
            activate,
            allow,
            reject,
        } = effects;
        for uid in activate {
            self.activate(&uid);
        }
        for (uid, plugin) in allow {
            self.waiting.allow(&uid, plugin);
        }
        for (uid, plugin, reason) in reject {
            self.waiting.reject(&uid, plugin, reason);
        }
    }

    // ---- Time and wake-ups ------------------------------------------------------------------------------

    /// Does what the passing of time asks for: moves pods whose backoff or long wait is over, rejects pods held
    /// too long at Permit. How many pods moved within the queue.
    pub fn flush(&mut self, now: Moment) -> usize {
        self.waiting.expire(now);
        self.queue.flush(now)
    }

    /// When [`Scheduler::flush`] has something to do next.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.queue
            .next_deadline()
            .into_iter()
            .chain(self.waiting.next_deadline())
            .min()
    }

    /// Tries a queued pod as soon as possible: runs `PreEnqueue` and skips backoff. Where it is now; `None` if it
    /// isn't in the queue. A pod that is being tried goes to the active queue when it comes back.
    pub fn activate(&mut self, uid: &PodUid) -> Option<Place> {
        self.queue.activate(uid)
    }

    /// Something happened that plugins registered for as [`EventResource::Custom`] of this name; how many pods
    /// it brought back.
    pub fn custom_event(
        &mut self,
        name: &'static str,
        object: Option<AnyObject>,
        now: Moment,
    ) -> usize {
        self.queue.on_event(&Event::custom(name, object), now)
    }

    /// Something happened to an object that the scheduler itself doesn't track (volumes, claims …); how many
    /// pods it brought back.
    pub fn event(&mut self, event: &Event, now: Moment) -> usize {
        self.queue.on_event(event, now)
    }

    // ---- Questions --------------------------------------------------------------------------------------

    /// All nodes as they are now.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        self.cache.snapshot()
    }

    /// Filter and score of all nodes for a pod, taking nothing. The pod needn't be known; its own
    /// `schedulerName` doesn't matter.
    pub fn evaluate(&mut self, profile: &str, pod: &PodInfo) -> Result<Evaluation, EvaluateError> {
        let unknown = || EvaluateError::NoProfile(profile.to_owned());
        let profile = self.profiles.get(profile).cloned().ok_or_else(unknown)?;
        let snapshot = self.cache.snapshot();
        let cx = Context::new(&profile, &snapshot, &self.nominator, &self.waiting);
        Ok(cycle::evaluate(&cx, &mut CycleState::new(), pod)?)
    }

    /// Whether the node that is held for an assumed pod still does: `PreFilter` and Filter on the newest state,
    /// as if the pod itself weren't there.
    pub fn recheck(&mut self, uid: &PodUid) -> Verdict {
        let snapshot = self.cache.snapshot();
        let Some((pod, node)) = self.cache.pod(uid) else {
            return Err(Status::error(format!("pod {uid} isn't assumed")));
        };
        let (pod, node) = (pod.clone(), node.clone());
        let Some(profile) = self.profiles.get(&pod.scheduler_name) else {
            return Err(Status::error(format!(
                "no profile is named {:?}",
                pod.scheduler_name
            )));
        };
        let mut without = (*snapshot).clone();
        if let Some(info) = snapshot.node(&node) {
            let mut info = (**info).clone();
            info.remove_pod(uid);
            without.replace(std::iter::once(Arc::new(info)));
        }
        let cx = Context::new(profile, &without, &self.nominator, &self.waiting);
        cycle::recheck(&cx, &mut CycleState::new(), &pod, &node)
    }

    /// Whether the pod is assumed on a node and the watch hasn't confirmed it.
    pub fn is_assumed(&self, uid: &PodUid) -> bool {
        self.cache.is_assumed(uid)
    }

    /// Where a pod is in the queue; `None` if it isn't there.
    pub fn place(&self, uid: &PodUid) -> Option<Place> {
        self.queue.place(uid)
    }

    /// What keeps a pod from being tried at all.
    pub fn gate(&self, uid: &PodUid) -> Option<&Gate> {
        self.queue.waiting(uid).and_then(QueuedPod::gate)
    }

    /// A pod without a node, as last seen.
    pub fn pending_pod(&self, uid: &PodUid) -> Option<&Arc<PodInfo>> {
        self.pending.get(uid)
    }

    /// The profiles.
    pub const fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// How many pods are where in the queue, for metrics.
    pub fn queue_size(&self) -> QueueSize {
        self.queue.size()
    }

    /// How much the cache holds, for metrics.
    pub fn cache_size(&self) -> CacheSize {
        self.cache.size()
    }
}

fn reserve(cx: &Context<'_>, assumed: &mut Assumed) -> Verdict {
    let profile = assumed.profile.clone();
    for plugin in profile.reserves() {
        let pod = &assumed.queued.pod;
        plugin
            .reserve(cx, &mut assumed.state, pod, &assumed.node)
            .map_err(|status| status.by(plugin.name()))?;
    }
    Ok(())
}

fn unreserve(assumed: &mut Assumed) {
    let profile = assumed.profile.clone();
    for plugin in profile.reserves().iter().rev() {
        plugin.unreserve(&mut assumed.state, &assumed.queued.pod, &assumed.node);
    }
}

/// Runs Permit; the plugins that want to wait, with their timeouts.
fn permit(
    cx: &Context<'_>,
    assumed: &mut Assumed,
) -> Verdict<Vec<(PluginName, std::time::Duration)>> {
    let profile = assumed.profile.clone();
    let mut waits = Vec::new();
    for plugin in profile.permits() {
        let pod = &assumed.queued.pod;
        let decision = plugin.permit(cx, &mut assumed.state, pod, &assumed.node);
        match decision.map_err(|status| status.by(plugin.name()))? {
            PermitDecision::Allow => {}
            PermitDecision::Wait(timeout) => waits.push((plugin.name(), timeout)),
        }
    }
    Ok(waits)
}

/// The cause of a failure after the choice: a rejection concerns the chosen node alone.
fn cause_at(node: &NodeName, status: Status) -> Cause {
    match status {
        Status::Rejected(rejection) => {
            Cause::Unfit(Box::new(Diagnosis::of_chosen_node(node.clone(), rejection)))
        }
        Status::Error(error) => Cause::Error(error),
    }
}

#[cfg(test)]
mod tests;
