//! The proxy scheduler's profiles: the one that proxy pods meet, and the one that ranks targets before they are asked.

use std::sync::Arc;

use pilotage_api::keys;
use pilotage_sched::{
    EnqueueExtensions, EventKind, Plugin, PluginName, PodInfo, PreEnqueue, Profile, ProfileBuilder,
    ProfileError, Status, Verdict,
};

use crate::{
    board::Board,
    plugins::{CandidateAnswers, GrantBind, Grants, VirtualNode},
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

/// Both profiles; `stock` adds the plugins that they share with a plain scheduler, except for Bind.
pub fn profiles(
    stock: impl Fn(ProfileBuilder) -> ProfileBuilder,
    board: &Arc<Board>,
    grants: Arc<dyn Grants>,
) -> Result<[Arc<Profile>; 2], ProfileError> {
    let answers = Arc::new(CandidateAnswers::new(Arc::clone(board)));
    let bind = Arc::new(GrantBind::new(grants));
    let base = |name: &str| {
        let builder = ProfileBuilder::new(name).mandatory_filter(Arc::new(VirtualNode));
        stock(builder).bind(bind.clone())
    };
    Ok([
        base(keys::PROXY_SCHEDULER)
            .pre_enqueue(answers.clone())
            .pre_filter(answers.clone())
            .mandatory_filter(answers)
            .build()?,
        base(RANKING).pre_enqueue(Arc::new(RankingOnly)).build()?,
    ])
}
