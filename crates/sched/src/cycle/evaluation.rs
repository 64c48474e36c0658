//! Owns questions about a pod that take nothing: which nodes would do and how good they are, and whether the
//! node that is held for it still does.

use std::collections::HashSet;

use super::search::{SearchSize, prepare, search};
use super::{Diagnosis, Stop, score};
use crate::context::{Context, Cycle};
use crate::guard::guarded;
use crate::names::NodeName;
use crate::plugin::PreFiltered;
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginError, PluginName, Rejection, Status, Verdict};

/// How good a node is, in one plugin's eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScorePart {
    /// The plugin.
    pub plugin: PluginName,
    /// Its normalized score times its weight.
    pub weighted: i64,
}

/// A node that would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredNode {
    /// The node.
    pub node: NodeName,
    /// The sum of all parts.
    pub total: i64,
    /// What each plugin says, in profile order; plugins that skipped aren't listed.
    pub parts: Vec<ScorePart>,
}

/// A node that won't do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedNode {
    /// The node.
    pub node: NodeName,
    /// Why, with the plugin.
    pub rejection: Rejection,
}

/// Filter and score of all nodes for a pod, without taking anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// The nodes that would do, best first; equals by name.
    pub feasible: Vec<ScoredNode>,
    /// The nodes that won't, in search order.
    pub rejected: Vec<RejectedNode>,
    /// The report, as a failed attempt has it; its text makes sense only if nothing is feasible.
    pub diagnosis: Diagnosis,
}

pub(crate) fn evaluate(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
) -> Result<Evaluation, PluginError> {
    let mut feasible = Vec::new();
    let found = if cycle.context().nodes().is_empty() {
        Err(Stop::Unfit(Box::new(Diagnosis::new(0))))
    } else {
        prepare(&cycle.context(), state, pod)
            .and_then(|prepared| search(cycle, state, pod, prepared, SearchSize::All, &mut 0))
    };
    let cx = cycle.context();
    let diagnosis = match found {
        Ok(found) => {
            let views = found.feasible.iter().filter_map(|id| cx.nodes().get(*id));
            feasible = views
                .map(|node| ScoredNode {
                    node: node.name().clone(),
                    total: 0,
                    parts: Vec::new(),
                })
                .collect();
            score::each_plugin(&cx, state, pod, &found.feasible, |plugin, scores| {
                for (node, &weighted) in feasible.iter_mut().zip(scores) {
                    node.total = node.total.saturating_add(weighted);
                    node.parts.push(ScorePart { plugin, weighted });
                }
            })?;
            feasible.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.node.cmp(&b.node)));
            found.diagnosis
        }
        Err(Stop::Unfit(diagnosis)) => *diagnosis,
        Err(Stop::Error(error)) => return Err(error),
    };
    let rejected = rejections(&cx, &feasible, &diagnosis);
    Ok(Evaluation {
        feasible,
        rejected,
        diagnosis,
    })
}

fn rejections(
    cx: &Context<'_>,
    feasible: &[ScoredNode],
    diagnosis: &Diagnosis,
) -> Vec<RejectedNode> {
    let known = |node: &NodeName, rejection: &Rejection| RejectedNode {
        node: node.clone(),
        rejection: rejection.clone(),
    };
    let statuses = &diagnosis.statuses;
    let listed = statuses.rejected().map(|(node, why)| known(node, why));
    let mut rejected = listed.collect::<Vec<_>>();
    if let Some(others) = statuses.others() {
        let spoken_for = feasible
            .iter()
            .map(|node| &node.node)
            .chain(statuses.rejected().map(|(node, _)| node))
            .collect::<HashSet<_>>();
        let rest = cx.nodes().iter().map(|node| node.row().name());
        let rest = rest.filter(|name| !spoken_for.contains(name));
        rejected.extend(rest.map(|name| known(name, others)));
    }
    rejected
}

/// Whether `node` will do for the pod: `PreFilter`, and Filter for this node alone.
pub(crate) fn recheck(
    cycle: &mut Cycle<'_>,
    state: &mut CycleState,
    pod: &PodInfo,
    node: &NodeName,
) -> Verdict {
    let cx = cycle.context();
    for (index, plugin) in cx.profile().pre_filters().iter().enumerate() {
        let name = plugin.name();
        let found = guarded(name, || plugin.pre_filter(&cx, state, pod));
        match found.map_err(|status| status.by(name))? {
            PreFiltered::AllNodes => {}
            PreFiltered::Skip => {
                state.skipped_pre_filters.insert(index);
                if let Some(filter) = cx.profile().filter_of_pre_filter(index) {
                    state.skipped_filters.insert(filter);
                }
            }
            PreFiltered::Nodes(names) if names.contains(node) => {}
            PreFiltered::Nodes(_) => {
                let text = format!("node(s) didn't satisfy plugin {name}");
                return Err(Status::unresolvable(text).by(name));
            }
        }
    }
    let Some(id) = cx.nodes().id(node) else {
        return Err(Status::unresolvable("node(s) had gone"));
    };
    cycle.filter_with_nominated(state, pod, id)
}
