//! Owns the scheduler as a whole: cache, queue, nominations and waiting pods, and the life of an attempt from
//! pop to *bound* or *requeued*. No I/O, no clock, no randomness, no tasks: a driver feeds watches in, runs
//! bindings, and publishes what comes out.

mod asking;
mod assumed;
mod attempt;
mod awaited;
mod binding;
mod changes;
mod evaluating;
mod failure;
mod mend;
mod nominations;
mod orders;
mod preemptions;
mod recheck;
mod unread;
mod watch;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

pub use self::asking::{AnswerError, Paused, Question};
pub use self::assumed::Assumed;
pub use self::attempt::{Attempt, SkipReason, Skipped};
pub use self::failure::{Aftermath, EventNote, FailedCondition, Failure, StatusPatch};
pub use self::orders::{EvictionOrder, Orders, Preempted};
pub use self::preemptions::EvictionId;
use self::preemptions::Preemptions;
pub use self::recheck::Rechecked;
use self::unread::{Incoming, UnreadPods};
pub use self::watch::PodChange;
use crate::cache::{Cache, CacheSize};
use crate::cancel::Cancellation;
use crate::classes::Classes;
use crate::event::{AnyObject, Event};
use crate::extender::Extender;
use crate::interned::SharedParts;
use crate::moment::Moment;
use crate::names::{ObjectKey, PodUid};
use crate::nominator::Nominator;
use crate::objects::{Kind, Object, Objects};
use crate::pod_info::{IdentityError, PodInfo};
use crate::profile::{Profile, ProfileError, Profiles};
use crate::queue::{Arrivals, Flushed, Gate, Place, Queue, QueueConfig, QueueSize, QueuedPod};
use crate::status::PluginError;
use crate::table::NodeTable;
use crate::waiting::WaitingPods;

/// How a scheduler behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// `percentageOfNodesToScore` for profiles without their own; 0 means adaptive, as in kube-scheduler. All nodes
    /// (100) is the default: what is kept of pods' classes makes that cheaper than a search of a part.
    pub percentage_of_nodes_to_score: u8,
    /// How the queue behaves.
    pub queue: QueueConfig,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            percentage_of_nodes_to_score: 100,
            queue: QueueConfig::default(),
        }
    }
}

/// Why a pod can't be evaluated.
#[derive(Clone, Debug, Error)]
pub enum EvaluateError {
    /// No profile has this name.
    #[error("no profile is named {0:?}")]
    NoProfile(String),
    /// The pod has no identity.
    #[error("pod can't be evaluated: {0}")]
    Identity(#[from] IdentityError),
    /// A plugin failed.
    #[error("pod can't be evaluated: {0}")]
    Plugin(#[from] PluginError),
}

/// The scheduler. See the crate's documentation for the flow.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    profiles: Profiles,
    cache: Cache,
    // Equal pods share what was parsed of them.
    shared: SharedParts,
    // What plugins said of nodes, for the next pod of its class.
    classes: Classes,
    queue: Queue,
    nominator: Nominator,
    waiting: WaitingPods,
    // Pods without a node, as last seen: what the informer's store is to kube-scheduler.
    pending: HashMap<PodUid, Arc<PodInfo>>,
    // Every pod that is tracked, pending or on a node.
    uids: HashMap<ObjectKey, PodUid>,
    // Pods between `Assumed` and `bound` or `binding_failed`.
    binding: HashMap<PodUid, Cancellation>,
    // Pods on nodes that couldn't be taken in.
    unread: UnreadPods,
    // The pod that is being taken in just now.
    taking: Option<Incoming>,
    next_start: usize,
    // Who has a say about nodes beside plugins.
    extenders: Vec<Arc<Extender>>,
    // Pods whose attempt waits for them.
    paused: HashSet<PodUid>,
    // What only the API server can do.
    orders: Orders,
    preemptions: Preemptions,
    objects: Objects,
}

impl Scheduler {
    /// An empty scheduler.
    pub fn new(
        profiles: impl IntoIterator<Item = Arc<Profile>>,
        config: SchedulerConfig,
    ) -> Result<Self, ProfileError> {
        let profiles = Profiles::new(profiles)?;
        Ok(Self {
            queue: Queue::new(&profiles, config.queue)?,
            config,
            profiles,
            cache: Cache::new(),
            shared: SharedParts::default(),
            classes: Classes::default(),
            nominator: Nominator::default(),
            waiting: WaitingPods::default(),
            pending: HashMap::new(),
            uids: HashMap::new(),
            binding: HashMap::new(),
            orders: Orders::default(),
            preemptions: Preemptions::default(),
            objects: Objects::default(),
            unread: UnreadPods::default(),
            taking: None,
            next_start: 0,
            extenders: Vec::new(),
            paused: HashSet::new(),
        })
    }

