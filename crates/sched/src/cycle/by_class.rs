//! Owns the choice among all nodes by what is known of the pod's class: of filters that keep their answers, none is
//! asked about a node that hasn't changed, and the others only about nodes where their answer counts. Says what
//! [`super::search`] and [`super::score`] say; a test holds that.

mod own;

use self::own::Own;
use super::score::{add_up, pre_score};
use super::search::Found;
use super::{Choice, Diagnosis, Search, Stop, best, choice};
use crate::classes::{Class, Classes, Taken};
use crate::context::{Context, Cycle};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::PluginError;
use crate::table::NodeId;

/// Whether answers about nodes for this pod hold for others of its class.
pub(super) fn is_possible(pod: &PodInfo) -> bool {
    pod.node_name.is_none() && pod.defects().is_empty()
}

/// What is known of nodes for one pod.
pub(super) struct Outlook {
    taken: Taken,
    own: Own,
    feasible: Vec<NodeId>,
}

/// Looks at all nodes, or `among` these alone. It has to be [given back](Outlook::give_back).
pub(super) fn look(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    among: Option<&[NodeId]>,
    classes: &mut Classes,
) -> Result<Outlook, PluginError> {
    let fresh = cycle.profile().fresh_filters();
    // A class whose filters failed isn't given back: what it knows is of different times.
    let mut taken = classes.take(pod, state.skipped_filters.and(fresh));
    taken.class.follow(&cycle.context(), state, pod)?;
    match own(cycle, state, pod, among, &taken.class) {
        Ok((own, feasible)) => Ok(Outlook {
            taken,
            own,
            feasible,
        }),
        Err(error) => {
            classes.give_back(taken);
            Err(error)
        }
    }
}

/// What isn't known of the class, and the nodes that will do.
fn own(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    among: Option<&[NodeId]>,
    class: &Class,
) -> Result<(Own, Vec<NodeId>), PluginError> {
    let mut own = Own::crowded(cycle, state, pod)?;
    let mut feasible = match among {
        None => class.feasible().to_vec(),
        Some(nodes) => {
            let nodes = nodes.iter().copied();
            nodes.filter(|id| class.is_feasible(*id)).collect()
        }
    };
    own.leave_out(&mut feasible);
    own.ask(&cycle.context(), state, pod, &mut feasible)?;
    Ok((own, feasible))
}

impl Outlook {
    /// The nodes that will do; all of them in ascending order.
    pub(super) fn feasible(&self) -> &[NodeId] {
        &self.feasible
    }

    /// Keeps what holds for the pod's class.
    pub(super) fn give_back(self, classes: &mut Classes) {
        classes.give_back(self.taken);
    }

    /// The totals of some of the nodes that will do.
    pub(super) fn totals(
        &mut self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        nodes: &[NodeId],
    ) -> Result<Vec<i64>, PluginError> {
        pre_score(cx, state, pod, nodes)?;
        let mut totals = vec![0_i64; nodes.len()];
        let mut scores = Vec::with_capacity(nodes.len());
        for (place, score) in cx.profile().scores().iter().enumerate() {
            if state.skipped_scores.contains(place) {
                continue;
            }
            scores.clear();
            let class = &mut self.taken.class;
            class.scores(place, cx, state, pod, nodes, &mut scores)?;
            let among = (cx.nodes(), nodes);
            add_up(score, state, pod, among, &mut scores, &mut totals)?;
        }
        Ok(totals)
    }

