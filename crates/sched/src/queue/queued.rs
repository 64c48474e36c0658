//! Owns a pod in the queue: how often it was tried, when, and who rejected it. Knows nothing of the queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kindred::Turn;
use crate::moment::Moment;
use crate::pod_info::PodInfo;
use crate::status::{PluginName, Status};

/// A pod that looks for a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueuedPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// When it came into the queue, or came back after its last try.
    pub queued_at: Moment,
    /// When it was tried first.
    pub first_tried_at: Option<Moment>,
    /// How often it was tried.
    pub attempts: u32,
    /// How often plugins rejected it.
    pub rejections: u32,
    /// How often it failed by error since the last rejection.
    pub consecutive_errors: u32,
    /// How often others couldn't be evicted for it.
    pub(super) failed_evictions: u32,
    /// The plugins that rejected it last.
    pub rejected_by: BTreeSet<PluginName>,
    /// Those among them that wait for somebody else to act.
    pub pending_by: BTreeSet<PluginName>,
    /// Who keeps it from being tried at all, and why.
    pub(super) gate: Option<Gate>,
    pub(super) sequence: u64,
    /// While it waits for an event.
    pub(super) waits_since: Turn,
}

/// What a `PreEnqueue` plugin said.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The plugin.
    pub plugin: PluginName,
    /// Why.
    pub status: Status,
}

impl QueuedPod {
    pub(super) const fn new(pod: Arc<PodInfo>, now: Moment, sequence: u64) -> Self {
        Self {
            pod,
            queued_at: now,
            first_tried_at: None,
            attempts: 0,
            rejections: 0,
            consecutive_errors: 0,
            failed_evictions: 0,
            rejected_by: BTreeSet::new(),
            pending_by: BTreeSet::new(),
            gate: None,
            sequence,
            waits_since: 0,
        }
    }

    /// What keeps it from being tried at all.
    pub const fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// Whether its last failure was an error rather than a rejection.
    pub(super) const fn failed_by_error(&self) -> bool {
        self.consecutive_errors > 0
    }
}
