//! Owns one scheduling cycle up to the choice of a node: `PreFilter`, Filter, `PostFilter`, `PreScore`, Score.
//! Takes the table of nodes and a pod, changes nothing but the cycle's own state.
//!
//! There are two ways from Filter to the choice, which say the same. [`by_class`] keeps what plugins said for pods of
//! the same class, and asks again about touched nodes alone; [`search`] asks node by node, where a part of the nodes is
//! enough or `PreFilter` left a few.

mod by_class;
mod diagnosis;
mod evaluation;
mod offer;
mod score;
mod search;

use crate::classes::Classes;
use crate::context::Cycle;
use crate::guard::caught;
use crate::names::NodeName;
use crate::plugin::{Nomination, PostFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginError, Status};
use crate::table::NodeId;
use crate::tie::TieBreaker;

pub use self::diagnosis::{Cause, Diagnosis, NodeStatuses};
pub use self::evaluation::{Evaluation, RejectedNode, ScorePart, ScoredNode};
pub(crate) use self::evaluation::{evaluate, recheck};
pub(crate) use self::offer::{Offer, Offered, choose_offered};
pub(crate) use self::score::failure as score_failure;
pub(crate) use self::search::SearchSize;

/// The node for a pod.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) node: NodeName,
    pub(crate) evaluated: usize,
    pub(crate) feasible: usize,
}

/// Where a cycle leads.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// To a node.
    Node(Choice),
    /// To extenders, which are asked before a node is chosen.
    Offer(Box<Offer>),
}

#[cfg(test)]
impl Chosen {
    fn node(self) -> Choice {
        match self {
            Self::Node(choice) => choice,
            Self::Offer(offer) => panic!("nobody is asked: {offer:?}"),
        }
    }
}

/// No node for a pod, and what `PostFilter` said about its nomination.
#[derive(Debug)]
pub(crate) struct NoChoice {
    pub(crate) cause: Cause,
    pub(crate) nomination: Nomination,
}

/// How a node is looked for.
pub(crate) struct Search<'a> {
    pub(crate) size: SearchSize,
    /// Where a search of a part of the nodes begins; it moves on, so that each node gets its turn.
    pub(crate) start: &'a mut usize,
    pub(crate) ties: &'a mut dyn TieBreaker,
    pub(crate) classes: &'a mut Classes,
    /// Whether extenders are asked about what is found.
    pub(crate) is_offered: bool,
    /// Whether the node that the pod is nominated to goes before all others.
    pub(crate) nominated_first: bool,
    /// What went wrong and didn't end the search.
    pub(crate) mishaps: &'a mut Vec<PluginError>,
}

/// Chooses a node.
pub(crate) fn choose(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    mut how: Search<'_>,
) -> Result<Chosen, NoChoice> {
    if cycle.context().nodes().is_empty() {
        return Err(NO_NODES);
    }
    let found = find(cycle, state, pod, &mut how);
    found.map_err(|stop| stopped(&mut cycle.with_ties(how.ties), state, pod, stop))
}

const NO_NODES: NoChoice = NoChoice {
    cause: Cause::NoNodes,
    nomination: Nomination::Clear,
};

/// What becomes of a search that ended without a node: plugins may know help.
fn stopped(cycle: &mut Cycle<'_>, state: &mut CycleState, pod: &PodInfo, stop: Stop) -> NoChoice {
    match stop {
        Stop::Unfit(mut diagnosis) => {
            let nomination = post_filter(cycle, state, pod, &mut diagnosis);
            NoChoice {
                cause: Cause::Unfit(diagnosis),
                nomination,
            }
        }
        Stop::Error(error) => NoChoice {
            cause: error.into(),
            nomination: Nomination::Clear,
        },
    }
}

/// Why a search ended without a node.
enum Stop {
    Unfit(Box<Diagnosis>),
    Error(PluginError),
}

impl From<PluginError> for Stop {
    fn from(error: PluginError) -> Self {
        Self::Error(error)
    }
}

