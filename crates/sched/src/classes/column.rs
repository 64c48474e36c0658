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
/// The same among narrow ones.
const NARROW_UNKNOWN: i16 = i16::MIN;

/// Raw scores by row; of nodes that weren't asked about since they changed, none. Nearly all scores fit into 16 bits:
/// only a plugin with others has them all kept wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Narrow(Vec<i16>),
    Wide(Vec<i64>),
}

impl Default for Column {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Column {
    pub(super) fn forget(&mut self, node: NodeId) {
        match self {
            Self::Narrow(scores) => {
                if let Some(score) = scores.get_mut(node.index()) {
                    *score = NARROW_UNKNOWN;
                }
            }
            Self::Wide(scores) => {
                if let Some(score) = scores.get_mut(node.index()) {
                    *score = UNKNOWN;
                }
            }
        }
    }

    pub(super) fn forget_all(&mut self) {
        match self {
            Self::Narrow(scores) => scores.fill(NARROW_UNKNOWN),
            Self::Wide(scores) => scores.fill(UNKNOWN),
        }
    }

    /// How many bytes the scores take.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Narrow(scores) => size_of::<i16>().saturating_mul(scores.len()),
            Self::Wide(scores) => size_of::<i64>().saturating_mul(scores.len()),
        }
    }

    fn resize(&mut self, rows: usize) {
        match self {
            Self::Narrow(scores) => scores.resize(rows, NARROW_UNKNOWN),
            Self::Wide(scores) => scores.resize(rows, UNKNOWN),
        }
    }

    /// Appends what is known of these nodes.
    fn known(&self, nodes: &[NodeId], scores: &mut Vec<i64>) {
        match self {
            Self::Narrow(known) => {
                scores.extend(nodes.iter().map(|node| widened(known[node.index()])));
            }
            Self::Wide(known) => scores.extend(nodes.iter().map(|node| known[node.index()])),
        }
    }

    fn keep(&mut self, node: NodeId, score: i64) {
        match self {
            Self::Narrow(scores) => match i16::try_from(score) {
                Ok(narrow) if narrow != NARROW_UNKNOWN => scores[node.index()] = narrow,
                _ => {
                    let wide = scores.iter().map(|narrow| widened(*narrow));
                    *self = Self::Wide(wide.collect());
                    self.keep(node, score);
                }
            },
            Self::Wide(scores) => scores[node.index()] = score,
        }
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
        if !plugin.reads().may_be_kept() {
            return ask(plugin, cx, state, pod, nodes, scores);
        }
        // A plugin that is left out of the cycles has no scores.
        self.resize(cx.nodes().rows());
        let first = scores.len();
        self.known(nodes, scores);
        if !scores[first..].contains(&UNKNOWN) {
            return Ok(());
        }
        // Few are: those where something changed since the last pod of the class.
        let unknown = scores[first..].iter().zip(nodes);
        let unknown = unknown.filter(|(score, _)| **score == UNKNOWN);
        let unknown = unknown.map(|(_, node)| *node).collect::<Vec<_>>();
        let mut told = Vec::with_capacity(unknown.len());
        ask(plugin, cx, state, pod, &unknown, &mut told)?;
        for (node, score) in unknown.iter().zip(&told) {
            self.keep(*node, *score);
        }
        let open = scores[first..].iter_mut();
        for (score, told) in open.filter(|score| **score == UNKNOWN).zip(told) {
            *score = told;
        }
        Ok(())
    }
}

fn widened(narrow: i16) -> i64 {
    if narrow == NARROW_UNKNOWN {
        UNKNOWN
    } else {
        i64::from(narrow)
    }
}

/// Asks the plugin about all of these nodes.
fn ask(
    plugin: &dyn Score,
    cx: &Context<'_>,
    state: &CycleState,
    pod: &PodInfo,
    nodes: &[NodeId],
    scores: &mut Vec<i64>,
) -> Result<(), PluginError> {
    let before = scores.len();
    let asked = guarded(plugin.name(), || {
        plugin.score_all(state, pod, cx.nodes(), nodes, scores)
    });
    asked.map_err(|status| score_failure(status, plugin.name()))?;
    let told = scores.len().saturating_sub(before);
    if told != nodes.len() {
        let text = format!("{told} scores for {} nodes", nodes.len());
        return Err(PluginError::new(text).by(plugin.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Column, UNKNOWN};
    use crate::table::NodeId;

    #[test]
    fn scores_that_need_more_bits_widen_the_column_and_nothing_is_lost() {
        let mut column = Column::default();
        column.resize(4);
        let nodes: Vec<_> = (0..4).map(NodeId::new).collect();
        let all = |column: &Column| {
            let mut scores = Vec::new();
            column.known(&nodes, &mut scores);
            scores
        };
        assert_eq!(all(&column), [UNKNOWN; 4]);
        column.keep(nodes[0], 100);
        column.keep(nodes[1], -32_767);
        assert_eq!(all(&column), [100, -32_767, UNKNOWN, UNKNOWN]);
        assert_eq!(column.bytes(), 8);
        // The one number of 16 bits that stands for none.
        for wide in [-32_768, 32_768, i64::MAX, UNKNOWN + 1] {
            let mut column = column.clone();
            column.keep(nodes[2], wide);
            assert_eq!(all(&column), [100, -32_767, wide, UNKNOWN]);
            assert_eq!(column.bytes(), 32);
            column.keep(nodes[3], 7);
            column.forget(nodes[0]);
            assert_eq!(all(&column), [UNKNOWN, -32_767, wide, 7]);
            column.resize(3);
            column.forget_all();
            column.resize(4);
            assert_eq!(all(&column), [UNKNOWN; 4]);
        }
        column.forget(nodes[0]);
        assert_eq!(all(&column)[..2], [UNKNOWN, -32_767]);
        column.forget_all();
        assert_eq!(all(&column), [UNKNOWN; 4]);
    }
}
