//! Whether an ending pod that Admiralty made, and of which there is no record, may go.

use std::time::Duration;

use super::{Observed, Plan, due_at, is_given_up, wake};
use crate::{
    lost::{Waits, unlisted},
    view::{Monotonic, ProxyView},
};

/// So long after a target can be reached again all that it listed has been taken in.
const TAKEN_IN: Duration = Duration::from_secs(30);

/// Whether nothing is left of a pod that Admiralty placed, which wrote no record: it goes when no chaperon is seen
/// where it ran, or nowhere, if it has no place yet. That is weaker than a proof, since nobody knows which one that
/// was; it was made long ago, so lists have it. A living one that is seen gets a record, whose rules are those of all
/// others.
pub(super) fn is_left(observed: &Observed<'_>, proxy: &ProxyView, plan: &mut Plan) -> bool {
    let Some(node) = &proxy.node_name else {
        return is_nowhere(observed, proxy, plan);
    };
    if is_given_up(observed, proxy, node, plan) {
        return true;
    }
    let Some(since) = observed.targets.reachable_since(node) else {
        plan.tell = Some(format!(
            "{node} can't be reached: the pod goes when its delegate there is known to be gone"
        ));
        return false;
    };
    is_taken_in(observed, since, plan) && observed.chaperons.iter().all(|c| c.node != *node)
}

/// Whether all targets that serve the pod have told of their chaperons, and none is its.
fn is_nowhere(observed: &Observed<'_>, proxy: &ProxyView, plan: &mut Plan) -> bool {
    let waits = |node: &str| Waits {
        stuck: None,
        due: due_at(observed, node),
    };
    if let Some((node, until)) = unlisted(proxy, observed.targets, waits, observed.now) {
        plan.tell = Some(format!(
            "{node} can't be reached, and Admiralty may have granted the pod there: the pod goes when it is known to \
             have no delegate there"
        ));
        if let Some(at) = until {
            wake(plan, at);
        }
        return false;
    }
    let serving = observed.targets.serving(&proxy.namespace);
    // What a forgotten target shows, and when it comes back, is no reason to wait for ever.
    let mut counts = |node: &str| {
        !(observed.targets.is_forgotten(node) && is_given_up(observed, proxy, node, plan))
    };
    let since = serving.filter(|(node, _)| counts(node));
    let since = since.filter_map(|(_, target)| target.reachable_since).max();
    let there = observed.chaperons.iter().any(|c| counts(&c.node));
    is_taken_in(observed, since.unwrap_or_default(), plan) && !there
}

/// What a target's list told may not all be taken in yet.
fn is_taken_in(observed: &Observed<'_>, since: Monotonic, plan: &mut Plan) -> bool {
    let known_at = since.saturating_add(TAKEN_IN);
    if observed.now < known_at {
        wake(plan, known_at);
        return false;
    }
    true
}
