//! Matches nodes with `nodeSelector`, node affinity, and an affinity that the configuration adds to every pod.

use k8s_openapi::api::core::v1 as core;

use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::labels::{Labels, RequirementError};
use crate::names;
use crate::node_affinity::{NodeAffinityTerms, NodeSelectorTerm, PreferredNodeTerm};
use crate::node_info::NodeInfo;
use crate::plugin::{
    EnqueueExtensions, Filter, Plugin, PreFilter, PreFiltered, PreScore, PreScored, Score,
    normalize_by_max,
};
use crate::pod_info::PodInfo;
use crate::snapshot::SnapshotNode;
use crate::state::CycleState;
use crate::status::{PluginName, Reason, Status, Verdict};

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
        if pod.node_affinity.matches(name, labels) {
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
                let matched = old
                    .as_ref()
                    .is_some_and(|old| self.check(pod, &old.name, old.labels()).is_ok());
                Hint::queue_if(!matched && self.check(pod, &new.name, new.labels()).is_ok())
            }
            _ => Hint::Queue,
        }
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        if pod.node_affinity.is_empty() && self.added_required.is_none() {
            return Ok(PreFiltered::Skip);
        }
        match pod.node_affinity.pinned_names() {
            None => Ok(PreFiltered::AllNodes),
            Some(names) if names.is_empty() => Err(Status::unresolvable(CONFLICT)),
            Some(names) => Ok(PreFiltered::Nodes(
                names.into_iter().map(names::NodeName::from).collect(),
            )),
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict {
        self.check(pod, node.name(), node.labels())
            .map_err(Status::unresolvable)
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
        _nodes: &[SnapshotNode],
    ) -> Verdict<PreScored> {
        let nothing = pod.preferred_nodes.is_empty() && self.added_preferred.is_empty();
        Ok(if nothing {
            PreScored::Skip
        } else {
            PreScored::Proceed
        })
    }
}

impl Score for NodeAffinity {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Verdict<i64> {
        let terms = self.added_preferred.iter().chain(&pod.preferred_nodes);
        Ok(terms
            .map(|term| term.score(node.name(), node.labels()))
            .sum())
    }

    fn normalize(
        &self,
        _state: &CycleState,
        _pod: &PodInfo,
        _nodes: &[SnapshotNode],
        scores: &mut [i64],
    ) -> Verdict {
        normalize_by_max(false, scores);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
