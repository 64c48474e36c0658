//! Makes room for a pod that fits nowhere by evicting pods of lower priority. Who may, on which nodes, whom it costs
//! and which node it is are those of kube-scheduler 1.36.3 (`plugins/defaultpreemption` and `framework/preemption`);
//! what the evictions need of the API server is the driver's business.
//!
//! While its evictions are under way a pod isn't tried: it would only evict more.

mod args;
mod budgets;
mod cost;
mod dry_run;
mod eligibility;
mod ground;
mod importance;
mod leave;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::args::{PreemptionArgs, PreemptionArgsError};
pub use self::cost::PreemptionCost;
use self::dry_run::{Candidate, Extent, Found};
use self::leave::Everybody;
pub use self::leave::{EvictionLeave, Leave};
use crate::context::Cycle;
use crate::cycle::{Diagnosis, NodeStatuses};
use crate::effects::Eviction;
use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::names::PodUid;
use crate::objects::Kind;
use crate::plugin::{
    EnqueueExtensions, HintReads, Nomination, Plugin, PostFilter, PostFiltered, PreEnqueue,
};
use crate::pod_info::PodInfo;
use crate::room::RoomOffer;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Rejection, RejectionKind, Status, Verdict};

/// Name of the plugin.
pub const DEFAULT_PREEMPTION: PluginName = "DefaultPreemption";

/// How many pods one search may take off their nodes and put back, where sums don't say what comes of it.
/// kube-scheduler has no such limit. A cycle is nobody else's, and this many take some tens of milliseconds; the next
/// one begins elsewhere.
const MOVES: usize = 100_000;

/// Preemption by priority.
#[derive(Debug)]
pub struct DefaultPreemption {
    args: PreemptionArgs,
    /// See [`MOVES`].
    moves: usize,
    leave: Arc<dyn EvictionLeave>,
    /// The pods whose evictions are under way.
    evicting: Mutex<HashSet<PodUid>>,
}

impl DefaultPreemption {
    /// With arguments.
    pub fn new(args: PreemptionArgs) -> Self {
        Self {
            args,
            moves: MOVES,
            leave: Arc::new(Everybody),
            evicting: Mutex::default(),
        }
    }

    /// The same, but asking `leave` for each pod.
    #[must_use]
    pub fn with_leave(self, leave: Arc<dyn EvictionLeave>) -> Self {
        Self { leave, ..self }
    }

    #[cfg(test)]
    fn with_moves(self, moves: usize) -> Self {
        Self { moves, ..self }
    }

    fn evicting(&self) -> MutexGuard<'_, HashSet<PodUid>> {
        self.evicting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node where room costs least, or why there is none.
    fn choose(
        &self,
        cycle: &mut Cycle<'_>,
        state: &CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> Result<Candidate, PostFiltered> {
        let cx = cycle.context();
        if let Some(obstacle) = eligibility::obstacle(&cx, pod, statuses) {
            return Err(no_help(Nomination::Keep, obstacle));
        }
        let nodes = dry_run::potential_nodes(&cx, statuses);
        // Where the pod is expected it may have been told what it costs, or have evicted somebody already. To begin
        // there is as fair as anywhere.
        let expected = cx.nominator().node_of(&pod.uid);
        let expected = expected.and_then(|node| cx.nodes().id(node));
        let expected = expected.and_then(|id| nodes.iter().position(|node| *node == id));
        let offset = expected.unwrap_or_else(|| cycle.pick(nodes.len()));
        let extent = Extent {
            offset,
            enough: self.args.candidates(nodes.len()),
            moves: self.moves,
        };
        let Found {
            candidates,
            mut statuses,
            errors,
        } = dry_run::search(cycle, state, pod, &nodes, extent);
        // The first of the cheapest.
        let cheapest = candidates
            .into_iter()
            .min_by_key(|candidate| candidate.cost);
        cheapest.ok_or_else(|| {
            if !errors.is_empty() {
                let status = Status::error(format!("preemption: {}", all(&errors)));
                return PostFiltered::no_help(Nomination::Keep, status);
            }
            let kind = RejectionKind::UnschedulableAndUnresolvable;
            let why = "Preemption is not helpful for scheduling";
            statuses.set_others(Rejection::new(kind, why));
            let report = Diagnosis {
                statuses,
                ..Diagnosis::default()
            };
            no_help(Nomination::Clear, &report.to_string())
        })
    }
}

fn no_help(nomination: Nomination, why: &str) -> PostFiltered {
    let status = Status::unschedulable(format!("preemption: {why}"));
    PostFiltered::no_help(nomination, status)
}

/// Errors as one text, each once.
fn all(errors: &[PluginError]) -> String {
    let mut known = BTreeSet::new();
    let texts = errors.iter().map(ToString::to_string);
    let texts = texts.filter(|text| known.insert(text.clone()));
    let texts = texts.collect::<Vec<_>>();
    match &*texts {
        [only] => only.clone(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

impl Default for DefaultPreemption {
    fn default() -> Self {
        Self::new(PreemptionArgs::default())
    }
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> PluginName {
        DEFAULT_PREEMPTION
    }

    fn wants(&self) -> &'static [Kind] {
        &[Kind::PodDisruptionBudget]
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        cycle: &mut Cycle<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFiltered {
        let Candidate {
            node,
            victims,
            cost,
        } = match self.choose(cycle, state, pod, statuses) {
            Ok(chosen) => chosen,
            Err(none) => return none,
        };
        let seconds = victims.iter().map(|victim| victim.grace_seconds).max();
        let grace = Duration::from_secs(seconds.unwrap_or_default().into());
        // Those that are going already need no eviction.
        let staying = victims.iter().filter(|victim| !victim.deleting);
        let evicted = staying.map(|victim| victim.uid.clone()).collect::<Vec<_>>();
        match self.leave.take(pod, &cost, grace) {
            Leave::Evict => {}
            Leave::Offer => {
                let offer = RoomOffer {
                    node: node.clone(),
                    cost,
                    grace,
                };
                state.request(|effects| effects.offer_room(offer));
                return PostFiltered::nominate(node);
            }
            Leave::Used if evicted.is_empty() => {}
            Leave::Used | Leave::Refuse => {
                return no_help(Nomination::Clear, "not allowed at this cost.");
            }
        }
        if !evicted.is_empty() {
            let cx = cycle.context();
            state.request(|effects| {
                // They may not fit there any more, and find another place sooner if they needn't wait.
                let expected = cx.nominator().pods_on(&node);
                for other in expected.filter(|other| other.priority < pod.priority) {
                    effects.clear_nomination(other.uid.clone());
                }
                effects.evict(Eviction {
                    victims: evicted,
                    preemptor: pod.uid.clone(),
                    plugin: DEFAULT_PREEMPTION,
                });
            });
        }
        PostFiltered::nominate(node)
    }

    fn evicting(&self, preemptor: &PodUid, under_way: bool) {
        let mut evicting = Self::evicting(self);
        if under_way {
            evicting.insert(preemptor.clone());
        } else {
            evicting.remove(preemptor);
        }
    }
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        if Self::evicting(self).contains(&pod.uid) {
            let why = "waiting for the preemption for this pod to be finished";
            return Err(Status::unresolvable(why));
        }
        Ok(())
    }
}

impl EnqueueExtensions for DefaultPreemption {
    /// Pods that go let those plugins speak again that rejected the pod.
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(EventResource::Pod, Actions::DELETE)]
    }

    /// When to try again is what the others say.
    fn hint(&self, _pod: &PodInfo, _event: &Event) -> Hint {
        Hint::Skip
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}
