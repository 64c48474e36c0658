//! Owns profiles: which plugins run at which point, in which order, with which weights.
//! Knows nothing of single plugins, nor of configuration files, which turn into builder calls.

mod builder;
mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use self::builder::ProfileBuilder;
pub use self::error::ProfileError;
use crate::objects::Kind;
use crate::plugin::{
    Bind, EnqueueExtensions, Filter, Permit, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
    PreScore, QueueSort, Reserve, Score,
};
use crate::scope::NodeScope;
use crate::state::PluginMask;

/// As many plugins as a profile may have at one point.
const MAX_PLUGINS: usize = 64;

/// An extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// Before a pod enters the active queue.
    PreEnqueue,
    /// The order of the active queue.
    QueueSort,
    /// Once a cycle, before Filter.
    PreFilter,
    /// Each node.
    Filter,
    /// When nothing fits.
    PostFilter,
    /// Once a cycle, before Score.
    PreScore,
    /// Each feasible node.
    Score,
    /// After a node is chosen.
    Reserve,
    /// Before binding starts.
    Permit,
    /// Before Bind.
    PreBind,
    /// Binding itself.
    Bind,
    /// After Bind.
    PostBind,
}

impl fmt::Display for Point {
    /// The point's name in metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A Score plugin with its weight.
#[derive(Clone)]
pub struct WeightedScore {
    /// The plugin.
    pub plugin: Arc<dyn Score>,
    /// What its normalized scores are multiplied by, at least 1.
    pub weight: i64,
}

/// The plugins that a pod with this `schedulerName` meets. Immutable.
pub struct Profile {
    name: Arc<str>,
    percentage: Option<u8>,
    node_scope: Option<Arc<dyn NodeScope>>,
    pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    queue_sort: Arc<dyn QueueSort>,
    pre_filter: Vec<Arc<dyn PreFilter>>,
    filter: Vec<Arc<dyn Filter>>,
    post_filter: Vec<Arc<dyn PostFilter>>,
    pre_score: Vec<Arc<dyn PreScore>>,
    score: Vec<WeightedScore>,
    reserve: Vec<Arc<dyn Reserve>>,
    permit: Vec<Arc<dyn Permit>>,
    pre_bind: Vec<Arc<dyn PreBind>>,
    bind: Vec<Arc<dyn Bind>>,
    post_bind: Vec<Arc<dyn PostBind>>,
    enqueue: Vec<Arc<dyn EnqueueExtensions>>,
    // Where the Filter (Score) of the n-th PreFilter (PreScore) plugin stands, for Skip.
    coupled_filter: Vec<Option<usize>>,
    coupled_score: Vec<Option<usize>>,
    // Filters that are asked for each pod.
    fresh_filters: PluginMask,
    wants: BTreeSet<Kind>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Profile {
    /// Its `schedulerName`.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its own `percentageOfNodesToScore`, if it has one; 0 means adaptive.
    pub const fn percentage_of_nodes_to_score(&self) -> Option<u8> {
        self.percentage
    }

    /// Which nodes are there for a pod; `None` if all are.
    pub fn node_scope(&self) -> Option<&dyn NodeScope> {
        self.node_scope.as_deref()
    }

    /// The kinds of objects beside pods and nodes that its plugins read.
    pub const fn wants(&self) -> &BTreeSet<Kind> {
        &self.wants
    }

    /// `PreEnqueue` plugins, in order.
    pub fn pre_enqueues(&self) -> &[Arc<dyn PreEnqueue>] {
        &self.pre_enqueue
    }

    /// The queue's order.
    pub fn queue_sort(&self) -> &Arc<dyn QueueSort> {
        &self.queue_sort
    }

    /// `PreFilter` plugins, in order; mandatory ones first.
    pub fn pre_filters(&self) -> &[Arc<dyn PreFilter>] {
        &self.pre_filter
    }

    /// Filter plugins, in order; mandatory ones first.
    pub fn filters(&self) -> &[Arc<dyn Filter>] {
        &self.filter
    }

    /// `PostFilter` plugins, in order.
    pub fn post_filters(&self) -> &[Arc<dyn PostFilter>] {
        &self.post_filter
    }

    /// `PreScore` plugins, in order.
    pub fn pre_scores(&self) -> &[Arc<dyn PreScore>] {
        &self.pre_score
    }

    /// Score plugins with their weights, in order.
    pub fn scores(&self) -> &[WeightedScore] {
        &self.score
    }

    /// Reserve plugins, in order.
    pub fn reserves(&self) -> &[Arc<dyn Reserve>] {
        &self.reserve
    }

    /// Permit plugins, in order.
    pub fn permits(&self) -> &[Arc<dyn Permit>] {
        &self.permit
    }

    /// `PreBind` plugins, in order.
    pub fn pre_binds(&self) -> &[Arc<dyn PreBind>] {
        &self.pre_bind
    }

    /// Bind plugins, in order.
    pub fn binds(&self) -> &[Arc<dyn Bind>] {
        &self.bind
    }

    /// `PostBind` plugins, in order.
    pub fn post_binds(&self) -> &[Arc<dyn PostBind>] {
        &self.post_bind
    }

    /// Every plugin that can reject a pod, once.
    pub fn enqueue_extensions(&self) -> &[Arc<dyn EnqueueExtensions>] {
        &self.enqueue
    }

    /// The filters whose answers about nodes aren't kept, since they read more than the node and the pod's needs.
    pub(crate) const fn fresh_filters(&self) -> PluginMask {
        self.fresh_filters
    }

    pub(crate) fn filter_of_pre_filter(&self, index: usize) -> Option<usize> {
        self.coupled_filter[index]
    }

    pub(crate) fn score_of_pre_score(&self, index: usize) -> Option<usize> {
        self.coupled_score[index]
    }
}

/// The profiles of a process, by `schedulerName`. They share one queue, hence its order.
#[derive(Clone, Debug)]
pub struct Profiles(BTreeMap<Arc<str>, Arc<Profile>>);

impl Profiles {
    /// Checks what profiles must agree on.
    pub fn new(profiles: impl IntoIterator<Item = Arc<Profile>>) -> Result<Self, ProfileError> {
        let mut known: BTreeMap<Arc<str>, Arc<Profile>> = BTreeMap::new();
        for profile in profiles {
            if let Some(first) = known.values().next()
                && first.queue_sort.name() != profile.queue_sort.name()
            {
                let names = (first.name.to_string(), profile.name.to_string());
                return Err(ProfileError::DifferentQueueSort(names.0, names.1));
            }
            if let Some(twice) = known.insert(profile.name.clone(), profile) {
                return Err(ProfileError::DuplicateName(twice.name.to_string()));
            }
        }
        if known.is_empty() {
            Err(ProfileError::NoProfile)
        } else {
            Ok(Self(known))
        }
    }

    /// The profile for pods with this `schedulerName`.
    pub fn get(&self, scheduler_name: &str) -> Option<&Arc<Profile>> {
        self.0.get(scheduler_name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.0.values()
    }

    /// The order of the shared queue.
    pub(crate) fn queue_sort(&self) -> Option<&Arc<dyn QueueSort>> {
        self.0.values().next().map(|profile| &profile.queue_sort)
    }
}

#[cfg(test)]
mod tests;
