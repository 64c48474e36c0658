//! Owns the short way to ask about many nodes: one of each set of equal parts speaks for the others.
//! Knows nothing of what is asked.

use crate::plugin::Filter;
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId};
use crate::state::CycleState;
use crate::status::{PluginError, Status, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, SetId};

/// Answers by set.
pub(crate) struct BySet<T>(Vec<Option<T>>);

impl<T: Copy> BySet<T> {
    /// For sets whose numbers are below this.
    pub(crate) fn new(sets: usize) -> Self {
        Self(vec![None; sets])
    }

    /// What was said of the set, or is said now; of none it is asked each time.
    pub(crate) fn get<E>(
        &mut self,
        set: Option<SetId>,
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(known) = set.and_then(|set| self.0.get_mut(set.index())) else {
            return ask();
        };
        if let Some(answer) = known {
            return Ok(*answer);
        }
        let answer = ask()?;
        *known = Some(answer);
        Ok(answer)
    }
}

/// [`Filter::filter_all`] for a filter whose answer depends on one part of a node alone: `set` is its number, below
/// `sets`.
pub(super) fn filter(
    filter: &impl Filter,
    (state, pod): (&CycleState, &PodInfo),
    table: &NodeTable,
    (sets, set): (usize, impl Fn(NodeId) -> Option<SetId>),
    nodes: &[NodeId],
    refusals: &mut Refusals<'_>,
) -> Result<(), PluginError> {
    let mut answers: BySet<Option<RejectionId>> = BySet::new(sets);
    for (at, &id) in nodes.iter().enumerate() {
        let Some(node) = table.get(id) else { continue };
        let refused = answers.get(set(id), || match filter.filter(state, pod, node) {
            Ok(()) => Ok(None),
            Err(Status::Rejected(rejection)) => Ok(Some(refusals.keep(rejection))),
            Err(Status::Error(error)) => Err(error.by(filter.name())),
        })?;
        if let Some(rejection) = refused {
            refusals.refuse(at, rejection);
        }
    }
    Ok(())
}

/// [`Score::score_all`](crate::Score::score_all), the same way.
pub(super) fn score(
    score: impl Fn(NodeView<'_>) -> Verdict<i64>,
    table: &NodeTable,
    (sets, set): (usize, impl Fn(NodeId) -> Option<SetId>),
    nodes: &[NodeId],
    scores: &mut Vec<i64>,
) -> Verdict {
    let mut answers = BySet::new(sets);
    for &id in nodes {
        let ask = || table.get(id).map_or(Ok(0), &score);
        scores.push(answers.get(set(id), ask)?);
    }
    Ok(())
}
