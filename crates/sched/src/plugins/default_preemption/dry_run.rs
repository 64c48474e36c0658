//! Owns the search for nodes where room can be made: which nodes are tried, in which order, and when there are enough.
//! As in kube-scheduler 1.36.3 (`DryRunPreemption`), which tries several nodes at once and may find a few more.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use super::budgets::Budgets;
use super::cost::PreemptionCost;
use super::ground::{Filters, Sums, Tried};
use super::importance::Lower;
use super::victims::{self, Victims};
use crate::context::{Context, Cycle};
use crate::cycle::NodeStatuses;
use crate::names::NodeName;
use crate::plugin::PodSums;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginError, Rejection, RejectionKind, Status};
use crate::table::{NodeId, NodeView};

/// A node where room can be made.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: NodeName,
    pub(super) victims: Vec<Arc<PodInfo>>,
    pub(super) cost: PreemptionCost,
}

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// Those that break no budget first.
    pub(super) candidates: Vec<Candidate>,
    /// Why other nodes that were tried are none.
    pub(super) statuses: NodeStatuses,
    pub(super) errors: Vec<PluginError>,
}

/// The nodes that were refused in a way that pods' leaving may change.
pub(super) fn potential_nodes(cx: &Context<'_>, statuses: &NodeStatuses) -> Vec<NodeId> {
    let table = cx.nodes();
    if statuses.others().is_some_and(Rejection::resolvable) {
        let refused = statuses.rejected_in(table);
        let hopeless = refused.filter(|(_, why)| !why.resolvable());
        let hopeless = hopeless.map(|(node, _)| node).collect::<HashSet<_>>();
        let nodes = table.ids().iter().copied();
        return nodes.filter(|node| !hopeless.contains(node)).collect();
    }
    let refused = statuses.rejected_in(table);
    let resolvable = refused.filter(|(_, why)| why.resolvable());
    resolvable.map(|(node, _)| node).collect()
}

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// At which of the nodes it begins.
    pub(super) offset: usize,
    /// How many candidates are enough, if one of them breaks no budget.
    pub(super) enough: usize,
    /// How many pods it may take off their nodes for a try.
    pub(super) moves: usize,
}

/// Tries `nodes`, one after the other.
pub(super) fn search(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    nodes: &[NodeId],
    Extent {
        offset,
        enough,
        moves,
    }: Extent,
) -> Found {
    let mut search = Search {
        filters: Filters::of(cycle.profile(), state),
        state,
        pod,
        budgets: OnceCell::new(),
        found: Found {
            candidates: Vec::new(),
            statuses: NodeStatuses::new(cycle.context().nodes().len()),
            errors: Vec::new(),
        },
        breaking: Vec::new(),
        aside: Vec::new(),
        moves,
    };
    let (before, from) = nodes.split_at(offset.min(nodes.len()));
    for &node in from.iter().chain(before) {
        search.visit(cycle, node);
        if search.has(enough) {
            break;
        }
    }
    search.end(cycle, enough)
}

struct Search<'a> {
    filters: Filters<'a>,
    state: &'a CycleState,
    pod: &'a PodInfo,
    budgets: OnceCell<Budgets>,
    /// Its candidates break no budget.
    found: Found,
    /// Candidates that do.
    breaking: Vec<Candidate>,
    /// Nodes that are refused in any case; by whom is asked only if somebody wants to know.
    aside: Vec<NodeId>,
    /// How many pods may still be taken off their nodes.
    moves: usize,
}

impl Search<'_> {
    fn has(&self, enough: usize) -> bool {
        let kept = |candidates: &[Candidate]| candidates.len().min(enough);
        let (good, breaking) = (kept(&self.found.candidates), kept(&self.breaking));
        good > 0 && good.saturating_add(breaking) >= enough
    }

    /// Tries a node, unless it is clear from sums that it is none.
    fn visit(&mut self, cycle: &mut Cycle<'_>, id: NodeId) {
        let cx = cycle.context();
        let table = cx.nodes();
        let Some(node) = table.get(id) else {
            return;
        };
        let lowest = table.numbers().lowest_priority(id);
        if lowest.is_none_or(|lowest| lowest >= self.pod.priority) {
            let kind = RejectionKind::UnschedulableAndUnresolvable;
            let why = "No preemption victims found for incoming pod";
            return self.refused(Rejection::new(kind, why));
        }
        if !self.filters.sums_suffice() && self.is_hopeless(node) {
            self.aside.push(id);
            return;
        }
        self.try_out(cycle, id);
    }

    /// Whether free room plus the room of all pods of lower priority isn't enough.
    fn is_hopeless(&self, node: NodeView<'_>) -> bool {
        let mut gone = PodSums::default();
        let others = node.row().pods().iter();
        for lower in others.filter(|other| other.priority < self.pod.priority) {
            gone.add(lower);
        }
        self.filters.refuse(self.pod, node, &gone)
    }

    fn try_out(&mut self, cycle: &mut Cycle<'_>, id: NodeId) {
        let cx = cycle.context();
        let Some(node) = cx.nodes().get(id) else {
            return;
        };
        let others = node.pods().iter().enumerate();
        let lower = others.filter(|(_, other)| other.priority < self.pod.priority);
        let lower = lower.map(|(at, pod)| Lower {
            pod: pod.clone(),
            at,
        });
        let lower: Vec<_> = lower.collect();
        if !self.filters.sums_suffice() {
            let Some(left) = self.moves.checked_sub(lower.len()) else {
                let why = "node(s) not tried: too many pods would have to be moved to see whether it helps";
                return self.refused(Rejection::new(RejectionKind::Unschedulable, why));
            };
            self.moves = left;
        }
        let budgets = (self.budgets).get_or_init(|| Budgets::read(cx.objects()));
        let chosen = if self.filters.sums_suffice() {
            let mut ground = Sums::new(&cx, &self.filters, self.state, self.pod, node);
            victims::choose(&mut ground, lower, budgets)
        } else {
            let mut ground = Tried {
                what_if: cycle.what_if(),
                state: self.state.clone(),
                pod: self.pod,
                node: id,
            };
            victims::choose(&mut ground, lower, budgets)
        };
        let cx = cycle.context();
        if let Some(node) = cx.nodes().get(id) {
            self.tried(node, chosen);
        }
    }

    fn tried(&mut self, node: NodeView<'_>, chosen: Result<Victims, Status>) {
        let Victims { pods, violations } = match chosen {
            Ok(victims) => victims,
            Err(Status::Rejected(rejection)) => return self.refused(rejection),
            Err(Status::Error(error)) => return self.found.errors.push(error),
        };
        let name = node.name();
        let Some(cost) = PreemptionCost::of(&pods, violations) else {
            let why = format!("expected at least one victim pod on node {name:?}");
            return self.found.errors.push(PluginError::new(why));
        };
        let candidates = if violations == 0 {
            &mut self.found.candidates
        } else {
            &mut self.breaking
        };
        candidates.push(Candidate {
            node: name.clone(),
            victims: pods,
            cost,
        });
    }

    fn refused(&mut self, rejection: Rejection) {
        self.found.statuses.count(rejection, 1);
    }

    fn end(mut self, cycle: &mut Cycle<'_>, enough: usize) -> Found {
        // What exceeds the number came last. A share of few nodes may be none at all.
        self.found.candidates.truncate(enough);
        self.breaking.truncate(enough);
        if self.found.candidates.is_empty() && self.breaking.is_empty() {
            for id in std::mem::take(&mut self.aside) {
                self.try_out(cycle, id);
            }
        }
        self.found.candidates.append(&mut self.breaking);
        self.found
    }
}
