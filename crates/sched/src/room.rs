//! Owns what is told of room that evictions would make, or are making, for a pod that fits nowhere now. Plain data: who
//! may evict is said by whoever gives [leave](crate::plugins::EvictionLeave).

use std::time::Duration;

use crate::names::NodeName;
use crate::plugins::PreemptionCost;

/// Room that could be made for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomOffer {
    /// Where.
    pub node: NodeName,
    /// What it would cost.
    pub cost: PreemptionCost,
    /// The longest that one of those who would have to go may take for it.
    pub grace: Duration,
}

/// What a pod that fits nowhere now may expect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Nothing: somebody's going or coming has to help.
    #[default]
    Nowhere,
    /// It has no leave to evict others. This is what it would take; until it is [said
    /// otherwise](crate::Scheduler::give_up_room) the node counts as the one that the pod is expected on.
    Offered(RoomOffer),
    /// Room is being made on this node.
    Awaited(NodeName),
}
