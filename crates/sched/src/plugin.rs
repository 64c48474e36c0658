//! Owns the extension points: one object-safe trait each. Knows nothing of any plugin.
//!
//! Points of the scheduling cycle are synchronous, borrow what they look at, and never do I/O; `PreBind` and
//! Bind return futures. What a plugin wants to remember from point to point goes into the [`CycleState`];
//! what it wants done to other pods goes through [`CycleState::request`]. Facts from outside (volumes, answers
//! of other clusters) reach a plugin through shared data that it holds and that somebody else fills.
//!
//! All but `PreBind` and Bind run while the driver holds the scheduler: they must not call back into it, nor wait. A
//! plugin that panics has failed, for that pod alone; where no answer is needed it is only told.
//!
//! Plugins that can reject a pod implement [`EnqueueExtensions`] too, since a pod without an event that
//! brings it back would wait for the five-minute flush: the compiler asks for it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::context::{Context, Cycle};
use crate::counts::PodSet;
use crate::cycle::NodeStatuses;
use crate::event::{Event, EventKind, Hint};
use crate::names::{NodeName, PodUid};
use crate::objects::Kind;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::queue::QueuedPod;
use crate::refusals::Refusals;
use crate::resources::ResourceSum;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};

/// The best score of a node, after normalizing. The worst is 0.
pub const MAX_NODE_SCORE: i64 = 100;

/// What all plugins have.
pub trait Plugin: Send + Sync + 'static {
    /// Its name in configuration, reports and metrics. Unique in a profile.
    fn name(&self) -> PluginName;

    /// The kinds of objects beside pods and nodes that it reads from [`Context::objects`]. Only these are there. What
    /// such a plugin says of a node depends on [`Reads::ANYTHING`].
    fn wants(&self) -> &'static [Kind] {
        &[]
    }
}

/// What a [hint](EnqueueExtensions::hint) reads of the rejected pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HintReads {
    /// Its [needs](PodInfo::needs) alone.
    Needs,
    /// Its labels and its namespace, too.
    Labels,
    /// Anything else.
    Pod,
}

/// Which events may make a pod schedulable again that this plugin rejected.
pub trait EnqueueExtensions: Plugin {
    /// The kinds of events. `vec![EventKind::ANY]` if the plugin can't tell; an empty list means that only
    /// the five-minute flush, or an activation, brings the pod back.
    fn events(&self) -> Vec<EventKind>;

    /// Looks closer at an event of a registered kind. When in doubt, say [`Hint::Queue`].
    ///
    /// `pod` is the rejected pod as it is now.
    fn hint(&self, _pod: &PodInfo, _event: &Event) -> Hint {
        Hint::Queue
    }

    /// What of the pod the hint reads, events about the pod itself apart: one answer holds for all pods that are equal
    /// in that. In doubt leave it at [`HintReads::Pod`]: then it is asked for each pod.
    fn hint_reads(&self) -> HintReads {
        HintReads::Pod
    }

    /// What of a rejected pod's needs the hint about an event of a node reads: one answer holds for all pods of which
    /// this is equal. `None` if it reads more than can be told in short.
    fn reads_for_nodes(&self, _needs: &PodNeeds) -> Option<String> {
        None
    }

    /// To whom other pods matter, so that not every pod that waits is asked about when one of them comes, changes or
    /// goes; `None` if the plugin can't tell.
    fn other_pods(&self) -> Option<&dyn OtherPods> {
        None
    }

    /// Which labels of a node matter, so that not every pod that waits is asked about when others change; `None` if
    /// the plugin can't tell.
    fn node_labels(&self) -> Option<&dyn NodeLabels> {
        None
    }
}

/// Which labels of a node matter, for hints of [`EnqueueExtensions`]: a hint about an event that tells of a node's
/// labels alone mustn't be [`Hint::Queue`] unless one of them changes.
pub trait NodeLabels {
    /// The keys that matter to a rejected pod with these needs.
    fn read(&self, needs: &PodNeeds) -> BTreeSet<String>;
}

/// To whom other pods matter, for hints of [`EnqueueExtensions`]. What is said here may be too much, but not too
/// little: a hint about an event of another pod mustn't be [`Hint::Queue`] unless that pod, before or after, is in a
/// set that the rejected pod [seeks](OtherPods::sought), or the rejected pod is in one that the other [kept
/// away](OtherPods::kept_away).
pub trait OtherPods {
    /// The pods that matter to a rejected pod with these needs; `None` if any may.
    fn sought(&self, needs: &PodNeeds) -> Option<Vec<PodSet>>;

    /// The pods to whom it matters that this one changes or goes, by what that one wants itself.
    fn kept_away(&self, _other: &PodInfo) -> Vec<PodSet> {
        Vec::new()
    }
}

/// Says whether a pod may be tried at all. Runs whenever it would enter the active or the backoff queue.
pub trait PreEnqueue: EnqueueExtensions {
    /// Must be cheap. A rejected pod is *gated*: only this plugin's events bring it back here.
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict;
}