    /// Why all the other nodes won't do.
    fn diagnose(
        &mut self,
        cx: &Context<'_>,
        state: &CycleState,
        pod: &PodInfo,
        mut diagnosis: Diagnosis,
    ) -> Result<Diagnosis, PluginError> {
        let table = cx.nodes();
        let class = &self.taken.class;
        // Who refuses a node first is told. Of a node that the class refuses, those that are asked for each pod have
        // been asked nothing yet.
        if !Own::asks_nobody(cx, state) {
            let mut refused = table.ids().to_vec();
            refused.retain(|id| class.rejection(*id).is_some());
            self.own.leave_out(&mut refused);
            let filters = cx.profile().filters();
            let place = |name| filters.iter().position(|filter| filter.name() == name);
            let places = class.rejections().map(|why| why.plugin().and_then(place));
            let places = places.map(|place| place.unwrap_or(filters.len()));
            let places = places.collect::<Vec<_>>();
            let until = |id| class.refusal(id).map_or(0, |why| places[why.index()]);
            self.own.ask_before(cx, state, pod, &mut refused, until)?;
        }
        diagnosis.evaluated = table.len();
        let mut counts = class.counts().to_vec();
        // Under which numbers the report has them.
        let (mut told_of_class, mut told_of_own) = (Vec::new(), Vec::new());
        for (id, _) in self.own.refused() {
            if let Some(why) = class.refusal(id) {
                let count = &mut counts[why.index()];
                *count = count.saturating_sub(1);
            }
        }
        let of_class = class.rejections().zip(counts).map(|it| (it, true));
        let of_own = self.own.counts().map(|it| (it, false));
        for ((rejection, nodes), is_of_class) in of_class.chain(of_own) {
            let known = (nodes > 0).then(|| {
                diagnosis.note(rejection);
                diagnosis.statuses.count(rejection.clone(), nodes)
            });
            let told = if is_of_class {
                &mut told_of_class
            } else {
                &mut told_of_own
            };
            told.push(known);
        }
        // Who could ask for single nodes?
        if !cx.profile().post_filters().is_empty() {
            for node in table.iter() {
                let id = node.id();
                let own = self.own.refusal(id);
                let own = own.map(|why| told_of_own[why.index()]);
                let why = own.or_else(|| Some(told_of_class[class.refusal(id)?.index()]));
                // Each of them counts at least this node.
                if let Some(why) = why.flatten() {
                    diagnosis.statuses.name(node, why);
                }
            }
        }
        Ok(diagnosis)
    }
}

/// Chooses a node.
pub(super) fn choose(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    diagnosis: Diagnosis,
    how: &mut Search<'_>,
) -> Result<Choice, Stop> {
    let Search { classes, ties, .. } = how;
    let mut outlook = look(cycle, state, pod, None, classes)?;
    let nodes = std::mem::take(&mut outlook.feasible);
    let cx = cycle.context();
    let chosen = match &*nodes {
        [] => match outlook.diagnose(&cx, state, pod, diagnosis) {
            Ok(diagnosis) => Err(Stop::Unfit(Box::new(diagnosis))),
            Err(error) => Err(error.into()),
        },
        // A single node is simply taken.
        [only] => Ok(*only),
        nodes => match outlook.totals(&cx, state, pod, nodes) {
            Ok(totals) => Ok(nodes[best(&totals, *ties)]),
            Err(error) => Err(error.into()),
        },
    };
    outlook.give_back(classes);
    let evaluated = cycle.context().nodes().len();
    chosen.map(|node| choice(cycle, node, evaluated, nodes.len()))
}

/// Finds all nodes that will do, for extenders.
pub(super) fn find(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    diagnosis: Diagnosis,
    classes: &mut Classes,
) -> Result<Found, Stop> {
    let mut outlook = look(cycle, state, pod, None, classes)?;
    let feasible = std::mem::take(&mut outlook.feasible);
    let cx = cycle.context();
    let diagnosis = outlook.diagnose(&cx, state, pod, diagnosis);
    outlook.give_back(classes);
    let diagnosis = diagnosis?;
    if feasible.is_empty() {
        return Err(Stop::Unfit(Box::new(diagnosis)));
    }
    Ok(Found {
        feasible,
        evaluated: cycle.context().nodes().len(),
        diagnosis,
    })
}

#[cfg(test)]
mod tests;
