//! Owns ranking: `PreScore`, Score, normalizing, weights. Knows nothing of how nodes were found.

use crate::context::Context;
use crate::guard::guarded;
use crate::names::NodeName;
use crate::plugin::{MAX_NODE_SCORE, PreScored, Score};
use crate::pod_info::PodInfo;
use crate::profile::WeightedScore;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Status};
use crate::table::{NodeId, NodeTable};

/// The total of each node, in the same order.
pub(super) fn totals(
    cx: &Context<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    nodes: &[NodeId],
) -> Result<Vec<i64>, PluginError> {
    let mut totals = vec![0_i64; nodes.len()];
    each_plugin(cx, state, pod, nodes, |_, weighted| {
        for (total, part) in totals.iter_mut().zip(weighted) {
            *total = total.saturating_add(*part);
        }
    })?;
    Ok(totals)
}

/// Runs `PreScore` and Score, and gives each plugin's normalized and weighted scores, one a node.
pub(super) fn each_plugin(
    cx: &Context<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    nodes: &[NodeId],
    mut take: impl FnMut(PluginName, &[i64]),
) -> Result<(), PluginError> {
    pre_score(cx, state, pod, nodes)?;
    let mut scores = Vec::with_capacity(nodes.len());
    for (index, WeightedScore { plugin, weight }) in cx.profile().scores().iter().enumerate() {
        if state.skipped_scores.contains(index) {
            continue;
        }
        scores.clear();
        let scored = guarded(plugin.name(), || {
            for &id in nodes {
                let node = cx.nodes().get(id);
                scores.push(node.map_or(Ok(0), |node| plugin.score(state, pod, node))?);
            }
            Ok(())
        });
        scored.map_err(|status| failure(status, plugin.name()))?;
        finish(
            &**plugin,
            *weight,
            state,
            pod,
            cx.nodes(),
            nodes,
            &mut scores,
        )?;
        take(plugin.name(), &scores);
    }
    Ok(())
}

/// Normalizes a plugin's raw scores, checks them, multiplies them by its weight and adds them to the totals.
pub(super) fn add_up(
    WeightedScore { plugin, weight }: &WeightedScore,
    state: &CycleState,
    pod: &PodInfo,
    (table, nodes): (&NodeTable, &[NodeId]),
    scores: &mut [i64],
    totals: &mut [i64],
) -> Result<(), PluginError> {
    normalize(&**plugin, state, pod, table, nodes, scores)?;
    // In one pass, without an early return.
    let mut all_within = true;
    for (total, score) in totals.iter_mut().zip(&*scores) {
        all_within &= is_within(*score);
        // 64 plugins with weights of 32 bits fit.
        *total = total.wrapping_add(score.wrapping_mul(*weight));
    }
    if !all_within {
        return Err(outside(scores, table, nodes).by(plugin.name()));
    }
    Ok(())
}

fn is_within(score: i64) -> bool {
    (0..=MAX_NODE_SCORE).contains(&score)
}

fn normalize(
    plugin: &dyn Score,
    state: &CycleState,
    pod: &PodInfo,
    table: &NodeTable,
    nodes: &[NodeId],
    scores: &mut [i64],
) -> Result<(), PluginError> {
    let normalized = guarded(plugin.name(), || {
        plugin.normalize(state, pod, table, nodes, scores)
    });
    normalized.map_err(|status| failure(status, plugin.name()))
}

/// Normalizes a plugin's raw scores, checks them, and multiplies them by its weight.
pub(crate) fn finish(
    plugin: &dyn Score,
    weight: i64,
    state: &CycleState,
    pod: &PodInfo,
    table: &NodeTable,
    nodes: &[NodeId],
    scores: &mut [i64],
) -> Result<(), PluginError> {
    normalize(plugin, state, pod, table, nodes, scores)?;
    // No early return: so it is done for several at once.
    if !scores
        .iter()
        .fold(true, |all, score| all & is_within(*score))
    {
        return Err(outside(scores, table, nodes).by(plugin.name()));
    }
    for score in scores {
        // Weights have 32 bits.
        *score = score.wrapping_mul(weight);
    }
    Ok(())
}

#[cold]
fn outside(scores: &[i64], table: &NodeTable, nodes: &[NodeId]) -> PluginError {
    let mut all = scores.iter().zip(nodes);
    let first = all.find(|(score, _)| !is_within(**score));
    let (score, id) = first.unzip();
    let node = id.and_then(|id| table.get(*id));
    let node = node.map_or_else(|| NodeName::from(""), |node| node.name().clone());
    let score = score.copied().unwrap_or_default();
    PluginError::new(format!(
        "score {score} of node {node:?} isn't within 0..={MAX_NODE_SCORE}"
    ))
}

pub(crate) fn pre_score(
    cx: &Context<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    nodes: &[NodeId],
) -> Result<(), PluginError> {
    for (index, plugin) in cx.profile().pre_scores().iter().enumerate() {
        let scored = guarded(plugin.name(), || plugin.pre_score(cx, state, pod, nodes));
        match scored.map_err(|status| failure(status, plugin.name()))? {
            PreScored::Proceed => {}
            PreScored::Skip => {
                if let Some(score) = cx.profile().score_of_pre_score(index) {
                    state.skipped_scores.insert(score);
                }
            }
        }
    }
    Ok(())
}

/// Nothing can be rejected any more when nodes are scored: a rejection is a failure of the plugin.
pub(crate) fn failure(status: Status, plugin: PluginName) -> PluginError {
    match status {
        Status::Error(error) => error.by(plugin),
        Status::Rejected(rejection) => PluginError::new(rejection.to_string()).by(plugin),
    }
}
