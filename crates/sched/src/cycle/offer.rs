//! Owns what a cycle leaves for extenders to look at, and the choice among the nodes that they agreed to. The cluster
//! may have changed meanwhile: Filter looks at those nodes again.

use std::collections::HashMap;

use super::by_class::Outlook;
use super::search::Found;
use super::{
    Choice, Diagnosis, NO_NODES, NoChoice, SearchSize, Stop, best, by_class, choice, score, search,
    stopped,
};
use crate::classes::Classes;
use crate::context::Cycle;
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginError, Status};
use crate::table::NodeId;
use crate::tie::TieBreaker;

/// Nodes that plugins find feasible, before one is chosen.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) nodes: Vec<NodeName>,
    pub(crate) evaluated: usize,
    /// It is the one node that the pod is nominated to.
    pub(crate) nominated: bool,
    /// Why the others aren't among them.
    pub(crate) diagnosis: Diagnosis,
}

impl Offer {
    pub(super) fn of(cycle: &Cycle<'_>, found: Found) -> Self {
        let table = cycle.context().nodes();
        let nodes = found.feasible.iter().filter_map(|id| table.get(*id));
        Self {
            nodes: nodes.map(|node| node.name().clone()).collect(),
            evaluated: found.evaluated,
            nominated: false,
            diagnosis: found.diagnosis,
        }
    }
}

/// An offer, as extenders left it.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) offer: Offer,
    /// What they add to the nodes' totals.
    pub(crate) totals: HashMap<NodeName, i64>,
}

/// Chooses among the nodes that extenders agreed to, and that still do.
pub(crate) fn choose_offered(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    offered: Offered,
    size: SearchSize,
    classes: &mut Classes,
    ties: &mut dyn TieBreaker,
) -> Result<Choice, NoChoice> {
    if cycle.context().nodes().is_empty() {
        return Err(NO_NODES);
    }
    // They were found by class.
    let classes = size.is_all().then_some(classes);
    let chosen = find(cycle, state, pod, offered, classes, ties);
    chosen.map_err(|stop| stopped(&mut cycle.with_ties(ties), state, pod, stop))
}

fn find(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    offered: Offered,
    classes: Option<&mut Classes>,
    ties: &mut dyn TieBreaker,
) -> Result<Choice, Stop> {
    let Offered { offer, totals } = offered;
    let Offer {
        nodes,
        evaluated,
        mut diagnosis,
        ..
    } = offer;
    let allowed = search::prepare(&cycle.context(), state, pod)?.allowed;
    let is_allowed = |name: &NodeName| {
        let allowed = allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(name))
    };
    // Those that went, or aren't for the pod any more, are left out.
    let there = nodes.iter().filter(|name| is_allowed(name));
    let there = there.filter_map(|name| cycle.context().nodes().id(name));
    let there = there.collect::<Vec<_>>();
    let by_class = allowed.is_none() && by_class::is_possible(pod);
    let mut classes = classes.filter(|_| by_class);
    let mut outlook = None;
    if let Some(classes) = &mut classes {
        outlook = Some(by_class::look(cycle, state, pod, Some(&there), classes)?);
    }
    let feasible = still_good(cycle, state, pod, outlook.as_ref(), there, &mut diagnosis);
    let chosen = feasible.and_then(|feasible| {
        let chosen = pick(
            cycle,
            state,
            pod,
            outlook.as_mut(),
            &feasible,
            &totals,
            ties,
        )?;
        Ok((chosen, feasible.len()))
    });
    if let (Some(outlook), Some(classes)) = (outlook, classes) {
        outlook.give_back(classes);
    }
    match chosen? {
        (Some(node), feasible) => Ok(choice(cycle, node, evaluated, feasible)),
        (None, _) => Err(Stop::Unfit(Box::new(diagnosis))),
    }
}

/// The nodes of the offer that will do now; why others won't.
fn still_good(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    outlook: Option<&Outlook>,
    mut offered: Vec<NodeId>,
    diagnosis: &mut Diagnosis,
) -> Result<Vec<NodeId>, PluginError> {
    let mut feasible = outlook.map_or_else(Vec::new, |outlook| outlook.feasible().to_vec());
    // Both are in the order of the offer.
    let mut good = feasible.iter().peekable();
    offered.retain(|id| good.next_if_eq(&id).is_none());
    for id in offered {
        match cycle.filter_with_nominated(state, pod, id) {
            Ok(()) => feasible.push(id),
            Err(Status::Rejected(rejection)) => {
                diagnosis.note(&rejection);
                if let Some(node) = cycle.context().nodes().get(id) {
                    diagnosis.statuses.push(node.name().clone(), rejection);
                }
            }
            Err(Status::Error(error)) => return Err(error),
        }
    }
    Ok(feasible)
}

/// The best of these nodes; `None` if there is none.
fn pick(
    cycle: &Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    outlook: Option<&mut Outlook>,
    nodes: &[NodeId],
    more: &HashMap<NodeName, i64>,
    ties: &mut dyn TieBreaker,
) -> Result<Option<NodeId>, PluginError> {
    // A single node is simply taken.
    if let [] | [_] = nodes {
        return Ok(nodes.first().copied());
    }
    let cx = cycle.context();
    let mut all = match outlook {
        Some(outlook) => outlook.totals(&cx, state, pod, nodes)?,
        None => score::totals(&cx, state, pod, nodes)?,
    };
    add(&mut all, nodes, cycle, more);
    Ok(Some(nodes[best(&all, ties)]))
}

fn add(all: &mut [i64], nodes: &[NodeId], cycle: &Cycle<'_>, totals: &HashMap<NodeName, i64>) {
    let table = cycle.context().nodes();
    for (total, id) in all.iter_mut().zip(nodes) {
        let more = table.get(*id).and_then(|node| totals.get(node.name()));
        *total = total.saturating_add(more.copied().unwrap_or_default());
    }
}
