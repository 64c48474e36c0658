//! Owns how long pods stay back, with the numbers of kube-scheduler 1.36. Knows nothing of where they are kept
//! meanwhile.

use std::time::Duration;

use super::QueuedPod;
use crate::moment::Moment;

/// How the queue behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// How long a pod stays back after its first failure (`podInitialBackoffSeconds`).
    pub initial_backoff: Duration,
    /// The longest that a pod stays back (`podMaxBackoffSeconds`); zero switches backoff off.
    pub max_backoff: Duration,
    /// How long a pod may wait for an event before it is tried anyway.
    pub max_unschedulable: Duration,
    /// Whether an idle scheduler tries rejected pods before their backoff is over.
    pub pop_from_backoff: bool,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_unschedulable: Duration::from_mins(5),
            pop_from_backoff: true,
        }
    }
}

impl QueueConfig {
    /// When a pod's backoff ends, as the heaps order it: whole seconds if idle schedulers may take pods early, so
    /// that pods of one second come in `QueueSort`'s order.
    pub(super) fn expiry(&self, queued: &QueuedPod) -> Moment {
        let end = queued.queued_at.after(self.backoff(queued));
        if self.pop_from_backoff {
            end.whole_second()
        } else {
            end
        }
    }

    /// The first moment at which a pod no longer stays back.
    pub(super) fn backoff_end(&self, queued: &QueuedPod) -> Moment {
        let expiry = self.expiry(queued);
        // A pod whose backoff ends within the current second still stays back.
        if self.pop_from_backoff {
            expiry.after(Duration::from_secs(1))
        } else {
            expiry
        }
    }

    /// Whether a pod stays back.
    pub(super) fn is_backing_off(&self, queued: &QueuedPod, now: Moment) -> bool {
        !self.backoff(queued).is_zero() && now < self.backoff_end(queued)
    }

    /// Whether a pod has waited so long for an event that it is tried without one.
    pub(super) fn is_tired(&self, queued: &QueuedPod, now: Moment) -> bool {
        now.since(queued.queued_at) > self.max_unschedulable
    }

    /// How long a pod stays back after its last failure: the initial backoff, doubled each time, up to the limit.
    fn backoff(&self, queued: &QueuedPod) -> Duration {
        let count = if queued.failed_by_error() {
            queued.consecutive_errors
        } else {
            queued.rejections
        };
        let Some(doublings) = count.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.initial_backoff
            .saturating_mul(factor)
            .min(self.max_backoff)
    }
}
