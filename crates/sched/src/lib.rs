//! A Kubernetes scheduler without I/O: cache, table of nodes, queue, plugin traits, profiles, the scheduling cycle and
//! the default plugins, after kube-scheduler 1.36.
//!
//! Pure: no client, no clock, no randomness, no tasks. A *driver* owns those.
//!
//! ```text
//! watches ──► pod_applied / node_applied ──► Cache, Queue, Nominator
//!                                                │
//!  loop ───► schedule_next(now, ties) ──► Attempt::Assumed ──► binding task:
//!                 │                          wait while permit_state is Waiting,
//!                 │                          start_binding, Assumed::bind (PreBind, Bind),
//!                 │                          then bound(…) or binding_failed(…) ──► Failure
//!                 └─────────────────────► Attempt::Failed(Failure): publish event and status
//!  timer ──► flush(now) at next_deadline(), until no more is due
//! ```
//!
//! - One object-safe trait for each extension point: see [`plugin`]. A [`Profile`] says which plugins run.
//! - What a plugin says is `Ok` or a [`Status`]: a [`Rejection`] with typed [`Reason`]s, or an error.
//! - A [`Scheduler`] is one plain struct; a driver keeps it in a mutex and never holds that across an await.
//!   After each call it asks [`Scheduler::take_resolved`] which pods' waits at Permit ended.
//! - A plugin that panics has failed, for its pod alone; [`Scheduler::take_mishaps`] tells of panics that failed no
//!   attempt. After a panic in a method of the scheduler itself, [`Scheduler::mend`] makes its books agree again.
//! - Malformed pods and nodes are parsed as far as possible and kept apart by [`plugins::WellFormed`].
//!
//! A plugin, a profile, and one attempt:
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::future::BoxFuture;
//! use k8s_openapi::api::core::v1::{Node, Pod};
//! use pilotage_sched::plugins::{Binder, stock_profile};
//! use pilotage_sched::{
//!     Actions, Attempt, CycleState, EnqueueExtensions, EventKind, EventResource, Filter, FirstOfEquals,
//!     Moment, NodeName, NodeView, Plugin, PluginName, PodInfo, Scheduler, SchedulerConfig, Status, Verdict,
//! };
//!
//! /// Keeps pods off nodes without a berth.
//! struct Berths;
//!
//! impl Plugin for Berths {
//!     fn name(&self) -> PluginName {
//!         "Berths"
//!     }
//! }
//!
//! impl EnqueueExtensions for Berths {
//!     fn events(&self) -> Vec<EventKind> {
//!         vec![EventKind::new(EventResource::Node, Actions::ADD | Actions::UPDATE_NODE_LABEL)]
//!     }
//! }
//!
//! impl Filter for Berths {
//!     fn filter(&self, _: &CycleState, _: &PodInfo, node: NodeView<'_>) -> Verdict {
//!         if node.labels().contains_key("berth") {
//!             return Ok(());
//!         }
//!         Err(Status::unresolvable("node(s) had no berth"))
//!     }
//! }
//!
//! /// What the driver gives: here it would POST the Binding.
//! struct Post;
//!
//! impl Binder for Post {
//!     fn bind<'a>(
//!         &'a self,
//!         _: &'a PodInfo,
//!         _: &'a NodeName,
//!     ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
//!         Box::pin(async { Ok(()) })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stock = stock_profile("harbour", Arc::new(Post)).evicting_nobody();
//! let profile = stock.mandatory_filter(Arc::new(Berths)).build()?;
//! let mut scheduler = Scheduler::new([profile], SchedulerConfig::default())?;
//! let now = Moment::ZERO;
//!
//! let mut node = Node::default();
//! node.metadata.name = Some("quay".into());
//! scheduler.node_applied(&node, now)?;
//!
//! let mut pod = Pod::default();
//! pod.metadata.name = Some("tug".into());
//! pod.metadata.uid = Some("0a1b".into());
//! pod.spec.get_or_insert_default().scheduler_name = Some("harbour".into());
//! scheduler.pod_applied(Arc::new(pod), now)?;
//!
//! match scheduler.schedule_next(now, &mut FirstOfEquals) {
//!     Some(Attempt::Failed(failure)) => {
//!         assert_eq!(failure.cause.to_string(), "0/1 nodes are available: 1 node(s) had no berth.");
//!     }
//!     other => unreachable!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod binding;
pub mod cache;
mod cancel;
mod classes;
mod coming;
mod context;
mod counts;
mod cycle;
pub mod disruption;
mod effects;
pub mod event;
mod extender;
#[cfg(test)]
mod fuzz;
mod guard;
pub mod host_ports;
pub mod images;
mod interned;
pub mod kubelet_features;
pub mod labels;
mod moment;
mod names;
pub mod node_affinity;
mod node_object;
mod nominator;
pub mod objects;
pub mod plugin;
pub mod plugins;
pub mod pod_affinity;
mod pod_info;
mod pod_needs;
mod profile;
pub mod quantity;
pub mod queue;
mod refusals;
mod requests;
pub mod resources;
mod room;
mod scheduler;
mod scope;
mod start_time;
mod state;
mod status;
mod table;
pub mod taints;
mod tie;
pub mod topology_spread;
mod used;
mod waiting;

