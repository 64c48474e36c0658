//! Owns what plugins said of all nodes for the pods of one class: who refuses which node and why, and raw scores.

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

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// There is none.
    Vacant,
    Feasible,
    Refused(RejectionId),
}

/// A filter's place in the profile; there are 64 at most.
type Place = u8;

/// What the filters say that don't look at the pods on a node: the first of them that refuses.
type Fixed = Option<(RejectionId, Place)>;

/// The answers of one class.
#[derive(Debug, Default)]
pub(crate) struct Class {
    // Up to where the table's changes are taken in; `None` before the first time.
    seen: Option<Position>,
    images: u64,
    answers: Vec<Answer>,
    fixed: Vec<Fixed>,
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
        self.answers.resize(rows, Answer::Vacant);
        self.fixed.resize(rows, None);
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
        let there = |id: &NodeId| cx.nodes().get(*id).is_some();
        let changed = |what: Reads| {
            let nodes = changes.iter().filter(move |(_, it)| it.intersects(what));
            nodes.map(|(id, _)| *id)
        };
        // Filters that look at the object alone needn't be asked when pods come and go.
        let objects = changed(Reads::OBJECT).filter(there).collect::<Vec<_>>();
        for id in &objects {
            self.fixed[id.index()] = None;
        }
        let filters = cx.profile().filters();
        let mut left = objects;
        for (place, filter) in (0..).zip(filters) {
            if left.is_empty() {
                break;
            }
            if !state.skipped_filters.contains(place.into())
                && !filter.reads().intersects(Reads::PODS)
            {
                for (at, why) in self.refused(&**filter, cx, state, pod, &left)? {
                    self.fixed[left[at].index()] = Some((why, place));
                }
                left.retain(|id| self.fixed[id.index()].is_none());
            }
        }
        let mut answers = changes
            .iter()
            .map(|(id, _)| (*id, cx.nodes().get(*id).map(|_| self.fixed[id.index()])))
            .collect::<Vec<_>>();
        for (place, filter) in (0..).zip(filters) {
            if state.skipped_filters.contains(place.into())
                || !filter.reads().intersects(Reads::PODS)
            {
                continue;
            }
            // Those that no filter before this one refuses.
            let open = |fixed: &Option<Fixed>| {
                fixed.is_some_and(|fixed| fixed.is_none_or(|(_, earlier)| earlier > place))
            };
            let places = (0..answers.len()).filter(|at| open(&answers[*at].1));
            let places = places.collect::<Vec<_>>();
            let nodes = places.iter().map(|at| answers[*at].0).collect::<Vec<_>>();
            for (at, why) in self.refused(&**filter, cx, state, pod, &nodes)? {
                answers[places[at]].1 = Some(Some((why, place)));
            }
        }
        let answers = answers.into_iter().map(|(id, fixed)| match fixed {
            None => (id, Answer::Vacant),
            Some(None) => (id, Answer::Feasible),
            Some(Some((why, _))) => (id, Answer::Refused(why)),
        });
        self.take_down(answers);
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
    fn take_down(&mut self, new: impl Iterator<Item = (NodeId, Answer)>) {
        self.counts.resize(self.rejections.len(), 0);
        let (mut come, mut gone) = (Vec::new(), false);
        for (id, answer) in new {
            let before = std::mem::replace(&mut self.answers[id.index()], answer);
            if let Answer::Refused(why) = before {
                let count = &mut self.counts[why.index()];
                *count = count.saturating_sub(1);
            }
            if let Answer::Refused(why) = answer {
                let count = &mut self.counts[why.index()];
                *count = count.saturating_add(1);
            }
            match (before == Answer::Feasible, answer == Answer::Feasible) {
                (false, true) => come.push(id),
                (true, false) => gone = true,
                _ => {}
            }
        }
        if gone {
            let answers = &self.answers;
            self.feasible
                .retain(|id| answers[id.index()] == Answer::Feasible);
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

    /// Each rejection with how many nodes have it, those without any left out.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&Rejection, usize)> {
        let counts = self.counts.iter().copied();
        let all = self.rejections.iter().zip(counts);
        all.filter(|(_, nodes)| *nodes > 0)
    }

    /// Why this node won't do; `None` if it will, or isn't there.
    pub(crate) fn rejection(&self, node: NodeId) -> Option<&Rejection> {
        match self.answers.get(node.index())? {
            Answer::Refused(why) => Some(self.rejections.get(*why)),
            Answer::Feasible | Answer::Vacant => None,
        }
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

    /// How many answers it keeps.
    pub(super) fn answers(&self) -> usize {
        let scores = self.columns.iter().map(Column::len);
        scores.fold(self.answers.len().saturating_mul(2), usize::saturating_add)
    }
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
