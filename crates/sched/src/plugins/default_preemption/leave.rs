//! Owns whether a pod may have others evicted. In one cluster each may; where a pod is tried in several clusters at
//! once, only the one that gets it.

use std::fmt;
use std::time::Duration;

use super::cost::PreemptionCost;
use crate::pod_info::PodInfo;

/// Whether pods may be evicted for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Yes.
    Evict,
    /// Not now: only what it would take is [told](crate::Room::Offered).
    Offer,
    /// No more: what it had leave for has been done. To wait for those who are going it needs none.
    Used,
    /// No.
    Refuse,
}

/// Gives leave to evict.
pub trait EvictionLeave: fmt::Debug + Send + Sync {
    /// Asked when evictions would make room for `pod` at this cost, of which the slowest may take `grace`, right before
    /// they begin. Whoever said [`Leave::Evict`] is not told whether they succeed.
    fn take(&self, pod: &PodInfo, cost: &PreemptionCost, grace: Duration) -> Leave;
}

/// Everybody may, whatever it costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Everybody;

impl EvictionLeave for Everybody {
    fn take(&self, _: &PodInfo, _: &PreemptionCost, _: Duration) -> Leave {
        Leave::Evict
    }
}
