//! What the scheduler says of the evictions that a pod would need, in the words of the wire.

use std::time::Duration;

use pilotage_api::preempts::{LONGEST_GRACE, Preempts};
use pilotage_sched::{RoomOffer, plugins::PreemptionCost};

/// Of an offer.
pub fn of_offer(offer: &RoomOffer) -> Preempts {
    preempts(&offer.cost, offer.grace)
}

pub(crate) fn preempts(cost: &PreemptionCost, grace: Duration) -> Preempts {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Preempts {
        budgets: count(cost.budget_violations),
        highest: cost.highest_priority,
        sum: cost.priorities,
        pods: count(cost.victims),
        oldest: cost.oldest.0.seconds(),
        grace: grace.min(LONGEST_GRACE),
    }
}
