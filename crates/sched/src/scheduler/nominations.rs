//! Owns what it means to others that a pod is expected on a node, or not any more: whoever was kept from there for its
//! sake may have the room then. As kube-scheduler 1.36.3 does when a nomination changes, but as soon as that is
//! decided. Knows nothing of why a pod is expected.

use std::sync::Arc;

use super::Scheduler;
use crate::event::Event;
use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::nominator::Expected;
use crate::pod_info::PodInfo;

impl Scheduler {
    /// Expects a pod on a node, and nowhere else.
    pub(super) fn expect_on(&mut self, pod: Arc<PodInfo>, node: NodeName, now: Moment) {
        let before = self.nominator.clear(&pod.uid);
        let before = before.filter(|before| before.node != node);
        self.nominator.nominate(pod, node);
        self.left(before, now);
    }

    /// Expects a pod nowhere; whether it was expected somewhere.
    pub(super) fn expect_nowhere(&mut self, uid: &PodUid, now: Moment) -> bool {
        let before = self.nominator.clear(uid);
        let was_expected = before.is_some();
        self.left(before, now);
        was_expected
    }

    /// A pod that was expected somewhere has a node now, or another one is meant for it.
    pub(super) fn left_unless(&mut self, node: &NodeName, before: Option<Expected>, now: Moment) {
        self.left(before.filter(|before| before.node != *node), now);
    }

    /// A pod that was expected somewhere is not any more.
    pub(super) fn left(&mut self, before: Option<Expected>, now: Moment) {
        if let Some(Expected { pod, .. }) = before {
            self.queue.on_event(&Event::expected_no_more(pod), now);
        }
    }
}
