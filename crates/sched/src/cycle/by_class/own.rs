//! Owns the refusals of nodes that hold for one pod and not for its class: with the pods that are expected there, and
//! of filters that read anything, which are asked for each pod. They go before those of the class.

use crate::context::{Context, Cycle, expected_on};
use crate::guard::caught;
use crate::plugin::Filter;
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId, Rejections};
use crate::state::CycleState;
use crate::status::{PluginError, Rejection, Status};
use crate::table::{NodeId, NodeView};

/// Who refuses which node, and why.
#[derive(Debug, Default)]
pub(super) struct Own {
    rejections: Rejections,
    // By row; empty as long as there are none.
    by_row: Vec<Option<RejectionId>>,
}

impl Own {
    /// Nodes that won't do with the pods that are nominated to them. What is known of the class is known without those.
    pub(super) fn crowded(
        cycle: &mut Cycle<'_>,
        state: &CycleState,
        pod: &PodInfo,
    ) -> Result<Self, PluginError> {
        let cx = cycle.context();
        let nominator = cx.nominator();
        let expecting = nominator
            .nodes()
            .filter_map(|node| cx.nodes().by_name(node));
        let expecting =
            expecting.filter(|node| expected_on(nominator, pod, *node).next().is_some());
        let expecting = expecting.map(NodeView::id).collect::<Vec<_>>();
        let rows = cx.nodes().rows();
        let mut own = Self::default();
        for id in expecting {
            match cycle.filter_with_nominated(state, pod, id) {
                Ok(()) => {}
                Err(Status::Rejected(rejection)) => {
                    let why = own.rejections.id(rejection);
                    own.refuse(id, why, rows);
                }
                Err(Status::Error(error)) => return Err(error),
            }
        }
        Ok(own)
    }

    /// Whether no filter is asked for each pod.
    pub(super) fn asks_nobody(cx: &Context<'_>, state: &CycleState) -> bool {
        fresh(cx, state).next().is_none()
    }

    /// Asks the filters that are asked for each pod about the nodes. Those that one of them refuses are taken out.
    pub(super) fn ask(
        &mut self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &mut Vec<NodeId>,
    ) -> Result<(), PluginError> {
        for (_, filter) in fresh(cx, state) {
            self.ask_one(filter, cx, state, pod, nodes)?;
            if nodes.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The same about those of the nodes for which a filter comes before the place `until` in the profile.
    pub(super) fn ask_before(
        &mut self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &mut Vec<NodeId>,
        until: impl Fn(NodeId) -> usize,
    ) -> Result<(), PluginError> {
        for (place, filter) in fresh(cx, state) {
            let asked = nodes.iter().copied().filter(|id| place < until(*id));
            let mut asked = asked.collect();
            self.ask_one(filter, cx, state, pod, &mut asked)?;
            self.leave_out(nodes);
        }
        Ok(())
    }

    /// Takes the nodes out that one filter refuses.
    fn ask_one(
        &mut self,
        filter: &dyn Filter,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &mut Vec<NodeId>,
    ) -> Result<(), PluginError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let name = filter.name();
        let mut refusals = Refusals::new(name, &mut self.rejections);
        caught(|| filter.filter_all(state, pod, cx.nodes(), nodes, &mut refusals))
            .map_err(|panic| panic.by(name))?
            .map_err(|error| error.by(name))?;
        let refused = refusals.into_refused();
        for &(at, why) in &refused {
            self.refuse(nodes[at], why, cx.nodes().rows());
        }
        if !refused.is_empty() {
            self.leave_out(nodes);
        }
        Ok(())
    }

    fn refuse(&mut self, node: NodeId, why: RejectionId, rows: usize) {
        if self.by_row.is_empty() {
            self.by_row.resize(rows, None);
        }
        self.by_row[node.index()] = Some(why);
    }

    /// Takes the refused ones out of some nodes.
    pub(super) fn leave_out(&self, nodes: &mut Vec<NodeId>) {
        if !self.by_row.is_empty() {
            nodes.retain(|id| self.by_row[id.index()].is_none());
        }
    }

    /// The number of the rejection of this node, if it is refused.
    pub(super) fn refusal(&self, node: NodeId) -> Option<RejectionId> {
        self.by_row.get(node.index()).copied().flatten()
    }

    /// Why this node is refused, if it is.
    #[cfg(test)]
    pub(super) fn rejection(&self, node: NodeId) -> Option<&Rejection> {
        Some(self.rejections.get(self.refusal(node)?))
    }

    /// The refused nodes.
    pub(super) fn refused(&self) -> impl Iterator<Item = (NodeId, RejectionId)> {
        let rows = self.by_row.iter().enumerate();
        rows.filter_map(|(row, why)| Some((NodeId::new(row), (*why)?)))
    }

    /// Each rejection with how many nodes have it.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&Rejection, usize)> {
        let mut counts = vec![0_usize; self.rejections.len()];
        for (_, why) in self.refused() {
            counts[why.index()] = counts[why.index()].saturating_add(1);
        }
        self.rejections.iter().zip(counts)
    }
}

/// The filters that are asked for each pod and concern this one, with their places in the profile.
fn fresh<'a>(
    cx: &Context<'a>,
    state: &CycleState,
) -> impl Iterator<Item = (usize, &'a dyn Filter)> {
    let fresh = cx.profile().fresh_filters();
    let skipped = state.skipped_filters;
    let filters = cx.profile().filters().iter().enumerate();
    let asked =
        filters.filter(move |(place, _)| fresh.contains(*place) && !skipped.contains(*place));
    asked.map(|(place, filter)| (place, &**filter))
}
