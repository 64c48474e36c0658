//! Orders the queue by priority, then by time.

use std::cmp::Ordering;

use crate::plugin::{Plugin, QueueSort};
use crate::queue::QueuedPod;
use crate::status::PluginName;

/// Higher `spec.priority` first; among equals the pod that came (back) into the queue earlier.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> PluginName {
        "PrioritySort"
    }
}

impl QueueSort for PrioritySort {
    fn compare(&self, a: &QueuedPod, b: &QueuedPod) -> Ordering {
        b.pod
            .priority
            .cmp(&a.pod.priority)
            .then_with(|| a.queued_at.cmp(&b.queued_at))
    }
}
