//! Owns one attempt: from pop through the scheduling cycle, assume, Reserve and Permit, to *assumed* or *failed*.

use std::sync::Arc;
use std::time::Duration;

use super::{Assumed, EventNote, Failure, Paused, Scheduler};
use crate::cancel::Cancellation;
use crate::context::{Context, Cycle, Surroundings};
use crate::cycle::{self, Cause, Choice, Chosen, Diagnosis, NoChoice, Search, SearchSize};
use crate::guard::{Mishaps, Panicked, caught, guarded};
use crate::moment::Moment;
use crate::names::NodeName;
use crate::plugin::{Nomination, PermitDecision};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::queue::QueuedPod;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status, Verdict};
use crate::tie::TieBreaker;

/// What became of a pod that was popped.
#[derive(Debug)]
pub enum Attempt {
    /// It has a node: run the binding.
    Assumed(Box<Assumed>),
    /// It has none, and is back in the queue: publish why.
    Failed(Box<Failure>),
    /// It needn't be scheduled.
    Skipped(Skipped),
    /// Extenders have a say: ask them, then [`Scheduler::resume`] it. The scheduler goes on with others meanwhile.
    Asks(Box<Paused>),
}

impl Attempt {
    /// The pod that it is about.
    pub fn pod(&self) -> &Arc<PodInfo> {
        match self {
            Self::Assumed(assumed) => assumed.pod(),
            Self::Failed(failure) => &failure.pod,
            Self::Skipped(skipped) => &skipped.pod,
            Self::Asks(paused) => paused.pod(),
        }
    }
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
    /// It was deleted while extenders were asked.
    Gone,
}

impl Scheduler {
    /// Pops the next pod and tries to place it; `None` if none is ready. A panic fails its attempt.
    pub fn schedule_next(&mut self, now: Moment, ties: &mut dyn TieBreaker) -> Option<Attempt> {
        let queued = self.queue.pop(now)?;
        let popped = queued.clone();
        Some(
            caught(|| self.attempt(queued, now, ties)).unwrap_or_else(|panic| {
                Attempt::Failed(Box::new(self.undo_attempt(popped, panic, now)))
            }),
        )
    }

    /// Ends an attempt that panicked. Plugins are guarded one by one: this was a mistake in the scheduler itself.
    pub(super) fn undo_attempt(
        &mut self,
        queued: QueuedPod,
        panic: Panicked,
        now: Moment,
    ) -> Failure {
        let held = self.cache.pod(&queued.pod.uid);
        let node = held.map(|(_, node)| node.clone());
        let failure = self.undo(queued, node, panic, now);
        self.mend(now);
        failure
    }

