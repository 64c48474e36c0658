//! Owns profiles: which plugins run at which point, in which order, with which weights.
//! Knows nothing of single plugins, nor of configuration files, which turn into builder calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::plugin::{
    Bind, EnqueueExtensions, Filter, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
};
use crate::plugins::WellFormed;
use crate::status::PluginName;

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

/// Why a profile can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A plugin stands twice at one point.
    #[error("profile {profile:?}: plugin {plugin:?} is enabled twice at {point}")]
    Duplicate {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: PluginName,
        /// The point.
        point: Point,
    },
    /// Not exactly one plugin orders the queue.
    #[error("profile {profile:?}: exactly one QueueSort plugin is needed, found {found}")]
    QueueSort {
        /// The profile.
        profile: String,
        /// How many there are.
        found: usize,
    },
    /// Nothing binds.
    #[error("profile {profile:?}: at least one Bind plugin is needed")]
    NoBind {
        /// The profile.
        profile: String,
    },
    /// A Score plugin that could as well be left out.
    #[error("profile {profile:?}: score weight of plugin {plugin:?} is 0")]
    ZeroWeight {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: PluginName,
    },
    /// A filter that guards an invariant can't be switched off.
    #[error("profile {profile:?}: plugin {plugin:?} can't be disabled")]
    Mandatory {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: String,
    },
    /// More plugins at a point than a profile can hold.
    #[error("profile {profile:?}: more than {MAX_PLUGINS} plugins at {point}")]
    TooMany {
        /// The profile.
        profile: String,
        /// The point.
        point: Point,
    },
    /// `percentageOfNodesToScore` above 100.
    #[error("profile {profile:?}: {percentage} % of the nodes can't be scored")]
    Percentage {
        /// The profile.
        profile: String,
        /// What was asked for.
        percentage: u8,
    },
    /// Two profiles have one name.
    #[error("profile {0:?} is defined twice")]
    DuplicateName(String),
    /// Profiles disagree on the queue's order, which they share.
    #[error("profiles {0:?} and {1:?} have different QueueSort plugins")]
    DifferentQueueSort(String, String),
    /// There is no profile.
    #[error("at least one profile is needed")]
    NoProfile,
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

    /// `PreEnqueue` plugins, in order.
    pub fn pre_enqueues(&self) -> &[Arc<dyn PreEnqueue>] {
        &self.pre_enqueue
    }

    /// The queue's order.
    pub fn queue_sort(&self) -> &Arc<dyn QueueSort> {
        &self.queue_sort
    }

    /// `PreFilter` plugins, in order.
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

    pub(crate) fn filter_of_pre_filter(&self, index: usize) -> Option<usize> {
        self.coupled_filter[index]
    }

    pub(crate) fn score_of_pre_score(&self, index: usize) -> Option<usize> {
        self.coupled_score[index]
    }
}

/// One point's plugins while a profile is built.
type Slot<T> = Vec<Arc<T>>;

/// Builds a [`Profile`]. A plugin that serves several points is one `Arc`, given to each of them:
///
/// ```
/// # use std::sync::Arc;
/// # use pilotage_sched::plugins::{NodeName, PrioritySort, TaintToleration};
/// # use pilotage_sched::ProfileBuilder;
/// let taints = Arc::new(TaintToleration);
/// let builder = ProfileBuilder::new("my-scheduler")
///     .queue_sort(Arc::new(PrioritySort))
///     .filter(Arc::new(NodeName))
///     .filter(taints.clone())
///     .score(taints, 3);
/// # assert!(builder.build().is_err(), "nothing binds");
/// ```
pub struct ProfileBuilder {
    name: Arc<str>,
    percentage: Option<u8>,
    pre_enqueue: Slot<dyn PreEnqueue>,
    queue_sort: Slot<dyn QueueSort>,
    pre_filter: Slot<dyn PreFilter>,
    mandatory: Slot<dyn Filter>,
    filter: Slot<dyn Filter>,
    post_filter: Slot<dyn PostFilter>,
    pre_score: Slot<dyn PreScore>,
    score: Vec<(Arc<dyn Score>, u32)>,
    reserve: Slot<dyn Reserve>,
    permit: Slot<dyn Permit>,
    pre_bind: Slot<dyn PreBind>,
    bind: Slot<dyn Bind>,
    post_bind: Slot<dyn PostBind>,
    disabled: Vec<String>,
}

