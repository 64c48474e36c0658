//! The proxy scheduler's profiles: the one that proxy pods meet, and the one that ranks targets before they are asked.

use std::sync::Arc;

use pilotage_api::keys;
use pilotage_sched::{
    EnqueueExtensions, EventKind, Plugin, PluginName, PodInfo, PreEnqueue, Profile, ProfileBuilder,
    ProfileError, Status, Verdict,
    plugins::{
        NodeAffinity, NodeName, NodeResourcesFit, NodeUnschedulable, PodTopologySpread,
        PrioritySort, SchedulingGates, SpreadArgs, SpreadArgsError, SpreadDefaults,
        TaintToleration, looking_at_pods,
    },
    taints::Comparison,
};
use thiserror::Error;

use crate::{
    board::Board,
    plugins::{CandidateAnswers, GrantBind, Grants, PlacementOrder, VirtualNode},
};

/// Name of the profile that ranks: every plugin of the other one but the answers. No pod is scheduled by it.
pub const RANKING: &str = "admiralty-proxy/ranking";

/// Gates pods that name the ranking profile as their scheduler.
struct RankingOnly;

impl Plugin for RankingOnly {
    fn name(&self) -> PluginName {
        "RankingOnly"
    }
}

impl EnqueueExtensions for RankingOnly {
    fn events(&self) -> Vec<EventKind> {
        Vec::new()
    }
}

impl PreEnqueue for RankingOnly {
    fn pre_enqueue(&self, _: &PodInfo) -> Verdict {
        Err(Status::unresolvable(
            "this profile ranks targets and schedules no pods",
        ))
    }
}

/// Why there are no profiles.
#[derive(Debug, Error)]
pub enum ProfilesError {
    /// Plugins don't go together.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Spreading can't be told to have no defaults.
    #[error(transparent)]
    Spread(#[from] SpreadArgsError),
}

/// Both profiles.
///
/// They have those of the stock plugins that a virtual node can speak for, with the stock weights; `NodeResourcesFit`
/// only scores: a virtual node shows a sum that may be old, and a target that could grow must be asked to do so.
/// Whether a pod fits, with its host ports and the features that it needs, is the target's answer.
///
/// Spreading and inter-pod affinity speak of proxies and virtual nodes: other pods aren't known here, and of nodes
/// those that stand for no target of the pod's are out of [scope](VirtualNode). Nobody is spread by default: Services
/// and controllers mean the nodes of one cluster. A proxy with too many such rules is refused, so that its author keeps
/// nobody else waiting.
pub fn profiles(
    board: &Arc<Board>,
    grants: Arc<dyn Grants>,
) -> Result<[Arc<Profile>; 2], ProfilesError> {
    let answers = Arc::new(CandidateAnswers::new(Arc::clone(board)));
    let order = Arc::new(PlacementOrder::new(Arc::clone(board)));
    let bind = Arc::new(GrantBind::new(grants));
    let undemanded = SpreadArgs {
        defaults: SpreadDefaults::List(Vec::new()),
    };
    let spread = Arc::new(PodTopologySpread::new(undemanded, Comparison::default())?);
    let stock = |name: &str| {
        let taints = Arc::new(TaintToleration::default());
        let affinity = Arc::new(NodeAffinity::default());
        let profile = ProfileBuilder::new(name)
            .pre_enqueue(Arc::new(SchedulingGates))
            .queue_sort(Arc::new(PrioritySort))
            .refusing_many_rules()
            .mandatory_filter(Arc::new(VirtualNode))
            .node_scope(Arc::new(VirtualNode))
            .filter(Arc::new(NodeUnschedulable))
            .filter(Arc::new(NodeName))
            .filter(taints.clone())
            .score(taints, 3)
            .pre_filter(affinity.clone())
            .filter(affinity.clone())
            .pre_score(affinity.clone())
            .score(affinity, 2)
            .score(Arc::new(NodeResourcesFit::default()), 1);
        looking_at_pods(profile, spread.clone()).bind(bind.clone())
    };
    Ok([
        stock(keys::PROXY_SCHEDULER)
            .pre_enqueue(answers.clone())
            .pre_filter(answers.clone())
            .pre_score(order.clone())
            .score(order, PlacementOrder::WEIGHT)
            // Last, so that a target is said to have refused only if nothing else speaks against it.
            .filter(answers)
            .build()?,
        stock(RANKING).pre_enqueue(Arc::new(RankingOnly)).build()?,
    ])
}

#[cfg(test)]
mod tests;
