//! Owns whether a pod may evict others at all, as in kube-scheduler 1.36.3 (`PodEligibleToPreemptOthers`).

use crate::context::Context;
use crate::cycle::NodeStatuses;
use crate::disruption::Disruption;
use crate::pod_info::PodInfo;
use crate::status::{Rejection, RejectionKind};

/// Why it may not; `None` if it may.
///
/// A pod that has made room on a node waits until that is free. Where it is expected is asked of the nominator, which
/// knows it before the pod's status says so.
pub(super) fn obstacle(
    cx: &Context<'_>,
    pod: &PodInfo,
    statuses: &NodeStatuses,
) -> Option<&'static str> {
    if !pod.preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = cx.nominator().node_of(&pod.uid)?;
    let hopeless = RejectionKind::UnschedulableAndUnresolvable;
    if statuses.get(nominated).map(Rejection::kind) == Some(hopeless) {
        // What keeps it off that node now, no pod's end will change.
        return None;
    }
    let node = cx.nodes().by_name(nominated)?;
    let leaving = node.pods().iter().any(|other| {
        other.priority < pod.priority
            && other.deleting
            && other.disruption == Disruption::Preemption
    });
    leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}