/// Orders the active queue. One for the whole process.
pub trait QueueSort: Plugin {
    /// `Less` if `a` comes first. Must be a total order over what can't change while a pod is queued.
    fn compare(&self, a: &QueuedPod, b: &QueuedPod) -> Ordering;
}

/// What a [`PreFilter`] plugin found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFiltered {
    /// Any node may do.
    AllNodes,
    /// Only these may; names that don't exist are ignored. Sets of several plugins are intersected.
    Nodes(BTreeSet<NodeName>),
    /// This plugin isn't concerned: its Filter, and its AddPod/RemovePod, are left out of this cycle.
    Skip,
}

/// Looks at the pod, and at all nodes, once a cycle.
pub trait PreFilter: EnqueueExtensions {
    /// Computes what Filter needs, and narrows the search if it can.
    ///
    /// `Unschedulable` and `Pending` rejections let the remaining plugins speak before the cycle ends.
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered>;

    /// The part that follows pods which come and go in a *what if*; `None` if Filter looks only at the
    /// [`NodeView`] given to it.
    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        None
    }
}

/// Keeps `PreFilter`'s state right when a pod is added to or taken off a node in a *what if*.
pub trait PreFilterExtensions {
    /// `other` now runs on `node`, which holds it already.
    fn add_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict;

    /// `other` left `node`, which holds it no more.
    fn remove_pod(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict;
}

/// Says whether a node will do. Never does I/O; may run in parallel over nodes.
pub trait Filter: EnqueueExtensions {
    /// Must look only at `node` for what is on it, never at the table: in a *what if* they may differ.
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict;

    /// What the answer depends on. In doubt leave it at [`Reads::ANYTHING`]: then it is asked for in every cycle.
    fn reads(&self) -> Reads {
        Reads::ANYTHING
    }

    /// The same for many nodes: refuses those of `nodes` that won't do. Worth writing where columns or equal parts
    /// of nodes make it faster; must say what [`Filter::filter`] says.
    fn filter_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        for (at, &id) in nodes.iter().enumerate() {
            if let Some(node) = table.get(id) {
                refusals.note(at, self.filter(state, pod, node))?;
            }
        }
        Ok(())
    }

    /// The same by the sums of the pods on a node; `None` if the answer depends on more of these pods.
    fn by_sums(&self) -> Option<&dyn FilterBySums> {
        None
    }
}

/// Says whether a node would do if pods left it, without a *what if*: for a Filter to which the pods on a node are
/// nothing but their number and the sum of their requests.
pub trait FilterBySums {
    /// Must be what [`Filter::filter`] says once the pods have left.
    fn filter_without(&self, pod: &PodInfo, node: NodeView<'_>, gone: &PodSums) -> Verdict;
}

/// The sums of some pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSums {
    /// How many there are. Fewer than none if others come than go.
    pub pods: i64,
    /// What they ask for.
    pub requests: ResourceSum,
}

impl PodSums {
    /// One more.
    pub fn add(&mut self, pod: &PodInfo) {
        self.pods = self.pods.saturating_add(1);
        self.requests.add(&pod.needs.requests.total);
    }

    /// One less.
    pub fn subtract(&mut self, pod: &PodInfo) {
        self.pods = self.pods.saturating_sub(1);
        self.requests.subtract(&pod.needs.requests.total);
    }
}

/// What to do with a pod's nomination (`status.nominatedNodeName`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Take it away.
    Clear,
    /// The pod is expected on this node.
    Set(NodeName),
}

/// What a [`PostFilter`] plugin achieved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostFiltered {
    /// What becomes of the nomination. Of several plugins that couldn't help, the last that doesn't say
    /// [`Nomination::Keep`] counts.
    pub nomination: Nomination,
    /// Whether it helped. An *unschedulable* rejection lets the next plugin try; anything else ends the point
    /// and is all that the report says of it.
    pub verdict: Verdict,
}

impl PostFiltered {
    /// Room is being made on this node.
    pub const fn nominate(node: NodeName) -> Self {
        Self {
            nomination: Nomination::Set(node),
            verdict: Ok(()),
        }
    }

    /// No help, for this reason.
    pub const fn no_help(nomination: Nomination, status: Status) -> Self {
        Self {
            nomination,
            verdict: Err(status),
        }
    }
}

/// Tries to help a pod that fits nowhere, by preemption for example. The pod is reported unschedulable in any
/// case; help counts for its next try.
pub trait PostFilter: Plugin {
    /// Looks for help; `statuses` says why each node was rejected. It may ask *what if*: see [`Cycle::what_if`].
    fn post_filter(
        &self,
        cycle: &mut Cycle<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFiltered;

    /// Pods that it wants [evicted](crate::Effects::evict) for this one are being evicted now, or not any more. It is
    /// told before the pod comes back into the queue.
    fn evicting(&self, _preemptor: &PodUid, _under_way: bool) {}
}

/// Whether a [`PreScore`] plugin wants its Score to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScored {
    /// It does.
    Proceed,
    /// Its Score is left out of this cycle.
    Skip,
}

