//! Owns the making of a profile: collects plugins point by point, then checks the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{MAX_PLUGINS, Point, Profile, ProfileError, WeightedScore};
use crate::objects::Kind;
use crate::plugin::{
    Bind, EnqueueExtensions, Filter, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
};
use crate::plugins::{
    DEFAULT_PREEMPTION, DYNAMIC_RESOURCES, RuleLimit, UnknownConstraints, WellFormed,
};
use crate::scope::NodeScope;
use crate::state::PluginMask;
use crate::status::PluginName;
use crate::table::Reads;

/// One point's plugins while a profile is built.
type Slot<T> = Vec<Arc<T>>;

/// Builds a [`Profile`]. A plugin that serves several points is one `Arc`, given to each of them:
///
/// ```
/// # use std::sync::Arc;
/// # use pilotage_sched::plugins::{NodeName, PrioritySort, TaintToleration};
/// # use pilotage_sched::ProfileBuilder;
/// let taints = Arc::new(TaintToleration::default());
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
    node_scope: Option<Arc<dyn NodeScope>>,
    pre_enqueue: Slot<dyn PreEnqueue>,
    queue_sort: Slot<dyn QueueSort>,
    mandatory_pre_filter: Slot<dyn PreFilter>,
    pre_filter: Slot<dyn PreFilter>,
    mandatory_filter: Slot<dyn Filter>,
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
            node_scope: None,
            pre_enqueue: Vec::new(),
            queue_sort: Vec::new(),
            mandatory_pre_filter: Vec::new(),
            pre_filter: Vec::new(),
            mandatory_filter: Vec::new(),
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
        self.mandatory_filter.push(plugin);
        self
    }

    /// The same at `PreFilter`.
    #[must_use]
    pub fn mandatory_pre_filter(mut self, plugin: Arc<dyn PreFilter>) -> Self {
        self.mandatory_pre_filter.push(plugin);
        self
    }

    /// Adds [`UnknownConstraints`] as a mandatory plugin that speaks of itself as `scheduler`.
    #[must_use]
    pub fn refusing_unknown_constraints(self, scheduler: &'static str) -> Self {
        self.mandatory_pre_filter(Arc::new(UnknownConstraints::new(scheduler)))
    }

    /// Adds [`RuleLimit`] as a mandatory plugin, for a profile that looks for no host ports.
    #[must_use]
    pub fn refusing_many_rules(self) -> Self {
        self.mandatory_pre_filter(Arc::new(RuleLimit::new(false)))
    }

    /// The same for a profile that does.
    #[must_use]
    pub fn refusing_many_rules_and_ports(self) -> Self {
        self.mandatory_pre_filter(Arc::new(RuleLimit::new(true)))
    }

    /// Drops the plugin of this name from every point, whether it was added before or is added later.
    #[must_use]
    pub fn disable(mut self, plugin: &str) -> Self {
        self.disabled.push(plugin.to_owned());
        self
    }

    /// Leaves preemption out, and what reports say of it: a pod that fits nowhere waits.
    #[must_use]
    pub fn evicting_nobody(self) -> Self {
        self.disable(DYNAMIC_RESOURCES).disable(DEFAULT_PREEMPTION)
    }

    /// Sets the profile's own `percentageOfNodesToScore`; 0 means adaptive.
    #[must_use]
    pub const fn percentage_of_nodes_to_score(mut self, percentage: u8) -> Self {
        self.percentage = Some(percentage);
        self
    }

    /// For a pod only the nodes are there that this includes: other pods count there alone, and no other place has to
    /// have its share of pods.
    #[must_use]
    pub fn node_scope(mut self, scope: Arc<dyn NodeScope>) -> Self {
        self.node_scope = Some(scope);
        self
    }

    /// Checks and finishes the profile.
    pub fn build(mut self) -> Result<Arc<Profile>, ProfileError> {
        let profile = self.name.to_string();
        // Every profile keeps malformed pods and nodes apart from the plugins, which trust what was parsed.
        let well_formed = Arc::new(WellFormed);
        self.mandatory_pre_filter.insert(0, well_formed.clone());
        self.mandatory_filter.insert(0, well_formed);
        let mut mandatory = (self.mandatory_pre_filter.iter().map(|plugin| plugin.name()))
            .chain(self.mandatory_filter.iter().map(|plugin| plugin.name()));
        if let Some(plugin) =
            mandatory.find(|name| self.disabled.iter().any(|plugin| plugin == name))
        {
            return Err(ProfileError::Mandatory {
                profile,
                plugin: plugin.to_owned(),
            });
        }
        self.drop_disabled();
        let mut pre_filter = self.mandatory_pre_filter;
        pre_filter.append(&mut self.pre_filter);
        let mut filter = self.mandatory_filter;
        filter.append(&mut self.filter);
        let scores = self
            .score
            .iter()
            .map(|(plugin, _)| plugin.clone())
            .collect::<Vec<_>>();
        check(&profile, Point::PreEnqueue, &self.pre_enqueue)?;
        check(&profile, Point::PreFilter, &pre_filter)?;
        check(&profile, Point::Filter, &filter)?;
        check(&profile, Point::PostFilter, &self.post_filter)?;
        check(&profile, Point::PreScore, &self.pre_score)?;
        check(&profile, Point::Score, &scores)?;
        check(&profile, Point::Reserve, &self.reserve)?;
        check(&profile, Point::Permit, &self.permit)?;
        check(&profile, Point::PreBind, &self.pre_bind)?;
        check(&profile, Point::Bind, &self.bind)?;
        check(&profile, Point::PostBind, &self.post_bind)?;
        if let Some(percentage @ 101..) = self.percentage {
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
        let mut wants = BTreeSet::new();
        wants.extend(queue_sort.wants());
        collect(&mut wants, &self.pre_enqueue);
        collect(&mut wants, &pre_filter);
        collect(&mut wants, &filter);
        collect(&mut wants, &self.post_filter);
        collect(&mut wants, &self.pre_score);
        collect(&mut wants, &scores);
        collect(&mut wants, &self.reserve);
        collect(&mut wants, &self.permit);
        collect(&mut wants, &self.pre_bind);
        collect(&mut wants, &self.bind);
        collect(&mut wants, &self.post_bind);
        let coupled_filter = couple(&pre_filter, &filter);
        let coupled_score = couple(&self.pre_score, &scores);
        let score = weigh(&profile, self.score)?;
        let mut fresh_filters = PluginMask::default();
        for (place, filter) in filter.iter().enumerate() {
            // What other nodes have changes no entry of the log; of scores alone is that followed.
            let of_node = Reads::OBJECT | Reads::PODS;
            if !of_node.covers(filter.reads()) {
                fresh_filters.insert(place);
            }
        }
        let enqueue = self
            .pre_enqueue
            .iter()
            .map(|plugin| plugin.clone() as Arc<dyn EnqueueExtensions>)
            .chain(pre_filter.iter().map(|plugin| plugin.clone() as _))
            .chain(filter.iter().map(|plugin| plugin.clone() as _))
            .chain(self.reserve.iter().map(|plugin| plugin.clone() as _))
            .chain(self.permit.iter().map(|plugin| plugin.clone() as _))
            .map(|plugin| (plugin.name(), plugin))
            .collect::<BTreeMap<_, _>>();

        Ok(Arc::new(Profile {
            name: self.name,
            percentage: self.percentage,
            node_scope: self.node_scope,
            pre_enqueue: self.pre_enqueue,
            queue_sort,
            pre_filter,
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
            fresh_filters,
            wants,
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

fn collect<T: Plugin + ?Sized>(kinds: &mut BTreeSet<Kind>, plugins: &[Arc<T>]) {
    kinds.extend(plugins.iter().flat_map(|plugin| plugin.wants()));
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