#[cfg(test)]
mod test_draws;
#[cfg(test)]
mod test_objects;
#[cfg(test)]
mod test_plugins;

pub use crate::binding::BindingRequest;
pub use crate::coming::Coming;
pub use crate::context::{Context, Cycle, Surroundings, WhatIf};
pub use crate::counts::{
    CarriedTerm, CarriedTerms, Namespaces, PlaceId, PodCounts, PodSet, Selected, TermRole, Topology,
};
pub use crate::cycle::{
    Cause, Diagnosis, Evaluation, NodeStatuses, RejectedNode, ScorePart, ScoredNode,
};
pub use crate::disruption::Disruption;
pub use crate::effects::{Effects, Eviction};
pub use crate::event::{Actions, AnyObject, Event, EventKind, EventObject, EventResource, Hint};
pub use crate::extender::{Extender, Filtered, MAX_EXTENDER_PRIORITY};
pub use crate::guard::{Mishap, Panicked};
pub use crate::moment::Moment;
pub use crate::names::{NodeName, ObjectKey, PodUid};
pub use crate::node_object::{NodeObject, Zone};
pub use crate::nominator::{Expected, Nominator};
pub use crate::objects::{Kind, Object, Objects, Stored};
pub use crate::plugin::{
    Bind, Bound, EnqueueExtensions, Filter, FilterBySums, HintReads, MAX_NODE_SCORE, NodeLabels,
    Nomination, Permit, PermitDecision, Plugin, PodSums, PostBind, PostFilter, PostFiltered,
    PreBind, PreEnqueue, PreFilter, PreFilterExtensions, PreFiltered, PreScore, PreScored,
    Preflight, QueueSort, Reserve, Score,
};
pub use crate::pod_info::{Defect, IdentityError, OUTLINE, PodInfo};
pub use crate::pod_needs::PodNeeds;
pub use crate::profile::{Point, Profile, ProfileBuilder, ProfileError, Profiles, WeightedScore};
pub use crate::queue::{Arrivals, Flushed, Gate, Place, QueueConfig, QueueSize, QueuedPod};
pub use crate::refusals::{Refusals, RejectionId};
pub use crate::requests::PodRequests;
pub use crate::room::{Room, RoomOffer};
pub use crate::scheduler::{
    Aftermath, AnswerError, Assumed, Attempt, EvaluateError, EventNote, EvictionId, EvictionOrder,
    FailedCondition, Failure, Orders, Paused, PodChange, Preempted, Question, Rechecked, Scheduler,
    SchedulerConfig, SkipReason, Skipped, StatusPatch,
};
pub use crate::scope::NodeScope;
pub use crate::start_time::StartTime;
pub use crate::state::CycleState;
pub use crate::status::{
    Code, PluginError, PluginName, Reason, Rejection, RejectionKind, Status, Verdict,
};
pub use crate::table::{Column, NodeId, NodeInfo, NodeTable, NodeView, Numbers, Reads, SetId};
pub use crate::tie::{FirstOfEquals, SeededTies, TieBreaker};
pub use crate::waiting::{MAX_PERMIT_WAIT, PermitState, WaitingPod, WaitingPods};