macro_rules! points {
    ($($(#[$doc:meta])* $method:ident: $point:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(mut self, plugin: Arc<dyn $point>) -> Self {
                self.$method.push(plugin);
                self
            }
        )*
    };
}

impl ProfileBuilder {
    /// A profile for pods with this `schedulerName`, still without plugins.
    pub fn new(scheduler_name: &str) -> Self {
        Self {
            name: scheduler_name.into(),
            percentage: None,
            pre_enqueue: Vec::new(),
            queue_sort: Vec::new(),
            pre_filter: Vec::new(),
            mandatory: Vec::new(),
            filter: Vec::new(),
            post_filter: Vec::new(),
            pre_score: Vec::new(),
            score: Vec::new(),
            reserve: Vec::new(),
            permit: Vec::new(),
            pre_bind: Vec::new(),
            bind: Vec::new(),
            post_bind: Vec::new(),
            disabled: Vec::new(),
        }
    }

    points! {
        /// Adds a `PreEnqueue` plugin.
        pre_enqueue: PreEnqueue;
        /// Sets the queue's order.
        queue_sort: QueueSort;
        /// Adds a `PreFilter` plugin.
        pre_filter: PreFilter;
        /// Adds a Filter plugin.
        filter: Filter;
        /// Adds a `PostFilter` plugin.
        post_filter: PostFilter;
        /// Adds a `PreScore` plugin.
        pre_score: PreScore;
        /// Adds a Reserve plugin.
        reserve: Reserve;
        /// Adds a Permit plugin.
        permit: Permit;
        /// Adds a `PreBind` plugin.
        pre_bind: PreBind;
        /// Adds a Bind plugin.
        bind: Bind;
        /// Adds a `PostBind` plugin.
        post_bind: PostBind;
    }

    /// Adds a Score plugin; its normalized scores are multiplied by `weight`, at least 1.
    #[must_use]
    pub fn score(mut self, plugin: Arc<dyn Score>, weight: u32) -> Self {
        self.score.push((plugin, weight));
        self
    }

    /// Adds a Filter plugin that guards an invariant: it runs before all others, and [`Self::disable`]
    /// refuses it.
    #[must_use]
    pub fn mandatory_filter(mut self, plugin: Arc<dyn Filter>) -> Self {
        self.mandatory.push(plugin);
        self
    }

    /// Drops the plugin of this name from every point, whether it was added before or is added later.
    #[must_use]
    pub fn disable(mut self, plugin: &str) -> Self {
        self.disabled.push(plugin.to_owned());
        self
    }

    /// Sets the profile's own `percentageOfNodesToScore`; 0 means adaptive.
    #[must_use]
    pub const fn percentage_of_nodes_to_score(mut self, percentage: u8) -> Self {
        self.percentage = Some(percentage);
        self
    }

