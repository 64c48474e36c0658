//! Owns what plugins said of all nodes for the pods of one class: who refuses which node and why, and raw scores.

use super::answer::Answer;
use super::column::Column;
use crate::context::Context;
use crate::guard::caught;
use crate::plugin::Filter;
use crate::pod_info::PodInfo;
use crate::refusals::{Refusals, RejectionId, Rejections};
use crate::state::CycleState;
use crate::status::{PluginError, Rejection};
use crate::table::{NodeId, Position, Reads};

/// Rejections that nobody has any more are kept until there are so many.
const MAX_REJECTIONS: usize = 4096;

/// About what a class takes that knows nothing, and each rejection that it tells.
const CLASS_BYTES: usize = 1024;
const REJECTION_BYTES: usize = 256;

/// The answers of one class.
#[derive(Debug, Default)]
pub(crate) struct Class {
    // Up to where the table's changes are taken in; `None` before the first time.
    seen: Option<Position>,
    images: u64,
    // By row.
    answers: Vec<Answer>,
    rejections: Rejections,
    // How many nodes have each rejection.
    counts: Vec<usize>,
    // In ascending order.
    feasible: Vec<NodeId>,
    columns: Vec<Column>,
}

impl Class {
    /// Takes in what changed since the last time. After an error it knows nothing for certain.
    pub(crate) fn follow(
        &mut self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
    ) -> Result<(), PluginError> {
        let table = cx.nodes();
        let known = self.seen.and_then(|seen| table.changes_since(seen));
        match known {
            Some(changes) if self.rejections.len() <= MAX_REJECTIONS => {
                let mut changes = changes.collect::<Vec<_>>();
                self.resize(cx);
                merge(&mut changes);
                self.ask(cx, state, pod, &changes)?;
            }
            _ => {
                *self = Self::default();
                self.resize(cx);
                let all = (0..table.rows()).map(|row| (NodeId::new(row), Reads::ANYTHING));
                let all = all.filter(|(id, _)| table.get(*id).is_some());
                let all = all.collect::<Vec<_>>();
                self.ask(cx, state, pod, &all)?;
            }
        }
        if self.images != table.images_version() {
            self.images = table.images_version();
            let scores = cx.profile().scores().iter();
            for (column, score) in self.columns.iter_mut().zip(scores) {
                if score.plugin.reads().covers(Reads::IMAGES) {
                    column.forget_all();
                }
            }
        }
        self.seen = Some(table.position());
        Ok(())
    }

    fn resize(&mut self, cx: &Context<'_>) {
        let rows = cx.nodes().rows();
        self.answers.resize(rows, Answer::VACANT);
        let plugins = cx.profile().scores().len();
        self.columns.resize_with(plugins, Column::default);
    }

    /// Asks about nodes of which something changed, in ascending order.
    fn ask(
        &mut self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        changes: &[(NodeId, Reads)],
    ) -> Result<(), PluginError> {
        let scores = cx.profile().scores();
        for &(node, what) in changes {
            for (column, score) in self.columns.iter_mut().zip(scores) {
                if score.plugin.reads().intersects(what) {
                    column.forget(node);
                }
            }
        }
        // Who was refused for the Node object alone needn't be asked about when pods come and go.
        let mut new = Vec::with_capacity(changes.len());
        for &(id, what) in changes {
            let other_object = what.intersects(Reads::OBJECT);
            if other_object || !self.answers[id.index()].is_lasting() {
                let there = cx.nodes().get(id).is_some();
                let answer = if there {
                    Answer::FEASIBLE
                } else {
                    Answer::VACANT
                };
                new.push(New {
                    id,
                    other_object,
                    answer,
                });
            }
        }
        // Up to the first filter that looks at the pods on a node, refusals last; the filters before it said nothing
        // against a node whose refusal doesn't.
        let fresh = cx.profile().fresh_filters();
        let mut lasting = true;
        for (place, filter) in cx.profile().filters().iter().enumerate() {
            if state.skipped_filters.contains(place) || fresh.contains(place) {
                continue;
            }
            lasting &= !filter.reads().intersects(Reads::PODS);
            let open = |new: &New| new.answer == Answer::FEASIBLE && (new.other_object || !lasting);
            let places = (0..new.len()).filter(|at| open(&new[*at]));
            let places = places.collect::<Vec<_>>();
            if places.is_empty() {
                continue;
            }
            let nodes = places.iter().map(|at| new[*at].id).collect::<Vec<_>>();
            for (at, why) in self.refused(&**filter, cx, state, pod, &nodes)? {
                new[places[at]].answer = Answer::refused(why, lasting);
            }
        }
        self.take_down(new);
        Ok(())
    }

