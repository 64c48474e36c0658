//! The proxy scheduler's profiles: the one that proxy pods meet, and the one that ranks targets before they are asked.

use std::sync::Arc;

use pilotage_api::keys;
use pilotage_sched::{
    EnqueueExtensions, EventKind, Plugin, PluginName, PodInfo, PreEnqueue, Profile, ProfileBuilder,
    ProfileError, Status, Verdict,
    plugins::{
        NodeAffinity, NodeName, NodeResourcesFit, NodeUnschedulable, PrioritySort, SchedulingGates,
        TaintToleration,
    },
};

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

/// Both profiles.
///
/// They have those of the stock plugins that a virtual node can speak for, with the stock weights; `NodeResourcesFit`
/// only scores: a virtual node shows a sum that may be old, and a target that could grow must be asked to do so.
/// Whether a pod fits, with its host ports and the features that it needs, is the target's answer.
pub fn profiles(
    board: &Arc<Board>,
    grants: Arc<dyn Grants>,
) -> Result<[Arc<Profile>; 2], ProfileError> {
    let answers = Arc::new(CandidateAnswers::new(Arc::clone(board)));
    let order = Arc::new(PlacementOrder::new(Arc::clone(board)));
    let bind = Arc::new(GrantBind::new(grants));
    let stock = |name: &str| {
        let taints = Arc::new(TaintToleration::default());
        let affinity = Arc::new(NodeAffinity::default());
        ProfileBuilder::new(name)
            .pre_enqueue(Arc::new(SchedulingGates))
            .queue_sort(Arc::new(PrioritySort))
            .mandatory_filter(Arc::new(VirtualNode))
            .filter(Arc::new(NodeUnschedulable))
            .filter(Arc::new(NodeName))
            .filter(taints.clone())
            .score(taints, 3)
            .pre_filter(affinity.clone())
            .filter(affinity.clone())
            .pre_score(affinity.clone())
            .score(affinity, 2)
            .score(Arc::new(NodeResourcesFit::default()), 1)
            .bind(bind.clone())
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
mod tests {
    use futures::future::BoxFuture;

    use super::*;
    use crate::plugins::GrantFailure;

    struct Nobody;

    impl Grants for Nobody {
        fn grant<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), GrantFailure>> {
            Box::pin(async { Err(GrantFailure::Ending) })
        }
    }

    #[test]
    fn the_guard_runs_first_and_only_the_scheduling_profile_reads_answers() {
        let [scheduling, ranking] = profiles(&Arc::default(), Arc::new(Nobody)).unwrap();
        let filters = |profile: &Profile| {
            profile
                .filters()
                .iter()
                .map(|filter| filter.name())
                .collect::<Vec<_>>()
        };
        let guarded = filters(&scheduling);
        assert_eq!(guarded.last(), Some(&"CandidateAnswers"));
        assert_eq!(
            guarded.iter().position(|name| *name == "VirtualNode"),
            Some(1)
        );
        assert!(!filters(&ranking).contains(&"CandidateAnswers"));
    }

    #[test]
    fn no_configuration_switches_the_guard_off() {
        let builder = ProfileBuilder::new("p")
            .queue_sort(Arc::new(PrioritySort))
            .mandatory_filter(Arc::new(VirtualNode))
            .bind(Arc::new(GrantBind::new(Arc::new(Nobody))));
        let error = builder.disable("VirtualNode").build().unwrap_err();
        assert!(matches!(error, ProfileError::Mandatory { .. }));
    }
}
