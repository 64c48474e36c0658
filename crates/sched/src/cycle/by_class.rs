//! Owns the choice among all nodes by what is known of the pod's class: no plugin is asked about a node that hasn't
//! changed. Says what [`super::search`] and [`super::score`] say; a test holds that.

use super::score::{finish, pre_score};
use super::{Choice, Diagnosis, Search, Stop, best, choice};
use crate::classes::Class;
use crate::context::{Cycle, expected_on};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::state::CycleState;
use crate::status::{PluginError, Rejection, Status};
use crate::table::{NodeId, NodeView};

/// Whether answers about nodes for this pod hold for others of its class.
pub(super) fn is_possible(profile: &Profile, state: &CycleState, pod: &PodInfo) -> bool {
    profile.keeps_answers(state.skipped_filters)
        && pod.node_name.is_none()
        && pod.defects().is_empty()
}

pub(super) fn choose(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    diagnosis: Diagnosis,
    how: Search<'_>,
) -> Result<Choice, Stop> {
    let Search { classes, ties, .. } = how;
    // A class that failed, or panicked, isn't given back.
    let mut taken = classes.take(pod, state.skipped_filters);
    taken.class.follow(&cycle.context(), state, pod)?;
    let evaluated = cycle.context().nodes().len();
    let crowded = crowded(cycle, state, pod)?;
    let mut nodes = taken.class.feasible().to_vec();
    if !crowded.is_empty() {
        nodes.retain(|id| crowded.iter().all(|(other, _)| other != id));
    }
    let chosen = pick(cycle, state, pod, &mut taken.class, &nodes, |totals| {
        best(totals, ties)
    });
    let chosen = match chosen {
        Ok(Some(node)) => Ok(choice(cycle, node, evaluated, nodes.len())),
        Ok(None) => {
            let class = &taken.class;
            let why = diagnose(cycle, class, &crowded, diagnosis, evaluated);
            Err(Stop::Unfit(Box::new(why)))
        }
        Err(error) => return Err(error.into()),
    };
    classes.give_back(taken);
    chosen
}

/// Nodes that won't do with the pods that are nominated to them, and why. What is known of the class is known without
/// those.
fn crowded(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
) -> Result<Vec<(NodeId, Rejection)>, PluginError> {
    let cx = cycle.context();
    let nominator = cx.nominator();
    let expecting = nominator
        .nodes()
        .filter_map(|node| cx.nodes().by_name(node));
    let expecting = expecting.filter(|node| expected_on(nominator, pod, *node).next().is_some());
    let expecting = expecting.map(NodeView::id).collect::<Vec<_>>();
    let mut crowded = Vec::new();
    for id in expecting {
        match cycle.filter_with_nominated(state, pod, id) {
            Ok(()) => {}
            Err(Status::Rejected(rejection)) => crowded.push((id, rejection)),
            Err(Status::Error(error)) => return Err(error),
        }
    }
    Ok(crowded)
}

/// The best of the nodes that will do, by `best` of their totals; `None` if there is none.
fn pick(
    cycle: &Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    class: &mut Class,
    nodes: &[NodeId],
    best: impl FnOnce(&[i64]) -> usize,
) -> Result<Option<NodeId>, PluginError> {
    match nodes {
        [] => return Ok(None),
        // A single node is simply taken.
        [only] => return Ok(Some(*only)),
        _ => {}
    }
    let cx = cycle.context();
    pre_score(&cx, state, pod, nodes)?;
    let mut totals = vec![0_i64; nodes.len()];
    let mut scores = Vec::with_capacity(nodes.len());
    for (place, score) in cx.profile().scores().iter().enumerate() {
        if state.skipped_scores.contains(place) {
            continue;
        }
        scores.clear();
        class.scores(place, &cx, state, pod, nodes, &mut scores)?;
        let plugin = &*score.plugin;
        finish(
            plugin,
            score.weight,
            state,
            pod,
            cx.nodes(),
            nodes,
            &mut scores,
        )?;
        for (total, part) in totals.iter_mut().zip(&scores) {
            // 64 plugins with weights of 32 bits fit.
            *total = total.wrapping_add(*part);
        }
    }
    Ok(nodes.get(best(&totals)).copied())
}

/// The report of a class without a node that will do.
fn diagnose(
    cycle: &Cycle<'_>,
    class: &Class,
    crowded: &[(NodeId, Rejection)],
    mut diagnosis: Diagnosis,
    evaluated: usize,
) -> Diagnosis {
    diagnosis.evaluated = evaluated;
    // Of crowded nodes, what was said with the pods on them that are expected there.
    let otherwise = crowded.iter().filter_map(|(id, _)| class.rejection(*id));
    let otherwise = otherwise.collect::<Vec<_>>();
    for (rejection, nodes) in class.counts() {
        let otherwise = otherwise.iter().filter(|other| **other == rejection);
        let nodes = nodes.saturating_sub(otherwise.count());
        if nodes > 0 {
            diagnosis.note(rejection);
            diagnosis.statuses.count(rejection.clone(), nodes);
        }
    }
    for (_, rejection) in crowded {
        diagnosis.note(rejection);
        diagnosis.statuses.count(rejection.clone(), 1);
    }
    // Who could ask for single nodes?
    if !cycle.profile().post_filters().is_empty() {
        let table = cycle.context().nodes();
        for node in table.iter() {
            let id = node.id();
            let late = crowded.iter().find(|(other, _)| *other == id);
            let why = late.map(|(_, why)| why).or_else(|| class.rejection(id));
            if let Some(why) = why {
                let why = diagnosis.statuses.count(why.clone(), 0);
                diagnosis.statuses.name(node.name().clone(), why);
            }
        }
    }
    diagnosis
}

#[cfg(test)]
mod tests;