    /// What one filter says.
    fn refused(
        &mut self,
        filter: &dyn Filter,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
    ) -> Result<Vec<(usize, RejectionId)>, PluginError> {
        let name = filter.name();
        let mut refusals = Refusals::new(name, &mut self.rejections);
        caught(|| filter.filter_all(state, pod, cx.nodes(), nodes, &mut refusals))
            .map_err(|panic| panic.by(name))?
            .map_err(|error| error.by(name))?;
        Ok(refusals.into_refused())
    }

    /// Keeps new answers, in ascending order of nodes.
    fn take_down(&mut self, new: Vec<New>) {
        self.counts.resize(self.rejections.len(), 0);
        let (mut come, mut gone) = (Vec::new(), false);
        for New { id, answer, .. } in new {
            let before = std::mem::replace(&mut self.answers[id.index()], answer);
            if let Some(why) = before.rejection() {
                let count = &mut self.counts[why.index()];
                *count = count.saturating_sub(1);
            }
            if let Some(why) = answer.rejection() {
                let count = &mut self.counts[why.index()];
                *count = count.saturating_add(1);
            }
            match (before == Answer::FEASIBLE, answer == Answer::FEASIBLE) {
                (false, true) => come.push(id),
                (true, false) => gone = true,
                _ => {}
            }
        }
        if gone {
            let answers = &self.answers;
            self.feasible
                .retain(|id| answers[id.index()] == Answer::FEASIBLE);
        }
        if !come.is_empty() {
            self.feasible.append(&mut come);
            // Two ascending runs: the sort sees them.
            self.feasible.sort();
        }
    }

    /// The nodes that will do, in ascending order.
    pub(crate) fn feasible(&self) -> &[NodeId] {
        &self.feasible
    }

    /// Whether this node will do.
    pub(crate) fn is_feasible(&self, node: NodeId) -> bool {
        self.answers.get(node.index()) == Some(&Answer::FEASIBLE)
    }

    /// Each rejection that was said, by its number.
    pub(crate) fn rejections(&self) -> impl Iterator<Item = &Rejection> {
        self.rejections.iter()
    }

    /// How many nodes have each rejection, by its number.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The number of the rejection of this node; `None` if it will do, or isn't there.
    pub(crate) fn refusal(&self, node: NodeId) -> Option<RejectionId> {
        self.answers.get(node.index())?.rejection()
    }

    /// Why this node won't do; `None` if it will, or isn't there.
    pub(crate) fn rejection(&self, node: NodeId) -> Option<&Rejection> {
        Some(self.rejections.get(self.refusal(node)?))
    }

    /// Appends a plugin's raw score of each of these feasible nodes, by the plugin's place in the profile.
    pub(crate) fn scores(
        &mut self,
        plugin: usize,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Result<(), PluginError> {
        let score = &*cx.profile().scores()[plugin].plugin;
        self.columns[plugin].read(score, cx, state, pod, nodes, scores)
    }

    /// Whether nothing is known yet.
    #[cfg(test)]
    pub(super) const fn is_empty(&self) -> bool {
        self.seen.is_none()
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let rows = size_of_val(&*self.answers).saturating_add(size_of_val(&*self.feasible));
        let rejections = self.rejections.len().saturating_mul(REJECTION_BYTES);
        let columns = self.columns.iter().map(Column::bytes);
        columns
            .fold(CLASS_BYTES, usize::saturating_add)
            .saturating_add(rows)
            .saturating_add(rejections)
    }
}

/// A new answer about a node.
struct New {
    id: NodeId,
    // Whether the Node object is another one, or gone.
    other_object: bool,
    answer: Answer,
}

/// One entry a node, in ascending order.
fn merge(changes: &mut Vec<(NodeId, Reads)>) {
    changes.sort_by_key(|(id, _)| *id);
    changes.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1 = first.1 | later.1;
        }
        same
    });
}
