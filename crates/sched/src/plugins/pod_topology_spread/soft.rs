//! Owns the constraints that a pod should keep: how good each node is for them. As in kube-scheduler 1.36.3
//! (`podtopologyspread/scoring.go`).

use std::sync::Arc;

use super::hard::has_all;
use super::included::Included;
use crate::counts::{PlaceId, Topology};
use crate::labels::HOSTNAME;
use crate::plugin::MAX_NODE_SCORE;
use crate::pod_info::PodInfo;
use crate::scope::InScope;
use crate::table::{NodeId, NodeTable};
use crate::taints::Comparison;
use crate::topology_spread::SpreadConstraint;

/// Soft constraints of one pod, counted.
#[derive(Debug)]
pub(super) struct Soft {
    parts: Vec<Part>,
    // By row; empty if no node is.
    ignored: Vec<bool>,
}

/// One constraint.
#[derive(Debug)]
struct Part {
    topology: Arc<Topology>,
    counted: Counted,
    // So that places of a kind that there are few of don't weigh less.
    weight: f64,
    // How much skew doesn't matter: it is the same for all nodes.
    tolerance: f64,
}

/// Pods that count.
#[derive(Debug)]
enum Counted {
    /// By place. Nodes where the pod can't go count, too.
    Places(Vec<i64>),
    /// By row: over hostnames, each node is a place of its own.
    Nodes(Vec<u32>),
}

/// Of one pod, among these feasible nodes.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub(super) pod: &'a PodInfo,
    pub(super) table: &'a NodeTable,
    pub(super) nodes: &'a [NodeId],
    /// The nodes that are there for the pod.
    pub(super) scope: &'a InScope,
    /// Whether nodes count only if they have all labels that pods are spread over.
    pub(super) needs_all_labels: bool,
}

impl Soft {
    /// Counts the pods that are there.
    pub(super) fn count(
        constraints: &[SpreadConstraint],
        ranked: Ranked<'_>,
        comparison: Comparison,
    ) -> Self {
        let Ranked {
            pod,
            table,
            nodes,
            scope,
            needs_all_labels,
        } = ranked;
        let keys = constraints.iter().map(|it| &it.rule.topology_key);
        let topologies: Vec<_> = keys.map(|key| table.topology(key)).collect();
        let lacks = |node| needs_all_labels && !has_all(&topologies, node);
        let mut ignored = Vec::new();
        for node in nodes.iter().filter(|node| lacks(**node)) {
            if ignored.is_empty() {
                ignored.resize(table.rows(), false);
            }
            ignored[node.index()] = true;
        }
        let is_ignored = |node: NodeId| ignored.get(node.index()) == Some(&true);
        let mut included = Included::new(pod, table, comparison, scope);
        let part = |(constraint, topology): (&SpreadConstraint, &Arc<Topology>)| {
            let SpreadConstraint { rule, .. } = constraint;
            let counts = constraint.counted().map(|pods| table.count(pods));
            let counts = counts.iter().flat_map(|counts| counts.iter().copied());
            let ranked = nodes.iter().filter(|node| !is_ignored(**node));
            let (counted, domains) = if rule.topology_key == HOSTNAME {
                let mut by_row = vec![0_u32; table.rows()];
                for (node, pods) in counts {
                    by_row[node.index()] = pods;
                }
                (Counted::Nodes(by_row), ranked.count())
            } else {
                // Nodes without the label are one place, that of an empty value.
                let blank = topology.place_of("").map(PlaceId::index);
                let blank = blank.unwrap_or_else(|| topology.places());
                let place = |node| topology.place(node).map_or(blank, PlaceId::index);
                let mut is_there = vec![false; topology.places().saturating_add(1)];
                for node in ranked {
                    is_there[place(*node)] = true;
                }
                let mut sums = vec![0_i64; is_there.len()];
                for (node, pods) in counts {
                    let place = place(node);
                    if is_there[place] && !lacks(node) && included.includes(rule, node) {
                        sums[place] = sums[place].saturating_add(i64::from(pods));
                    }
                }
                let there = is_there.iter().filter(|is_there| **is_there);
                (Counted::Places(sums), there.count())
            };
            Part {
                topology: topology.clone(),
                counted,
                weight: (domains as f64 + 2.0).ln(),
                tolerance: f64::from(rule.max_skew) - 1.0,
            }
        };
        let parts = constraints.iter().zip(&topologies).map(part).collect();
        Self { parts, ignored }
    }

    fn is_ignored(&self, node: NodeId) -> bool {
        self.ignored.get(node.index()) == Some(&true)
    }

    /// The more pods there are, the higher; 0 for a node that isn't ranked.
    pub(super) fn raw(&self, node: NodeId) -> i64 {
        if self.is_ignored(node) {
            return 0;
        }
        let mut score = 0.0_f64;
        for part in &self.parts {
            let Some(place) = part.topology.place(node) else {
                continue;
            };
            let pods = match &part.counted {
                Counted::Places(sums) => sums[place.index()] as f64,
                Counted::Nodes(by_row) => by_row.get(node.index()).map_or(0.0, |n| f64::from(*n)),
            };
            // The order of the operations is kube-scheduler's, whose sums are rounded as these are.
            score += pods * part.weight + part.tolerance;
        }
        score.round() as i64
    }

    /// Brings raw scores to 0..=100, so that the lowest is best. Nodes that aren't ranked get 0.
    pub(super) fn normalize(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let each = scores.iter().zip(nodes);
        let ranked = each.filter(|(_, node)| !self.is_ignored(**node));
        let (mut min, mut max) = (i64::MAX, 0_i64);
        for (&score, _) in ranked {
            (min, max) = (min.min(score), max.max(score));
        }
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = if self.is_ignored(*node) {
                0
            } else if max == 0 {
                MAX_NODE_SCORE
            } else {
                let better = max.saturating_add(min).saturating_sub(*score);
                let scaled = MAX_NODE_SCORE.saturating_mul(better).checked_div(max);
                scaled.unwrap_or(0)
            };
        }
    }
}
