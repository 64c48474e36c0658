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
        let keys = constraints.iter().map(|it| &*it.rule.topology_key);
        let sets = constraints.iter().filter_map(|it| it.counted());
        table.prepare(sets, keys.clone());
        let topologies: Vec<_> = keys.map(|key| table.topology(key)).collect();
        // Rows without a node have no place.
        let everywhere = topologies.iter().all(|it| it.placed() == table.len());
        let lacks = |node| needs_all_labels && !everywhere && !has_all(&topologies, node);
        let mut ignored = Vec::new();
        let may_lack = if everywhere { &[] } else { nodes };
        for node in may_lack.iter().filter(|node| lacks(**node)) {
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
                let domains = if ignored.is_empty() {
                    nodes.len()
                } else {
                    ranked.count()
                };
                (Counted::Nodes(by_row), domains)
            } else {
                let included = included.by(rule);
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
                    if is_there[place] && !lacks(node) && included.includes(node) {
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

    /// The same of many nodes: appends one score for each.
    pub(super) fn raw_all(&self, nodes: &[NodeId], scores: &mut Vec<i64>) {
        let [part] = &*self.parts else {
            return scores.extend(nodes.iter().map(|node| self.raw(*node)));
        };
        // What a place scores depends on the number of its pods alone, and these are few.
        let mut known: Vec<i64> = Vec::new();
        let mut score = |pods: i64| {
            let at = usize::try_from(pods).unwrap_or(usize::MAX);
            if at >= MAX_KNOWN {
                return rounded(part.score(pods as f64));
            }
            while known.len() <= at {
                known.push(rounded(part.score(known.len() as f64)));
            }
            known[at]
        };
        let places = part.topology.by_row();
        scores.extend(nodes.iter().map(|node| {
            let place = places.get(node.index()).map_or(usize::MAX, |it| it.index());
            let is_placed = place < part.topology.places();
            if !is_placed || self.is_ignored(*node) {
                return 0;
            }
            match &part.counted {
                Counted::Places(sums) => score(sums[place]),
                Counted::Nodes(by_row) => {
                    let pods = by_row.get(node.index()).copied();
                    score(i64::from(pods.unwrap_or(0)))
                }
            }
        }));
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
            score += part.score(pods);
        }
        rounded(score)
    }

    /// Brings raw scores to 0..=100, so that the lowest is best. Nodes that aren't ranked get 0.
    pub(super) fn normalize(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let each = scores.iter().zip(nodes);
        let ranked = each.filter(|(_, node)| !self.is_ignored(**node));
        let (mut min, mut max) = (i64::MAX, 0_i64);
        for (&score, _) in ranked {
            (min, max) = (min.min(score), max.max(score));
        }
        let normal = |score: i64| {
            if max == 0 {
                return MAX_NODE_SCORE;
            }
            let better = max.saturating_add(min).saturating_sub(score);
            let scaled = MAX_NODE_SCORE.saturating_mul(better).checked_div(max);
            scaled.unwrap_or(0)
        };
        // Divisions take time, and there are far fewer scores than nodes.
        let range = max.saturating_sub(min);
        let known = if (0..MAX_KNOWN as i64).contains(&range) {
            (min..=max).map(normal).collect::<Vec<_>>()
        } else {
            Vec::new()
        };
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = if self.is_ignored(*node) {
                0
            } else {
                let at = usize::try_from(score.wrapping_sub(min)).unwrap_or(usize::MAX);
                let found = known.get(at).copied();
                found.unwrap_or_else(|| normal(*score))
            };
        }
    }
}

/// So many scores are worked out once for all nodes that have them.
const MAX_KNOWN: usize = 1024;

impl Part {
    /// What a place with so many pods scores.
    fn score(&self, pods: f64) -> f64 {
        pods * self.weight + self.tolerance
    }
}

fn rounded(score: f64) -> i64 {
    score.round() as i64
}
