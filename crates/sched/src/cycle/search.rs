//! Owns the search for feasible nodes: `PreFilter`, then Filter over as many nodes as needed.
//! Knows nothing of scores.

use std::collections::BTreeSet;

use super::{Diagnosis, Stop};
use crate::context::{Context, Cycle};
use crate::guard::guarded;
use crate::names::NodeName;
use crate::plugin::{Plugin, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Rejection, RejectionKind, Status};
use crate::table::NodeId;

/// How many feasible nodes are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchSize {
    /// All there are, for evaluations.
    All,
    /// The adaptive size (0) or this percentage of the nodes offered to Filter.
    Percentage(u8),
    /// One, since nothing scores.
    One,
}

impl SearchSize {
    /// Whether it is certain that every node is looked at.
    pub(crate) const fn is_all(self) -> bool {
        matches!(self, Self::All | Self::Percentage(100..))
    }

    /// How many feasible nodes of `nodes` are sought (`numFeasibleNodesToFind` of kube-scheduler).
    pub(crate) fn wanted(self, nodes: usize) -> usize {
        const MIN_NODES: usize = 100;
        const MIN_PERCENTAGE: usize = 5;
        let percentage = match self {
            Self::All => return nodes,
            Self::One => return 1,
            Self::Percentage(_) if nodes < MIN_NODES => return nodes,
            Self::Percentage(0) => 50usize.saturating_sub(nodes / 125).max(MIN_PERCENTAGE),
            Self::Percentage(percentage) => usize::from(percentage.min(100)),
        };
        (nodes.saturating_mul(percentage) / 100).max(MIN_NODES)
    }
}

/// What a search found: at least one node.
pub(crate) struct Found {
    pub(crate) feasible: Vec<NodeId>,
    pub(crate) evaluated: usize,
    pub(crate) diagnosis: Diagnosis,
}

/// What `PreFilter` left to look at.
pub(crate) struct Prepared {
    /// The nodes that may do, by name; `None` for all.
    pub(crate) allowed: Option<BTreeSet<NodeName>>,
    pub(crate) diagnosis: Diagnosis,
}

/// Runs `PreFilter`.
pub(super) fn prepare(
    cx: &Context<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
) -> Result<Prepared, Stop> {
    let mut diagnosis = Diagnosis::new(cx.nodes().len());
    let scope = cx.profile().node_scope();
    diagnosis.statuses.leave_out(scope.map(Plugin::name));
    match pre_filter(cx, state, pod, &mut diagnosis) {
        Ok(allowed) => Ok(Prepared { allowed, diagnosis }),
        Err(Status::Error(error)) => Err(error.into()),
        Err(Status::Rejected(rejection)) => {
            diagnosis.pre_filter = Some(rejection.to_string());
            diagnosis.note(&rejection);
            diagnosis.statuses.set_others(rejection);
            Err(Stop::Unfit(Box::new(diagnosis)))
        }
    }
}

/// The node that the pod itself is nominated to, if it does; room was made there. A plugin that fails there is noted,
/// and the search goes on, as in kube-scheduler 1.36.3 (`findNodesThatFitPod`): where it matters, it fails again.
pub(super) fn nominated(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    prepared: &mut Prepared,
    mishaps: &mut Vec<PluginError>,
) -> Option<NodeId> {
    let cx = cycle.context();
    let node = cx.nominator().node_of(&pod.uid);
    let allowed = |node: &&NodeName| {
        let allowed = prepared.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(*node))
    };
    let id = node.filter(allowed).and_then(|node| cx.nodes().id(node))?;
    match cycle.filter_with_nominated(state, pod, id) {
        Ok(()) => return Some(id),
        // Somebody was faster: look everywhere.
        Err(Status::Rejected(rejection)) => prepared.diagnosis.note(&rejection),
        Err(Status::Error(error)) => mishaps.push(error),
    }
    None
}

/// Runs Filter, node by node, over the nodes that `PreFilter` left.
pub(super) fn search(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    prepared: Prepared,
    size: SearchSize,
    start: &mut usize,
) -> Result<Found, Stop> {
    let Prepared {
        allowed,
        mut diagnosis,
    } = prepared;
    let nodes = cycle.context().nodes();
    let all = nodes.len();
    let offered = match &allowed {
        Some(allowed) => allowed.iter().filter_map(|name| nodes.id(name)).collect(),
        None => nodes.ids().to_vec(),
    };
    let feasible = filter(cycle, state, pod, size, &offered, *start, &mut diagnosis)?;
    let evaluated = feasible.len().saturating_add(diagnosis.statuses.counted());
    diagnosis.evaluated = evaluated;
    // Each search starts where the last one ended, whatever part of the nodes it was about.
    let end = start.saturating_add(evaluated);
    *start = end.checked_rem(all).unwrap_or_default();
    if feasible.is_empty() {
        return Err(Stop::Unfit(Box::new(diagnosis)));
    }
    Ok(Found {
        feasible,
        evaluated,
        diagnosis,
    })
}

