//! Owns which nodes count for a pod's constraint: those of its profile's scope, by the node inclusion policies. What was said of equal labels, or of equal
//! taints, isn't worked out again.

use std::convert::Infallible;

use crate::plugins::by_set::BySet;
use crate::pod_info::PodInfo;
use crate::scope::InScope;
use crate::table::{NodeId, NodeTable, NodeView};
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
    by_labels: BySet<bool>,
    by_taints: BySet<bool>,
}

impl<'a> Included<'a> {
    pub(super) fn new(
        pod: &'a PodInfo,
        table: &'a NodeTable,
        comparison: Comparison,
        scope: &'a InScope,
    ) -> Self {
        let label_sets = if pod.needs.node_affinity.reads_shared_labels() {
            table.label_sets()
        } else {
            0
        };
        Self {
            pod,
            table,
            comparison,
            scope,
            by_labels: BySet::new(label_sets),
            by_taints: BySet::new(table.taint_sets()),
        }
    }

    /// Whether this node counts.
    pub(super) fn includes(&mut self, rule: &SpreadRule, id: NodeId) -> bool {
        if !self.scope.has(id) {
            return false;
        }
        let (pod, table) = (self.pod, self.table);
        if rule.honors_affinity && !pod.needs.node_affinity.is_empty() {
            let ask = || table.get(id).is_some_and(|node| allows(pod, node));
            if !known(&mut self.by_labels, table.label_set(id), ask) {
                return false;
            }
        }
        if rule.honors_taints {
            let comparison = self.comparison;
            let ask = || {
                let node = table.get(id);
                node.is_some_and(|node| tolerates(pod, node, comparison))
            };
            return known(&mut self.by_taints, table.taint_set(id), ask);
        }
        true
    }
}

fn known(
    answers: &mut BySet<bool>,
    set: Option<crate::table::SetId>,
    ask: impl FnOnce() -> bool,
) -> bool {
    let Ok(answer) = answers.get(set, || Ok::<_, Infallible>(ask()));
    answer
}