fn find(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    how: &mut Search<'_>,
) -> Result<Chosen, Stop> {
    let mut prepared = search::prepare(&cycle.context(), state, pod)?;
    if how.nominated_first
        && let Some(node) = search::nominated(cycle, state, pod, &mut prepared, how.mishaps)
    {
        let choice = choice(cycle, node, 1, 1);
        if !how.is_offered {
            return Ok(Chosen::Node(choice));
        }
        return Ok(Chosen::Offer(Box::new(Offer {
            nodes: vec![choice.node],
            evaluated: 1,
            nominated: true,
            diagnosis: prepared.diagnosis,
        })));
    }
    let everywhere = how.size.is_all() && prepared.allowed.is_none();
    let by_class = everywhere && by_class::is_possible(pod);
    if by_class && !how.is_offered {
        return by_class::choose(cycle, state, pod, prepared.diagnosis, how).map(Chosen::Node);
    }
    let found = if by_class {
        by_class::find(cycle, state, pod, prepared.diagnosis, how.classes)?
    } else {
        search::search(cycle, state, pod, prepared, how.size, how.start)?
    };
    if how.is_offered {
        return Ok(Chosen::Offer(Box::new(Offer::of(cycle, found))));
    }
    let feasible = &found.feasible;
    // A single node is simply taken.
    let at = if feasible.len() == 1 {
        0
    } else {
        let totals = score::totals(&cycle.context(), state, pod, feasible)?;
        best(&totals, how.ties)
    };
    let choice = choice(cycle, feasible[at], found.evaluated, feasible.len());
    Ok(Chosen::Node(choice))
}

fn choice(cycle: &Cycle<'_>, node: NodeId, evaluated: usize, feasible: usize) -> Choice {
    let nodes = cycle.context().nodes();
    let node = nodes.get(node).map(|node| node.name().clone());
    Choice {
        // It was there a moment ago.
        node: node.unwrap_or_else(|| NodeName::from("")),
        evaluated,
        feasible,
    }
}

/// The place of the highest total; among equals the tie breaker decides.
fn best(totals: &[i64], ties: &mut dyn TieBreaker) -> usize {
    let highest = totals.iter().copied().max().unwrap_or(0);
    // In the width of the totals, so that several are counted at once.
    let each = totals.iter().map(|total| u64::from(*total == highest));
    let equals = each.fold(0_u64, u64::wrapping_add) as usize;
    let pick = if equals > 1 { ties.pick(equals) } else { 0 };
    let mut places = totals
        .iter()
        .enumerate()
        .filter(|(_, total)| **total == highest);
    places.nth(pick).map_or(0, |(at, _)| at)
}

/// Looks for help, and adds what was said to the report. The pod stays unschedulable in any case, even if a
/// plugin fails. Without plugins it expects nothing any more.
fn post_filter(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    diagnosis: &mut Diagnosis,
) -> Nomination {
    if cycle.profile().post_filters().is_empty() {
        return Nomination::Clear;
    }
    let mut said = Vec::new();
    let mut nomination = Nomination::Keep;
    diagnosis.post_filtered = true;
    for plugin in cycle.profile().post_filters() {
        let found = caught(|| plugin.post_filter(cycle, state, pod, &diagnosis.statuses));
        let PostFiltered {
            nomination: wanted,
            verdict,
        } = found.unwrap_or_else(|panic| {
            PostFiltered::no_help(Nomination::Keep, Status::Error(PluginError::new(panic)))
        });
        match verdict {
            Err(Status::Rejected(rejection)) if rejection.resolvable() => {
                said.push(rejection.to_string());
                if wanted != Nomination::Keep {
                    nomination = wanted;
                }
            }
            // The others end the point, and speak for it alone.
            Ok(()) => return wanted,
            Err(Status::Rejected(rejection)) => {
                diagnosis.post_filter = Some(rejection.to_string());
                return wanted;
            }
            Err(Status::Error(error)) => {
                diagnosis.post_filter = Some(error.by(plugin.name()).to_string());
                return Nomination::Keep;
            }
        }
    }
    diagnosis.post_filter = (!said.is_empty()).then(|| said.join(", "));
    nomination
}

#[cfg(test)]
mod tests;
