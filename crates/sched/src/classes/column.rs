//! Owns one plugin's raw scores of all nodes. Knows nothing of what they mean.

use crate::context::Context;
use crate::cycle::score_failure;
use crate::guard::guarded;
use crate::plugin::Score;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::PluginError;
use crate::table::NodeId;

/// No score is known; plugins don't give this one.
const UNKNOWN: i64 = i64::MIN;

/// Raw scores by row; of nodes that weren't asked about since they changed, none.
#[derive(Clone, Debug, Default)]
pub(super) struct Column(Vec<i64>);

impl Column {
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(score) = self.0.get_mut(node.index()) {
            *score = UNKNOWN;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn forget_all(&mut self) {
        self.0.fill(UNKNOWN);
    }

    /// Appends the raw score of each node; asks the plugin about those without one.
    pub(super) fn read(
        &mut self,
        plugin: &dyn Score,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Result<(), PluginError> {
        // A plugin that is left out of the cycles has no scores.
        self.0.resize(cx.nodes().rows(), UNKNOWN);
        if !plugin.reads().may_be_kept() {
            self.forget_all();
        }
        let first = scores.len();
        scores.extend(nodes.iter().map(|node| self.0[node.index()]));
        // Few are: those where something changed since the last pod of the class.
        let unknown = scores[first..].iter().zip(nodes);
        let unknown = unknown.filter(|(score, _)| **score == UNKNOWN);
        let unknown = unknown.map(|(_, node)| *node).collect::<Vec<_>>();
        if !unknown.is_empty() {
            let mut told = Vec::with_capacity(unknown.len());
            let asked = guarded(plugin.name(), || {
                plugin.score_all(state, pod, cx.nodes(), &unknown, &mut told)
            });
            asked.map_err(|status| score_failure(status, plugin.name()))?;
            if told.len() != unknown.len() {
                let text = format!("{} scores for {} nodes", told.len(), unknown.len());
                return Err(PluginError::new(text).by(plugin.name()));
            }
            for (node, score) in unknown.iter().zip(&told) {
                self.0[node.index()] = *score;
            }
            let open = scores[first..].iter_mut();
            for (score, told) in open.filter(|score| **score == UNKNOWN).zip(told) {
                *score = told;
            }
        }
        Ok(())
    }
}
