use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Point, Profile, ProfileBuilder, ProfileError, Profiles};
use crate::plugin::{Bind, Bound, Plugin, QueueSort};
use crate::plugins::{NodeAffinity, NodeName, NodeUnschedulable, PrioritySort, TaintToleration};
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::state::CycleState;
use crate::status::{PluginName, Verdict};
use crate::test_plugins::Fake;

struct NoBinder;

impl Plugin for NoBinder {
    fn name(&self) -> PluginName {
        "NoBinder"
    }
}

impl Bind for NoBinder {
    fn bind<'a>(
        &'a self,
        _: &'a CycleState,
        _: &'a PodInfo,
        _: &'a crate::names::NodeName,
    ) -> BoxFuture<'a, Verdict<Bound>> {
        Box::pin(async { Ok(Bound::Done) })
    }
}

struct LastInFirstOut;

impl Plugin for LastInFirstOut {
    fn name(&self) -> PluginName {
        "LastInFirstOut"
    }
}

impl QueueSort for LastInFirstOut {
    fn compare(&self, a: &QueuedPod, b: &QueuedPod) -> std::cmp::Ordering {
        b.queued_at.cmp(&a.queued_at)
    }
}

fn base(name: &str) -> ProfileBuilder {
    ProfileBuilder::new(name)
        .queue_sort(Arc::new(PrioritySort))
        .bind(Arc::new(NoBinder))
}

fn filters(profile: &Profile) -> Vec<PluginName> {
    profile
        .filters()
        .iter()
        .map(|plugin| plugin.name())
        .collect()
}

#[test]
fn what_a_profile_must_have() {
    let profile = || "p".to_owned();
    let sort = Arc::new(PrioritySort);
    for (builder, error) in [
        (
            ProfileBuilder::new("p").queue_sort(sort.clone()),
            ProfileError::NoBind { profile: profile() },
        ),
        (
            ProfileBuilder::new("p").bind(Arc::new(NoBinder)),
            ProfileError::QueueSort {
                profile: profile(),
                found: 0,
            },
        ),
        (
            base("p").queue_sort(Arc::new(LastInFirstOut)),
            ProfileError::QueueSort {
                profile: profile(),
                found: 2,
            },
        ),
        (
            base("p")
                .filter(Arc::new(NodeName))
                .filter(Arc::new(NodeName)),
            ProfileError::Duplicate {
                profile: profile(),
                plugin: "NodeName",
                point: Point::Filter,
            },
        ),
        (
            base("p")
                .mandatory_filter(Arc::new(NodeName))
                .filter(Arc::new(NodeName)),
            ProfileError::Duplicate {
                profile: profile(),
                plugin: "NodeName",
                point: Point::Filter,
            },
        ),
        (
            base("p").score(Arc::new(TaintToleration::default()), 0),
            ProfileError::ZeroWeight {
                profile: profile(),
                plugin: "TaintToleration",
            },
        ),
        (
            base("p").percentage_of_nodes_to_score(101),
            ProfileError::Percentage {
                profile: profile(),
                percentage: 101,
            },
        ),
        (
            base("p")
                .mandatory_filter(Arc::new(NodeName))
                .disable("NodeName"),
            ProfileError::Mandatory {
                profile: profile(),
                plugin: "NodeName".into(),
            },
        ),
        (
            base("p")
                .mandatory_pre_filter(Arc::new(NodeAffinity::default()))
                .disable("NodeAffinity"),
            ProfileError::Mandatory {
                profile: profile(),
                plugin: "NodeAffinity".into(),
            },
        ),
        (
            base("p").disable("WellFormed"),
            ProfileError::Mandatory {
                profile: profile(),
                plugin: "WellFormed".into(),
            },
        ),
    ] {
        assert_eq!(builder.build().unwrap_err(), error);
    }
}

#[test]
fn mandatory_filters_come_first_and_others_can_be_dropped() {
    let profile = base("p")
        .disable("TaintToleration")
        .filter(Arc::new(NodeName))
        .filter(Arc::new(TaintToleration::default()))
        .score(Arc::new(TaintToleration::default()), 3)
        .mandatory_filter(Arc::new(NodeUnschedulable))
        .pre_filter(Arc::new(Fake::new("Late")))
        .mandatory_pre_filter(Arc::new(Fake::new("Guard")))
        .build()
        .unwrap();
    assert_eq!(
        filters(&profile),
        ["WellFormed", "NodeUnschedulable", "NodeName"]
    );
    let pre_filters = profile.pre_filters().iter().map(|plugin| plugin.name());
    assert_eq!(
        pre_filters.collect::<Vec<_>>(),
        ["WellFormed", "Guard", "Late"]
    );
    assert!(profile.scores().is_empty());
}

#[test]
fn points_of_one_plugin_find_each_other() {
    let affinity = Arc::new(NodeAffinity::default());
    let profile = base("p")
        .filter(Arc::new(NodeName))
        .filter(affinity.clone())
        .pre_filter(affinity.clone())
        .pre_score(affinity.clone())
        .score(Arc::new(TaintToleration::default()), 1)
        .score(affinity, 2)
        .build()
        .unwrap();
    assert_eq!(profile.filter_of_pre_filter(1), Some(2));
    assert_eq!(profile.score_of_pre_score(0), Some(1));
    let names = profile
        .enqueue_extensions()
        .iter()
        .map(|plugin| plugin.name());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["NodeAffinity", "NodeName", "WellFormed"]
    );
}

#[test]
fn profiles_share_one_order() {
    let profile = |name: &str| base(name).build().unwrap();
    assert_eq!(Profiles::new([]).unwrap_err(), ProfileError::NoProfile);
    let twice = Profiles::new([profile("a"), profile("a")]).unwrap_err();
    assert_eq!(twice, ProfileError::DuplicateName("a".into()));
    let other = ProfileBuilder::new("b")
        .queue_sort(Arc::new(LastInFirstOut))
        .bind(Arc::new(NoBinder));
    let different = Profiles::new([profile("a"), other.build().unwrap()]).unwrap_err();
    assert_eq!(
        different,
        ProfileError::DifferentQueueSort("a".into(), "b".into())
    );
    let both = Profiles::new([profile("b"), profile("a")]).unwrap();
    assert_eq!(
        both.iter()
            .map(|p| p.name().to_string())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert!(both.get("c").is_none());
}
