//! Matches nodes with `nodeSelector`, node affinity, and an affinity that the configuration adds to every pod. As in
//! kube-scheduler 1.36.3 (`plugins/nodeaffinity`).
//!
//! Its hint asks whether a node matches that didn't before, the configuration's affinity included; upstream's asks that
//! of the pod's own alone, so that pods miss nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;

use super::by_set;
use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::labels::{Labels, RequirementError};
use crate::names;
use crate::node_affinity::{
    NodeAffinityTerms, NodeSelectorTerm, PreferredNodeTerm, all_read_shared_labels,
};
use crate::node_object::NodeObject;
use crate::plugin::{
    EnqueueExtensions, Filter, HintReads, NodeLabels, Plugin, PreFilter, PreFiltered, PreScore,
    PreScored, Score, normalize_by_max,
};
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::refusals::Refusals;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Reason, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};

const POD: Reason = Reason::fixed("node(s) didn't match Pod's node affinity/selector");
const ENFORCED: Reason = Reason::fixed("node(s) didn't match scheduler-enforced node affinity");
const CONFLICT: Reason = Reason::fixed("pod affinity terms conflict");

/// Node selectors and node affinity.
#[derive(Clone, Debug, Default)]
pub struct NodeAffinity {
    added_required: Option<Vec<NodeSelectorTerm>>,
    added_preferred: Vec<PreferredNodeTerm>,
}

impl NodeAffinity {
    /// With an affinity that every pod of the profile has, beside its own (`addedAffinity`).
    pub fn with_added(affinity: &core::NodeAffinity) -> Result<Self, RequirementError> {
        let NodeAffinityTerms {
            required,
            preferred,
        } = NodeAffinityTerms::parse(affinity)?;
        let terms = required.iter().flatten();
        let mut terms = terms.chain(preferred.iter().map(|preferred| &preferred.term));
        if let Some(error) = terms.find_map(NodeSelectorTerm::misnamed) {
            return Err(error);
        }
        Ok(Self {
            added_required: required,
            added_preferred: preferred,
        })
    }

    fn check(&self, pod: &PodInfo, name: &str, labels: &Labels) -> Result<(), Reason> {
        if let Some(added) = &self.added_required
            && !added.iter().any(|term| term.matches(name, labels))
        {
            return Err(ENFORCED);
        }
        if pod.needs.node_affinity.matches(name, labels) {
            Ok(())
        } else {
            Err(POD)
        }
    }
}

impl Plugin for NodeAffinity {
    fn name(&self) -> PluginName {
        "NodeAffinity"
    }
}

impl EnqueueExtensions for NodeAffinity {
    fn events(&self) -> Vec<EventKind> {
        vec![EventKind::new(
            EventResource::Node,
            Actions::ADD | Actions::UPDATE_NODE_LABEL,
        )]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Node {
                old,
                new: Some(new),
            } => {
                // Of thousands that wait it matches few.
                let matches =
                    |node: &NodeObject| self.check(pod, &node.name, node.labels()).is_ok();
                Hint::queue_if(matches(new) && !old.as_deref().is_some_and(matches))
            }
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }

    fn node_labels(&self) -> Option<&dyn NodeLabels> {
        Some(self)
    }
}

impl NodeLabels for NodeAffinity {
    fn read(&self, needs: &PodNeeds) -> BTreeSet<String> {
        let added = self.added_required.iter().flatten();
        let added = added.flat_map(NodeSelectorTerm::keys);
        needs.node_affinity.keys().chain(added).cloned().collect()
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        if pod.needs.node_affinity.is_empty() && self.added_required.is_none() {
            return Ok(PreFiltered::Skip);
        }
        match pod.needs.node_affinity.pinned_names() {
            None => Ok(PreFiltered::AllNodes),
            Some(names) if names.is_empty() => Err(Status::unresolvable(CONFLICT)),
            Some(names) => Ok(PreFiltered::Nodes(
                names.into_iter().map(names::NodeName::from).collect(),
            )),
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        self.check(pod, node.name(), node.labels())
            .map_err(Status::unresolvable)
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }

    fn filter_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        refusals: &mut Refusals<'_>,
    ) -> Result<(), PluginError> {
        let mut added = self.added_required.iter().flatten();
        let sets = if pod.needs.node_affinity.reads_shared_labels()
            && all_read_shared_labels(&mut added)
        {
            table.label_sets()
        } else {
            0
        };
        let set = (sets, |id| table.label_set(id));
        by_set::filter(self, (state, pod), table, set, nodes, refusals)
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
        _nodes: &[NodeId],
    ) -> Verdict<PreScored> {
        let nothing = pod.needs.preferred_nodes.is_empty() && self.added_preferred.is_empty();
        Ok(if nothing {
            PreScored::Skip
        } else {
            PreScored::Proceed
        })
    }
}

impl Score for NodeAffinity {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let terms = self
            .added_preferred
            .iter()
            .chain(&pod.needs.preferred_nodes);
        Ok(terms
            .map(|term| term.score(node.name(), node.labels()))
            .sum())
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT
    }

    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let mut terms = self
            .added_preferred
            .iter()
            .chain(&pod.needs.preferred_nodes);
        let sets = if terms.all(PreferredNodeTerm::reads_shared_labels) {
            table.label_sets()
        } else {
            0
        };
        let set = (sets, |id| table.label_set(id));
        by_set::score(
            |node| self.score(state, pod, node),
            table,
            set,
            nodes,
            scores,
        )
    }

    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _table: &NodeTable,
        _nodes: &[NodeId],
        scores: &mut [i64],
    ) -> Verdict {
        normalize_by_max(false, scores);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
