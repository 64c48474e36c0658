//! Owns the constraints that a pod must keep: how many pods each place has, and which nodes a pod may go to.

use std::sync::Arc;

use super::included::{Included, includes};
use super::sums::{PlaceSums, Summing};
use crate::counts::Topology;
use crate::pod_info::PodInfo;
use crate::scope::InScope;
use crate::table::{NodeId, NodeTable, NodeView};
use crate::taints::Comparison;
use crate::topology_spread::SpreadConstraint;

/// Hard constraints of one pod, counted.
#[derive(Clone, Debug)]
pub(super) struct Hard {
    constraints: Arc<[SpreadConstraint]>,
    topologies: Arc<[Arc<Topology>]>,
    counted: Vec<Counted>,
    scope: InScope,
}

/// One of them.
#[derive(Clone, Debug)]
struct Counted {
    sums: PlaceSums,
    min_domains: usize,
    // How many more pods than the fewest of any place a place may have, for this one to come.
    room: i64,
}

/// Why a node won't do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// It lacks a label that pods are spread over.
    NoLabel,
    /// Its place has too many pods.
    Skewed,
}

/// Whether a node has all labels that pods are spread over.
pub(super) fn has_all(topologies: &[Arc<Topology>], node: NodeId) -> bool {
    topologies
        .iter()
        .all(|topology| topology.place(node).is_some())
}

impl Hard {
    /// Counts the pods that are there.
    pub(super) fn count(
        constraints: Arc<[SpreadConstraint]>,
        pod: &PodInfo,
        table: &NodeTable,
        comparison: Comparison,
        scope: InScope,
    ) -> Self {
        let keys = constraints.iter().map(|it| &*it.rule.topology_key);
        let sets = constraints.iter().filter_map(|it| it.counted());
        table.prepare(sets, keys.clone());
        let topologies: Arc<[_]> = keys.map(|key| table.topology(key)).collect();
        let mut included = Included::new(pod, table, comparison, &scope);
        // Rows without a node have no place.
        let everywhere = topologies.iter().all(|it| it.placed() == table.len());
        let count = |(constraint, topology): (&SpreadConstraint, &Arc<Topology>)| {
            let rule = &constraint.rule;
            let included = included.by(rule);
            let known = (everywhere && included.is_everybody())
                .then(|| of_all(constraint, topology, table))
                .flatten();
            let sums = known.unwrap_or_else(|| {
                let has_all = |node| everywhere || has_all(&topologies, node);
                let counts = |node| has_all(node) && included.includes(node);
                of_some(constraint, topology, table, counts)
            });
            let itself = i64::from(constraint.selector.matches(pod.labels()));
            Counted {
                sums: sums.finish(),
                min_domains: usize::try_from(rule.min_domains).unwrap_or(0),
                room: i64::from(rule.max_skew).saturating_sub(itself),
            }
        };
        let counted = constraints.iter().zip(&*topologies).map(count).collect();
        Self {
            constraints,
            topologies,
            counted,
            scope,
        }
    }

    /// Whether this pod counts for any of them, wherever it is.
    pub(super) fn concerns(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        let mut constraints = self.constraints.iter();
        other.key.namespace == pod.key.namespace
            && constraints.any(|it| it.selector.matches(other.labels()))
    }

    /// A pod that is [concerned](Self::concerns) came to a node (1), or left it (-1). One that is being deleted counts
    /// here as any other; so does kube-scheduler have it.
    pub(super) fn change(
        &mut self,
        pod: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
        pods: i32,
        comparison: Comparison,
    ) {
        if !has_all(&self.topologies, node.id()) || !self.scope.has(node.id()) {
            return;
        }
        let each = self.constraints.iter().zip(&*self.topologies);
        for ((constraint, topology), counted) in each.zip(&mut self.counted) {
            if let Some(place) = topology.place(node.id())
                && constraint.selector.matches(other.labels())
                && includes(&constraint.rule, pod, node, comparison)
            {
                counted.sums.change(place, pods);
            }
        }
    }

    /// The same of many nodes: the violations, each with the place of its node in the list, in ascending order.
    pub(super) fn violations(&self, nodes: &[NodeId], mut violated: impl FnMut(usize, Misplaced)) {
        // By place, so that of a node only its place is looked at.
        let each = self.topologies.iter().zip(&self.counted);
        let each = each.map(|(topology, counted)| (topology.by_row(), counted.full_places()));
        let each = each.collect::<Vec<_>>();
        for (at, node) in nodes.iter().enumerate() {
            for (by_row, full) in &each {
                let place = by_row.get(node.index());
                match place.and_then(|place| full.get(place.index())) {
                    Some(false) => {}
                    Some(true) => {
                        violated(at, Misplaced::Skewed);
                        break;
                    }
                    None => {
                        violated(at, Misplaced::NoLabel);
                        break;
                    }
                }
            }
        }
    }

    /// Whether a node will do, by the first constraint that it violates.
    pub(super) fn check(&self, node: NodeId) -> Result<(), Misplaced> {
        for (topology, counted) in self.topologies.iter().zip(&self.counted) {
            let place = topology.place(node).ok_or(Misplaced::NoLabel)?;
            if i64::from(counted.sums.of(place)) > counted.limit() {
                return Err(Misplaced::Skewed);
            }
        }
        Ok(())
    }
}

/// Sums where all nodes count and have all labels; `None` if no such sums are kept.
fn of_all(
    constraint: &SpreadConstraint,
    topology: &Topology,
    table: &NodeTable,
) -> Option<Summing> {
    let mut sums = Summing::new(topology.places());
    for (place, nodes) in topology.nodes_by_place().iter().enumerate() {
        if *nodes > 0 {
            sums.count(place);
        }
    }
    if let Some(pods) = constraint.counted() {
        let key = &constraint.rule.topology_key;
        let known = table.count_by_place(pods, key, topology)?;
        for (place, pods) in known.into_iter().enumerate() {
            // At a place without nodes there are no pods.
            if pods > 0 {
                sums.add(place, pods);
            }
        }
    }
    Some(sums)
}

/// Sums of those nodes that count.
fn of_some(
    constraint: &SpreadConstraint,
    topology: &Topology,
    table: &NodeTable,
    counts: impl Fn(NodeId) -> bool,
) -> Summing {
    let place = |node| topology.place(node).filter(|_| counts(node));
    let mut sums = Summing::new(topology.places());
    for place in (0..table.rows()).filter_map(|row| place(NodeId::new(row))) {
        sums.count(place.index());
    }
    if let Some(pods) = constraint.counted() {
        for &(node, pods) in &*table.count(pods) {
            if let Some(place) = place(node) {
                sums.add(place.index(), pods);
            }
        }
    }
    sums
}

impl Counted {
    /// Which places, by number, have too many pods for this one to come.
    fn full_places(&self) -> Vec<bool> {
        let limit = self.limit();
        let mut full = self.sums.each(|sum| i64::from(sum) > limit);
        for (place, sum) in self.sums.changes() {
            full[place.index()] = i64::from(sum) > limit;
        }
        full
    }

    /// How many pods a place may have, for this one to come.
    fn limit(&self) -> i64 {
        let lowest = if self.sums.domains() < self.min_domains {
            0
        } else {
            self.sums.lowest()
        };
        self.room.saturating_add(i64::from(lowest))
    }
}
