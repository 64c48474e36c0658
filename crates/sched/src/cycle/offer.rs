//! Owns what a cycle leaves for extenders to look at, and the choice among the nodes that they agreed to. The cluster may
//! have changed meanwhile: Filter looks at those nodes again.

use std::collections::HashMap;

use super::search::Found;
use super::{Choice, Diagnosis, NO_NODES, NoChoice, Stop, best, choice, score, search, stopped};
use crate::context::Cycle;
use crate::names::NodeName;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::Status;
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
    ties: &mut dyn TieBreaker,
) -> Result<Choice, NoChoice> {
    if cycle.context().nodes().is_empty() {
        return Err(NO_NODES);
    }
    find(cycle, state, pod, offered, ties).map_err(|stop| stopped(cycle, state, pod, stop))
}

fn find(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    offered: Offered,
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
    let mut feasible: Vec<NodeId> = Vec::with_capacity(nodes.len());
    for name in nodes {
        let is_allowed = allowed
            .as_ref()
            .is_none_or(|allowed| allowed.contains(&name));
        let Some(id) = cycle.context().nodes().id(&name).filter(|_| is_allowed) else {
            // It went, or isn't one for the pod any more.
            continue;
        };
        match cycle.filter_with_nominated(state, pod, id) {
            Ok(()) => feasible.push(id),
            Err(Status::Rejected(rejection)) => {
                diagnosis.note(&rejection);
                diagnosis.statuses.push(name, rejection);
            }
            Err(Status::Error(error)) => return Err(error.into()),
        }
    }
    let at = match &*feasible {
        [] => return Err(Stop::Unfit(Box::new(diagnosis))),
        // A single node is simply taken.
        [_] => 0,
        _ => {
            let mut all = score::totals(&cycle.context(), state, pod, &feasible)?;
            add(&mut all, &feasible, cycle, &totals);
            best(&all, ties)
        }
    };
    Ok(choice(cycle, feasible[at], evaluated, feasible.len()))
}

fn add(all: &mut [i64], nodes: &[NodeId], cycle: &Cycle<'_>, totals: &HashMap<NodeName, i64>) {
    let table = cycle.context().nodes();
    for (total, id) in all.iter_mut().zip(nodes) {
        let more = table.get(*id).and_then(|node| totals.get(node.name()));
        *total = total.saturating_add(more.copied().unwrap_or_default());
    }
}
