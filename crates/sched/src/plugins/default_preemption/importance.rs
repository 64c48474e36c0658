//! Owns which of a node's pods is dearer than another: the dearest are spared first. As in kube-scheduler 1.36.3
//! (`MoreImportantPod`): by priority, then by age.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::pod_info::PodInfo;
use crate::start_time::StartTime;

/// A pod of lower priority, and its place among the pods of its node.
#[derive(Clone, Debug)]
pub(super) struct Lower {
    pub(super) pod: Arc<PodInfo>,
    pub(super) at: usize,
}

/// Puts the dearest first.
///
/// What is equal keeps its order; kube-scheduler calls a pod that hasn't started older than any such pod before it,
/// which turns their order round, as far as it sorts a few pods.
pub(super) fn sort(pods: &mut [Lower]) {
    pods.sort_by_key(|Lower { pod, at }| {
        let place = i64::try_from(*at).unwrap_or(i64::MAX);
        let turned = pod.started == StartTime::NONE;
        let place = if turned {
            place.saturating_neg()
        } else {
            place
        };
        (Reverse(pod.priority), pod.started, place)
    });
}

#[cfg(test)]
mod tests {
    use super::{Lower, sort};
    use crate::test_objects::pod;

    #[test]
    fn priority_then_age_then_place() {
        let pods = [
            pod("new-low").priority(1).started(90),
            pod("unstarted-1").priority(1),
            pod("old-low").priority(1).started(10),
            pod("twin").priority(1).started(10),
            pod("unstarted-2").priority(1),
            pod("high").priority(5),
        ];
        let pods = pods.into_iter().enumerate();
        let mut pods: Vec<_> = pods
            .map(|(at, pod)| Lower {
                pod: pod.info(),
                at,
            })
            .collect();
        sort(&mut pods);
        let names: Vec<_> = pods.iter().map(|it| &*it.pod.key.name).collect();
        assert_eq!(
            names,
            [
                "high",
                "old-low",
                "twin",
                "new-low",
                "unstarted-2",
                "unstarted-1"
            ]
        );
    }
}