    /// Checks and finishes the profile.
    pub fn build(mut self) -> Result<Arc<Profile>, ProfileError> {
        let profile = self.name.to_string();
        // Every profile keeps malformed pods and nodes apart from the plugins, which trust what was parsed.
        let well_formed = Arc::new(WellFormed);
        self.pre_filter.insert(0, well_formed.clone());
        self.mandatory.insert(0, well_formed);
        for plugin in &self.disabled {
            if self
                .mandatory
                .iter()
                .any(|mandatory| mandatory.name() == plugin)
            {
                return Err(ProfileError::Mandatory {
                    profile,
                    plugin: plugin.clone(),
                });
            }
        }
        self.drop_disabled();
        let mut filter = self.mandatory;
        filter.append(&mut self.filter);
        let scores = self
            .score
            .iter()
            .map(|(plugin, _)| plugin.clone())
            .collect::<Vec<_>>();
        check(&profile, Point::PreEnqueue, &self.pre_enqueue)?;
        check(&profile, Point::PreFilter, &self.pre_filter)?;
        check(&profile, Point::Filter, &filter)?;
        check(&profile, Point::PostFilter, &self.post_filter)?;
        check(&profile, Point::PreScore, &self.pre_score)?;
        check(&profile, Point::Score, &scores)?;
        check(&profile, Point::Reserve, &self.reserve)?;
        check(&profile, Point::Permit, &self.permit)?;
        check(&profile, Point::PreBind, &self.pre_bind)?;
        check(&profile, Point::Bind, &self.bind)?;
        check(&profile, Point::PostBind, &self.post_bind)?;
        if self.percentage.is_some_and(|percentage| percentage > 100) {
            let percentage = self.percentage.unwrap_or_default();
            return Err(ProfileError::Percentage {
                profile,
                percentage,
            });
        }
        let found = self.queue_sort.len();
        let (Some(queue_sort), 1) = (self.queue_sort.pop(), found) else {
            return Err(ProfileError::QueueSort { profile, found });
        };
        if self.bind.is_empty() {
            return Err(ProfileError::NoBind { profile });
        }
        let coupled_filter = couple(&self.pre_filter, &filter);
        let coupled_score = couple(&self.pre_score, &scores);
        let score = weigh(&profile, self.score)?;

        let mut enqueue: BTreeMap<PluginName, Arc<dyn EnqueueExtensions>> = BTreeMap::new();
        let mut extend = |plugin: Arc<dyn EnqueueExtensions>| {
            enqueue.entry(plugin.name()).or_insert(plugin);
        };
        self.pre_enqueue
            .iter()
            .for_each(|plugin| extend(plugin.clone()));
        self.pre_filter
            .iter()
            .for_each(|plugin| extend(plugin.clone()));
        filter.iter().for_each(|plugin| extend(plugin.clone()));
        self.reserve
            .iter()
            .for_each(|plugin| extend(plugin.clone()));
        self.permit.iter().for_each(|plugin| extend(plugin.clone()));

        Ok(Arc::new(Profile {
            name: self.name,
            percentage: self.percentage,
            pre_enqueue: self.pre_enqueue,
            queue_sort,
            pre_filter: self.pre_filter,
            filter,
            post_filter: self.post_filter,
            pre_score: self.pre_score,
            score,
            reserve: self.reserve,
            permit: self.permit,
            pre_bind: self.pre_bind,
            bind: self.bind,
            post_bind: self.post_bind,
            enqueue: enqueue.into_values().collect(),
            coupled_filter,
            coupled_score,
        }))
    }

    fn drop_disabled(&mut self) {
        let disabled = std::mem::take(&mut self.disabled);
        let keep = |name: PluginName| !disabled.iter().any(|plugin| plugin == name);
        self.pre_enqueue.retain(|plugin| keep(plugin.name()));
        self.queue_sort.retain(|plugin| keep(plugin.name()));
        self.pre_filter.retain(|plugin| keep(plugin.name()));
        self.filter.retain(|plugin| keep(plugin.name()));
        self.post_filter.retain(|plugin| keep(plugin.name()));
        self.pre_score.retain(|plugin| keep(plugin.name()));
        self.score.retain(|(plugin, _)| keep(plugin.name()));
        self.reserve.retain(|plugin| keep(plugin.name()));
        self.permit.retain(|plugin| keep(plugin.name()));
        self.pre_bind.retain(|plugin| keep(plugin.name()));
        self.bind.retain(|plugin| keep(plugin.name()));
        self.post_bind.retain(|plugin| keep(plugin.name()));
    }
}

fn check<T: Plugin + ?Sized>(
    profile: &str,
    point: Point,
    plugins: &[Arc<T>],
) -> Result<(), ProfileError> {
    let profile = || profile.to_owned();
    if plugins.len() > MAX_PLUGINS {
        return Err(ProfileError::TooMany {
            profile: profile(),
            point,
        });
    }
    for (index, plugin) in plugins.iter().enumerate() {
        if plugins[..index]
            .iter()
            .any(|earlier| earlier.name() == plugin.name())
        {
            let plugin = plugin.name();
            return Err(ProfileError::Duplicate {
                profile: profile(),
                plugin,
                point,
            });
        }
    }
    Ok(())
}

fn couple<A, B>(first: &[Arc<A>], second: &[Arc<B>]) -> Vec<Option<usize>>
where
    A: Plugin + ?Sized,
    B: Plugin + ?Sized,
{
    let find = |name| second.iter().position(|plugin| plugin.name() == name);
    first.iter().map(|plugin| find(plugin.name())).collect()
}

fn weigh(
    profile: &str,
    scores: Vec<(Arc<dyn Score>, u32)>,
) -> Result<Vec<WeightedScore>, ProfileError> {
    scores
        .into_iter()
        .map(|(plugin, weight)| {
            // 64 plugins with weights of 32 bits can't overflow the total of i64.
            if weight == 0 {
                let (profile, plugin) = (profile.to_owned(), plugin.name());
                return Err(ProfileError::ZeroWeight { profile, plugin });
            }
            Ok(WeightedScore {
                plugin,
                weight: i64::from(weight),
            })
        })
        .collect()
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