    fn attempt(&mut self, queued: QueuedPod, now: Moment, ties: &mut dyn TieBreaker) -> Attempt {
        match self.admit(&queued) {
            Ok(profile) => self.schedule(queued, profile, true, now, ties),
            Err(skipped) => {
                self.queue.done(&queued.pod.uid);
                Attempt::Skipped(skipped)
            }
        }
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

    /// Looks for a node; first at the one that the pod is nominated to, if `nominated_first`.
    pub(super) fn schedule(
        &mut self,
        queued: QueuedPod,
        profile: Arc<Profile>,
        nominated_first: bool,
        now: Moment,
        ties: &mut dyn TieBreaker,
    ) -> Attempt {
        let pod = queued.pod.clone();
        let is_offered = !self.extenders.is_empty() && !self.extenders_of(&pod).is_empty();
        let mut state = CycleState::new();
        let mut mishaps = Vec::new();
        let how = Search {
            size: self.search_size(&profile, is_offered),
            start: &mut self.next_start,
            ties,
            classes: &mut self.classes,
            is_offered,
            nominated_first,
            mishaps: &mut mishaps,
        };
        let nodes = self.cache.nodes_mut();
        let around = Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let mut cycle = Cycle::new(&profile, nodes, around);
        let chosen = cycle::choose(&mut cycle, &mut state, &pod, how);
        for error in mishaps {
            self.queue.mishaps().note(&pod, error);
        }
        let chosen = match chosen {
            Ok(Chosen::Offer(offer)) => {
                self.carry_out(state.take_effects(), now);
                return Attempt::Asks(Box::new(self.pause(queued, profile, *offer)));
            }
            Ok(Chosen::Node(choice)) => Ok(choice),
            Err(none) => Err(none),
        };
        self.conclude(queued, profile, state, chosen, now)
    }

    /// Takes the node that was chosen, or puts the pod back.
    pub(super) fn conclude(
        &mut self,
        queued: QueuedPod,
        profile: Arc<Profile>,
        state: CycleState,
        chosen: Result<Choice, NoChoice>,
        now: Moment,
    ) -> Attempt {
        match chosen {
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
                    cancellation: Cancellation::default(),
                };
                self.take(assumed, now)
            }
            Err(NoChoice { cause, nomination }) => {
                let mut effects = state.take_effects();
                let offer = effects.room.take();
                // Whom evictions keep from being tried isn't put back before they began.
                self.carry_out(effects, now);
                let mut failure = self.failure(queued, cause, &nomination, None, now);
                failure.room = self.room_for(&failure.pod.uid, offer);
                Attempt::Failed(Box::new(failure))
            }
        }
    }

    /// How many nodes are looked for.
    pub(super) fn search_size(&self, profile: &Profile, is_offered: bool) -> SearchSize {
        if profile.scores().is_empty() && !is_offered {
            return SearchSize::One;
        }
        let own = profile.percentage_of_nodes_to_score();
        SearchSize::Percentage(own.unwrap_or(self.config.percentage_of_nodes_to_score))
    }

    /// Takes the chosen node: assume, Reserve, Permit.
    fn take(&mut self, mut assumed: Assumed, now: Moment) -> Attempt {
        let pod = assumed.pod().clone();
        if let Err(error) = self.cache.assume(pod.clone(), &assumed.node) {
            let cause = Cause::Error(PluginError::new(error));
            let failure = self.failure(assumed.queued, cause, &Nomination::Clear, None, now);
            return Attempt::Failed(Box::new(failure));
        }
        let expected = self.nominator.clear(&pod.uid);
        self.awaits_nobody(&pod.uid);
        let profile = assumed.profile.clone();
        let around = Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        };
        let cx = Context::new(&profile, self.cache.nodes(), around);
        let waits = reserve(&cx, &mut assumed).and_then(|()| permit(&cx, &mut assumed));
        let effects = assumed.state.take_effects();
        let attempt = match waits {
            Ok(waits) => {
                if !waits.is_empty() {
                    assumed.waits = true;
                    self.waiting
                        .hold(pod.clone(), assumed.node.clone(), &waits, now);
                }
                let cancellation = assumed.cancellation.clone();
                self.binding.insert(pod.uid.clone(), cancellation);
                self.left_unless(&assumed.node, expected, now);
                Attempt::Assumed(Box::new(assumed))
            }
            Err(status) => {
                let Assumed {
                    queued,
                    node,
                    mut state,
                    ..
                } = assumed;
                unreserve(&profile, &mut state, &pod, &node, self.queue.mishaps());
                self.cache.forget(&pod.uid);
                let cause = cause_at(&node, status);
                let failure = self.failure(queued, cause, &Nomination::Clear, Some(node), now);
                self.left(expected, now);
                Attempt::Failed(Box::new(failure))
            }
        };
        self.carry_out(effects, now);
        attempt
    }
}

fn reserve(cx: &Context<'_>, assumed: &mut Assumed) -> Verdict {
    let profile = assumed.profile.clone();
    for plugin in profile.reserves() {
        let pod = &assumed.queued.pod;
        let reserved = guarded(plugin.name(), || {
            plugin.reserve(cx, &mut assumed.state, pod, &assumed.node)
        });
        reserved.map_err(|status| status.by(plugin.name()))?;
    }
    Ok(())
}

/// Has all plugins give back what they took. One that panics keeps no other from it.
pub(super) fn unreserve(
    profile: &Profile,
    state: &mut CycleState,
    pod: &Arc<PodInfo>,
    node: &NodeName,
    mishaps: &Mishaps,
) {
    for plugin in profile.reserves().iter().rev() {
        if let Err(panic) = caught(|| plugin.unreserve(state, pod, node)) {
            mishaps.note(pod, panic.by(plugin.name()));
        }
    }
}

/// Runs Permit; the plugins that want to wait, with their timeouts.
fn permit(cx: &Context<'_>, assumed: &mut Assumed) -> Verdict<Vec<(PluginName, Duration)>> {
    let profile = assumed.profile.clone();
    let mut waits = Vec::new();
    for plugin in profile.permits() {
        let pod = &assumed.queued.pod;
        let decision = guarded(plugin.name(), || {
            plugin.permit(cx, &mut assumed.state, pod, &assumed.node)
        });
        match decision.map_err(|status| status.by(plugin.name()))? {
            PermitDecision::Allow => {}
            PermitDecision::Wait(timeout) => waits.push((plugin.name(), timeout)),
        }
    }
    Ok(waits)
}

/// The cause of a failure after the choice: a rejection concerns the chosen node alone.
pub(super) fn cause_at(node: &NodeName, status: Status) -> Cause {
    match status {
        Status::Rejected(rejection) => {
            Cause::Unfit(Box::new(Diagnosis::of_chosen_node(node.clone(), rejection)))
        }
        Status::Error(error) => Cause::Error(error),
    }
}
