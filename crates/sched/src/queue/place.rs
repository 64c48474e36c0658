//! Where pods are, and how a try sends them there.

use std::collections::BTreeSet;

use crate::status::PluginName;

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Next to be tried.
    Active,
    /// Staying back after a failure.
    Backoff,
    /// Waiting for an event.
    Unschedulable,
    /// Kept from being tried by a `PreEnqueue` plugin.
    Gated,
    /// Being tried.
    InFlight,
}

/// How a try ended, for a pod that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Plugins rejected it. Counts as an error if no plugin is named, or if the pod was done already.
    Rejected {
        /// Whose events bring it back.
        by: BTreeSet<PluginName>,
        /// Whose events bring it back without backoff.
        pending: BTreeSet<PluginName>,
    },
    /// Something broke: it is tried again after its backoff, without waiting for an event.
    Failed,
}

/// How many pods are where, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSize {
    /// Next to be tried.
    pub active: usize,
    /// Staying back.
    pub backoff: usize,
    /// Waiting for an event.
    pub unschedulable: usize,
    /// Kept from being tried.
    pub gated: usize,
    /// Events kept for pods being tried.
    pub in_flight_events: usize,
}