    /// Does what the passing of time asks for: moves pods whose backoff or long wait is over, not all of them at once
    /// if they are many; rejects pods held too long at Permit, tries pods that couldn't be taken in.
    pub fn flush(&mut self, now: Moment) -> Flushed {
        self.waiting.expire(now);
        self.try_unread(now);
        self.queue.flush(now)
    }

    /// When [`Scheduler::flush`] has something to do next.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.queue
            .next_deadline()
            .into_iter()
            .chain(self.waiting.next_deadline())
            .chain(self.unread.next_due())
            .min()
    }

    /// Whether [`Scheduler::flush`] has something to do already.
    pub fn is_due(&self, now: Moment) -> bool {
        self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Tries a queued pod as soon as possible: runs `PreEnqueue` and skips backoff. Where it is now; `None` if it
    /// isn't in the queue. A pod that is being tried goes to the active queue when it comes back.
    pub fn activate(&mut self, uid: &PodUid) -> Option<Place> {
        self.queue.activate(uid)
    }

    /// Something happened that plugins registered for as [`Custom`](crate::EventResource::Custom) of this name; how
    /// many waiting pods it may help.
    pub fn custom_event(
        &mut self,
        name: &'static str,
        object: Option<AnyObject>,
        now: Moment,
    ) -> usize {
        self.queue.on_event(&Event::custom(name, object), now)
    }

    /// An object beside pods and nodes, as its watch shows it: new, changed, or unchanged after a new list. How many
    /// waiting pods that may help: none if what plugins read of it is as it was.
    pub fn apply(&mut self, object: Object, now: Moment) -> Result<usize, IdentityError> {
        let event = self.objects.apply(object)?;
        Ok(event.map_or(0, |event| self.queue.on_event(&event, now)))
    }

    /// An object beside pods and nodes is gone; how many waiting pods that may help.
    pub fn remove(&mut self, kind: Kind, key: &ObjectKey, now: Moment) -> usize {
        let event = self.objects.remove(kind, key);
        event.map_or(0, |event| self.queue.on_event(&event, now))
    }

    /// The kinds of objects beside pods and nodes that a plugin of any profile reads: these have to be given by
    /// [`Scheduler::apply`], the others needn't be watched.
    pub fn wanted_kinds(&self) -> BTreeSet<Kind> {
        let kinds = self.profiles.iter().flat_map(|profile| profile.wants());
        kinds.copied().collect()
    }

    /// Something happened that no watch of objects shows; how many waiting pods it may help.
    pub fn event(&mut self, event: &Event, now: Moment) -> usize {
        self.queue.on_event(event, now)
    }

    /// All nodes as they are now.
    pub const fn nodes(&self) -> &NodeTable {
        self.cache.nodes()
    }

    /// Whether the pod is assumed on a node and the watch hasn't confirmed it.
    pub fn is_assumed(&self, uid: &PodUid) -> bool {
        self.cache.is_assumed(uid)
    }

    /// Where a pod is in the queue; `None` if it isn't there.
    pub fn place(&self, uid: &PodUid) -> Option<Place> {
        self.queue.place(uid)
    }

    /// What keeps a pod from being tried at all.
    pub fn gate(&self, uid: &PodUid) -> Option<&Gate> {
        self.queue.waiting(uid).and_then(QueuedPod::gate)
    }

    /// The pods that wait for an event, then the gated ones, each by UID; with who rejected them, for metrics and
    /// explanations.
    pub fn unschedulable_pods(&self) -> impl Iterator<Item = &QueuedPod> {
        self.queue.unschedulable()
    }

    /// A pod without a node, as last seen.
    pub fn pending_pod(&self, uid: &PodUid) -> Option<&Arc<PodInfo>> {
        self.pending.get(uid)
    }

    /// The profiles.
    pub const fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// How many pods are where in the queue, for metrics.
    pub fn queue_size(&self) -> QueueSize {
        self.queue.size()
    }

    /// How pods came to their places in the queue, for metrics.
    pub const fn arrivals(&self) -> &Arrivals {
        self.queue.arrivals()
    }

    /// How much the cache holds, for metrics.
    pub fn cache_size(&self) -> CacheSize {
        self.cache.size()
    }
}

#[cfg(test)]
mod tests;
