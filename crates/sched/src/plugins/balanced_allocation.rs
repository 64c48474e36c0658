//! Ranks nodes by what the pod does to the balance of their resources: a node whose CPU is full while its memory is
//! empty is of little use.
//!
//! The formula is that of kube-scheduler 1.36.3 (`plugins/noderesources/balanced_allocation.go`), with its order of
//! floating-point operations, so that the last digit is the same.

use std::sync::Arc;

use thiserror::Error;

use super::resource_load::ResourceLoad;
use crate::coming::Coming;
use crate::context::Context;
use crate::plugin::{MAX_NODE_SCORE, Plugin, PreScore, PreScored, Score};
use crate::pod_info::PodInfo;
use crate::resources::ResourceName;
use crate::state::CycleState;
use crate::status::{PluginName, Verdict};
use crate::table::{Column, NodeId, NodeTable, NodeView, Reads};

/// A resource that is listed more than once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("resource {0:?} is listed twice")]
pub struct ListedTwice(pub String);

/// Balance of resources.
#[derive(Clone, Debug)]
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<ResourceName>,
}

impl Default for NodeResourcesBalancedAllocation {
    /// Of CPU and memory.
    fn default() -> Self {
        Self {
            resources: vec![ResourceName::Cpu, ResourceName::Memory],
        }
    }
}

impl NodeResourcesBalancedAllocation {
    /// Of these resources, all with the same weight: kube-scheduler takes no other.
    pub fn new(resources: Vec<ResourceName>) -> Result<Self, ListedTwice> {
        for (at, name) in resources.iter().enumerate() {
            if resources[..at].contains(name) {
                return Err(ListedTwice(name.as_str().to_owned()));
            }
        }
        Ok(Self { resources })
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> PluginName {
        "NodeResourcesBalancedAllocation"
    }
}

impl PreScore for NodeResourcesBalancedAllocation {
    /// Pods that ask for none of the resources would all go where the balance is best.
    fn pre_score(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
        _nodes: &[NodeId],
    ) -> Verdict<PreScored> {
        let wanted = &pod.needs.requests.total;
        let nothing = self.resources.iter().all(|name| wanted.get(name) == 0);
        Ok(if nothing {
            PreScored::Skip
        } else {
            PreScored::Proceed
        })
    }
}

impl Score for NodeResourcesBalancedAllocation {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let (taken, own) = (node.requested(), &pod.needs.requests.total);
        let coming = state.get::<Arc<Coming>>();
        let coming = coming.and_then(|all| all.at(node.name()));
        let loads = self.resources.iter().filter_map(|name| {
            let coming = coming.map_or(0, |coming| coming.total.get(name));
            let taken = taken.get(name).saturating_add(coming);
            ResourceLoad::of(name, node.allocatable().get(name), taken, own.get(name))
        });
        Ok(score(loads))
    }

    fn reads(&self) -> Reads {
        Reads::OBJECT | Reads::PODS
    }

    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let own = &pod.needs.requests.total;
        let columns = self.resources.iter();
        let columns = columns.map(|name| Some((name, Column::of(name)?, own.get(name))));
        let columns = columns.collect::<Option<Vec<_>>>();
        let (Some(columns), None) = (columns, state.get::<Arc<Coming>>()) else {
            for &id in nodes {
                let node = table.get(id);
                scores.push(node.map_or(Ok(0), |node| self.score(state, pod, node))?);
            }
            return Ok(());
        };
        let numbers = table.numbers();
        scores.extend(nodes.iter().map(|&id| {
            score(columns.iter().filter_map(|&(name, column, wanted)| {
                let taken = numbers.requested(column, id).into();
                ResourceLoad::of(name, numbers.allocatable(column, id), taken, wanted)
            }))
        }));
        Ok(())
    }
}

/// 75 if the pod doesn't change the balance, up to 100 if it makes it better, down to 50 if worse.
fn score(loads: impl Iterator<Item = ResourceLoad> + Clone) -> i64 {
    const HALF: i64 = MAX_NODE_SCORE / 2;
    let with = loads
        .clone()
        .map(|load| share(load.after, load.allocatable));
    let without = loads.map(|load| share(load.before, load.allocatable));
    let better = evenness(with).saturating_sub(evenness(without));
    HALF.saturating_add(HALF.saturating_add(better) / 2)
}

/// How much of a resource is taken, 1 at most.
fn share(taken: i64, allocatable: i64) -> f64 {
    let share = taken as f64 / allocatable as f64;
    if share > 1.0 { 1.0 } else { share }
}

/// 100 if all shares are equal, less by their standard deviation.
fn evenness(shares: impl Iterator<Item = f64> + Clone) -> i64 {
    let count = shares.clone().count();
    let deviation = match count {
        0 | 1 => 0.0,
        2 => {
            let mut shares = shares;
            let (first, second) = (shares.next(), shares.next());
            ((first.unwrap_or(0.0) - second.unwrap_or(0.0)) / 2.0).abs()
        }
        _ => {
            let mean = shares.clone().fold(0.0, |sum, share| sum + share) / count as f64;
            let squares = shares.fold(0.0, |sum, share| sum + (share - mean) * (share - mean));
            (squares / count as f64).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests;
