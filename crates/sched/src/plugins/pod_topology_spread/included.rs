//! Owns which nodes count for a pod's constraint: those of its profile's scope, by the node inclusion policies. What
//! was said of a node isn't worked out again until nodes change.

use crate::pod_info::PodInfo;
use crate::scope::InScope;
use crate::table::{Asks, NodeId, NodeTable, NodeView, RowVerdicts};
use crate::taints::{Comparison, first_untolerated};
use crate::topology_spread::SpreadRule;

/// Whether a node counts for a pod.
pub(super) fn includes(
    rule: &SpreadRule,
    pod: &PodInfo,
    node: NodeView<'_>,
    comparison: Comparison,
) -> bool {
    (!rule.honors_affinity || allows(pod, node))
        && (!rule.honors_taints || tolerates(pod, node, comparison))
}

fn allows(pod: &PodInfo, node: NodeView<'_>) -> bool {
    pod.needs.node_affinity.matches(node.name(), node.labels())
}

fn tolerates(pod: &PodInfo, node: NodeView<'_>, comparison: Comparison) -> bool {
    let taints = &node.node().taints;
    first_untolerated(taints, &pod.needs.tolerations, comparison).is_none()
}

/// The same for many nodes.
pub(super) struct Included<'a> {
    pod: &'a PodInfo,
    table: &'a NodeTable,
    comparison: Comparison,
    scope: &'a InScope,
    allowed: Option<RowVerdicts>,
    tolerated: Option<RowVerdicts>,
}

impl<'a> Included<'a> {
    pub(super) const fn new(
        pod: &'a PodInfo,
        table: &'a NodeTable,
        comparison: Comparison,
        scope: &'a InScope,
    ) -> Self {
        Self {
            pod,
            table,
            comparison,
            scope,
            allowed: None,
            tolerated: None,
        }
    }

    /// The nodes that count by one rule.
    pub(super) fn by(&mut self, rule: &SpreadRule) -> ByRule<'_> {
        let (pod, table, comparison) = (self.pod, self.table, self.comparison);
        let affinity = &pod.needs.node_affinity;
        if rule.honors_affinity && !affinity.is_empty() && self.allowed.is_none() {
            let asks = if affinity.reads_shared_labels() {
                Asks::Labels
            } else {
                Asks::Labelled
            };
            self.allowed = Some(table.verdicts(pod, asks, |node| allows(pod, node)));
        }
        if rule.honors_taints && self.tolerated.is_none() {
            let says = |node: NodeView<'_>| tolerates(pod, node, comparison);
            self.tolerated = Some(table.verdicts(pod, Asks::Taints(comparison), says));
        }
        ByRule {
            scope: self.scope,
            allowed: self.allowed.as_deref().filter(|_| rule.honors_affinity),
            tolerated: self.tolerated.as_deref().filter(|_| rule.honors_taints),
        }
    }
}

/// The nodes that count by one rule.
#[derive(Clone, Copy)]
pub(super) struct ByRule<'a> {
    scope: &'a InScope,
    allowed: Option<&'a [bool]>,
    tolerated: Option<&'a [bool]>,
}

impl ByRule<'_> {
    /// Whether it is certain that all nodes are.
    pub(super) const fn is_everybody(&self) -> bool {
        self.scope.is_everywhere() && self.allowed.is_none() && self.tolerated.is_none()
    }

    /// Whether this node is one of them.
    pub(super) fn includes(&self, id: NodeId) -> bool {
        let says = |rows: Option<&[bool]>| {
            rows.is_none_or(|rows| rows.get(id.index()).copied().unwrap_or(false))
        };
        self.scope.has(id) && says(self.allowed) && says(self.tolerated)
    }
}
