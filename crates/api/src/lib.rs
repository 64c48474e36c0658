//! Kinds, wire keys, names and links of `multicluster.admiralty.io/v1alpha1`.
//!
//! This crate is the one door to what Pilotage reads and writes on the wire: the six kinds ([`Target`],
//! [`ClusterTarget`], [`Source`], [`ClusterSource`], [`PodChaperon`], [`ClusterSummary`]), every annotation, label,
//! finalizer and taint ([`keys`]), the names that scripts depend on ([`names`]), how long names of users may be
//! ([`limits`]), words that both sides agree on ([`refusal`], [`lost`]), what tokens say ([`token`]), the link
//! between an object and its parent in another cluster ([`parent`]), and the mark of what is kept in part
//! ([`left_out`]). It knows no client, clock or runtime.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod annotations;
pub mod bounds;
pub mod chaperon;
pub mod conditions;
pub mod copied;
pub mod crds;
#[cfg(test)]
mod fuzz;
pub mod keys;
pub mod left_out;
pub mod limits;
pub mod lost;
pub mod names;
pub mod parent;
pub mod preempts;
pub mod record;
pub mod refusal;
pub mod rights;
pub mod source;
pub mod summary;
pub mod target;
pub mod token;
pub mod trace;

pub use chaperon::{PodChaperon, PodChaperonSpec, PodChaperonStatus};
pub use rights::Right;
pub use source::{
    ClusterSource, ClusterSourceSpec, ServiceAccountRef, Source, SourceSpec, SourceStatus,
};
pub use summary::ClusterSummary;
pub use target::{
    ClusterTarget, ClusterTargetSpec, KubeconfigSecret, NamespacedKubeconfigSecret, Target,
    TargetSpec, TargetStatus,
};

/// API group of all kinds.
pub const GROUP: &str = "multicluster.admiralty.io";
/// The one version of all kinds.
pub const VERSION: &str = "v1alpha1";