/// Looks at the feasible nodes once, before they are scored.
pub trait PreScore: Plugin {
    /// Computes what Score needs. Rejections are errors here.
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
    ) -> Verdict<PreScored>;
}

/// Ranks feasible nodes. May run in parallel over nodes.
pub trait Score: Plugin {
    /// A raw score, of any range that `normalize` brings to 0..=100; `i64::MIN` is none. Rejections are errors here.
    fn score(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64>;

    /// What the raw score depends on. In doubt leave it at [`Reads::ANYTHING`]: then it is asked for in every cycle.
    fn reads(&self) -> Reads {
        Reads::ANYTHING
    }

    /// The same for many nodes: appends one raw score for each of `nodes`. Worth writing where columns or equal parts
    /// of nodes make it faster; must say what [`Score::score`] says.
    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        for &id in nodes {
            let node = table.get(id);
            scores.push(node.map_or(Ok(0), |node| self.score(state, pod, node))?);
        }
        Ok(())
    }

    /// Brings the raw scores (one a node, same order) to 0..=100. Needed unless they are so already.
    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        _nodes: &[NodeId],
        _scores: &mut [i64],
    ) -> Verdict {
        Ok(())
    }
}

/// Takes what the pod needs on the chosen node, beside its room, which the cache has taken already.
pub trait Reserve: EnqueueExtensions {
    /// Takes it. If any plugin fails, *all* get `unreserve`.
    fn reserve(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        node: &NodeName,
    ) -> Verdict;

    /// Gives it back. Must be idempotent, and may come without a `reserve` before it.
    fn unreserve(&self, state: &mut CycleState, pod: &PodInfo, node: &NodeName);
}

/// What a [`Permit`] plugin decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitDecision {
    /// Go on.
    Allow,
    /// Hold the pod until it is allowed or rejected in this plugin's name, at most this long (and never
    /// longer than [`crate::MAX_PERMIT_WAIT`]).
    Wait(Duration),
}

/// Holds or rejects a pod that has a node, before it is bound.
pub trait Permit: EnqueueExtensions {
    /// Decides. `Wait` of one plugin doesn't keep the others from rejecting.
    fn permit(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        node: &NodeName,
    ) -> Verdict<PermitDecision>;
}

/// Whether a [`PreBind`] plugin has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preflight {
    /// It has. Neighbours that are all `parallel` run together.
    Act {
        /// May run beside other plugins.
        parallel: bool,
    },
    /// Its `pre_bind` is left out.
    Skip,
}

/// Prepares binding: volumes, networks. Does I/O.
pub trait PreBind: Plugin {
    /// Says, without I/O, whether there is something to do. Rejections are errors here.
    fn preflight(&self, state: &CycleState, pod: &PodInfo, node: &NodeName) -> Verdict<Preflight>;

    /// Does it. The future may be dropped: [`Reserve::unreserve`] has to cope with what is half done.
    fn pre_bind<'a>(
        &'a self,
        state: &'a CycleState,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Verdict>;
}

/// What a [`Bind`] plugin did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The pod is bound.
    Done,
    /// Not mine: the next plugin shall.
    Skip,
}

/// Binds the pod. Does I/O.
pub trait Bind: Plugin {
    /// Binds the pod to the node, or leaves it to the next plugin.
    fn bind<'a>(
        &'a self,
        state: &'a CycleState,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Verdict<Bound>>;
}

/// Is told that a pod was bound.
pub trait PostBind: Plugin {
    /// For clean-up and bookkeeping; can't fail.
    fn post_bind(&self, state: &CycleState, pod: &PodInfo, node: &NodeName);
}

/// Scales raw scores so that the best gets 100; with `reverse`, so that the *lowest* raw score is best.
pub fn normalize_by_max(reverse: bool, scores: &mut [i64]) {
    let max = scores.iter().copied().max().unwrap_or(0);
    if max == 0 && scores.iter().all(|score| *score == 0) {
        return scores.fill(if reverse { MAX_NODE_SCORE } else { 0 });
    }
    for score in scores {
        let scaled = MAX_NODE_SCORE.saturating_mul(*score).checked_div(max);
        let scaled = scaled.unwrap_or(0);
        *score = if reverse {
            MAX_NODE_SCORE.saturating_sub(scaled)
        } else {
            scaled
        };
    }
}

#[cfg(test)]
mod tests {
    use super::normalize_by_max;

    #[test]
    fn scaling_by_the_best() {
        for (raw, reverse, expected) in [
            (vec![10, 30, 0], false, vec![33, 100, 0]),
            (vec![0, 2, 1], true, vec![100, 0, 50]),
            (vec![0, 0], false, vec![0, 0]),
            (vec![0, 0], true, vec![100, 100]),
            (vec![], true, vec![]),
        ] {
            let mut scores = raw;
            normalize_by_max(reverse, &mut scores);
            assert_eq!(scores, expected);
        }
    }
}