/// Runs `PreFilter`: the nodes that may do (`None` for all), or why none does.
fn pre_filter(
    cx: &Context<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    diagnosis: &mut Diagnosis,
) -> Result<Option<BTreeSet<NodeName>>, Status> {
    let mut allowed: Option<BTreeSet<NodeName>> = None;
    let mut narrowed_by: BTreeSet<PluginName> = BTreeSet::new();
    let mut rejected: Option<Rejection> = None;
    for (index, plugin) in cx.profile().pre_filters().iter().enumerate() {
        let name = plugin.name();
        let found = guarded(name, || plugin.pre_filter(cx, state, pod));
        match found.map_err(|status| status.by(name)) {
            Ok(PreFiltered::AllNodes) => {}
            Ok(PreFiltered::Skip) => {
                state.skipped_pre_filters.insert(index);
                if let Some(filter) = cx.profile().filter_of_pre_filter(index) {
                    state.skipped_filters.insert(filter);
                }
            }
            Ok(PreFiltered::Nodes(names)) => {
                narrowed_by.insert(name);
                let intersection = match allowed {
                    None => names,
                    Some(known) => &known & &names,
                };
                if intersection.is_empty() {
                    diagnosis.rejected_by.extend(narrowed_by.iter().copied());
                    return Err(empty_intersection(&narrowed_by).into());
                }
                allowed = Some(intersection);
            }
            Err(Status::Rejected(rejection))
                if rejection.kind() == RejectionKind::UnschedulableAndUnresolvable =>
            {
                return Err(rejection.into());
            }
            // The others may still find that nothing can help.
            Err(Status::Rejected(rejection)) => {
                diagnosis.note(&rejection);
                rejected = Some(rejection);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(rejection) = rejected {
        return Err(rejection.into());
    }
    if allowed.is_some() {
        let plugins = list(&narrowed_by);
        diagnosis.statuses.set_others(Rejection::new(
            RejectionKind::UnschedulableAndUnresolvable,
            format!("node(s) didn't satisfy plugin(s) [{plugins}]"),
        ));
        diagnosis.rejected_by.extend(narrowed_by);
    }
    Ok(allowed)
}

fn list(plugins: &BTreeSet<PluginName>) -> String {
    plugins.iter().copied().collect::<Vec<_>>().join(" ")
}

fn empty_intersection(narrowed_by: &BTreeSet<PluginName>) -> Rejection {
    let plugins = list(narrowed_by);
    let text = if narrowed_by.len() == 1 {
        format!("node(s) didn't satisfy plugin {plugins}")
    } else {
        format!("node(s) didn't satisfy plugin(s) [{plugins}] simultaneously")
    };
    Rejection::new(RejectionKind::UnschedulableAndUnresolvable, text)
}

/// Runs Filter over `offered`, from `start` on, until enough are found.
fn filter(
    cycle: &mut Cycle<'_>,
    state: &CycleState,
    pod: &PodInfo,
    size: SearchSize,
    offered: &[NodeId],
    start: usize,
    diagnosis: &mut Diagnosis,
) -> Result<Vec<NodeId>, Stop> {
    let wanted = size.wanted(offered.len());
    let mut feasible = Vec::with_capacity(wanted.min(offered.len()));
    let Some(start) = start.checked_rem(offered.len()) else {
        return Ok(feasible);
    };
    let (before, from) = offered.split_at(start);
    for &node in from.iter().chain(before) {
        match cycle.filter_with_nominated(state, pod, node) {
            Ok(()) => {
                feasible.push(node);
                if feasible.len() >= wanted {
                    break;
                }
            }
            Err(Status::Rejected(rejection)) => {
                diagnosis.note(&rejection);
                if let Some(node) = cycle.context().nodes().get(node) {
                    diagnosis.statuses.push(node.name().clone(), rejection);
                }
            }
            Err(Status::Error(error)) => return Err(error.into()),
        }
    }
    Ok(feasible)
}

#[cfg(test)]
mod tests {
    use super::SearchSize;

    #[test]
    fn how_many_feasible_nodes_are_sought() {
        for (nodes, percentage, wanted) in [
            (0, 0, 0),
            (50, 0, 50),
            (99, 10, 99),
            (100, 0, 100),
            (200, 0, 100),
            (500, 0, 230),
            (1000, 0, 420),
            (2000, 0, 680),
            (5000, 0, 500),
            (6000, 0, 300),
            (15_000, 0, 750),
            (100_000, 0, 5000),
            (1000, 40, 400),
            (1000, 3, 100),
            (1000, 100, 1000),
        ] {
            assert_eq!(
                SearchSize::Percentage(percentage).wanted(nodes),
                wanted,
                "{nodes} {percentage}"
            );
        }
        assert_eq!(
            (SearchSize::One.wanted(7), SearchSize::All.wanted(7000)),
            (1, 7000)
        );
    }
}
