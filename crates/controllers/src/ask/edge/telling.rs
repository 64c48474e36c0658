//! What the edge tells a pod's author of its way, stage by stage: the rules are in [`pilotage_proxy::milestones`].
//! These events are only offered, so that nothing waits for them. Nothing is decided here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::keys;
use pilotage_proxy::{
    Action, Answer,
    milestones::{Milestone, Seen, Stage, Verdict},
};
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};

use super::Edge;
use crate::ask::Ask;

impl Edge {
    /// This was decided of a pod.
    pub(super) fn tell_stages(
        &mut self,
        uid: &str,
        answers: &BTreeMap<String, Answer>,
        actions: &[Action],
    ) {
        let now = self.clock.now();
        let (Some(view), Some(proxy)) = (self.book.proxy(uid), self.proxies.get_mut(uid)) else {
            return;
        };
        let book = &self.book;
        let seen = Seen::of(view, answers, actions, |node| book.reach(node));
        let (news, dropped) = proxy.told.news(seen, &mut self.budget, now);
        for milestone in news {
            offer(&self.parts, &proxy.pod, milestone);
        }
        self.parts.counts.untold().inc_by(dropped);
    }

    /// A target was told that a pod is its.
    pub(super) fn tell_granted(&mut self, uid: &str, node: &str) {
        let now = self.clock.now();
        let (Some(view), Some(proxy)) = (self.book.proxy(uid), self.proxies.get_mut(uid)) else {
            return;
        };
        // Only who leads may write; and that it is bound says more.
        if !self.parts.leadership.is_leader() || view.node_name.is_some() {
            return;
        }
        let milestone = Milestone {
            node,
            stage: Stage::Granted,
        };
        match proxy.told.take(milestone, &mut self.budget, now) {
            Verdict::Tell => offer(&self.parts, &proxy.pod, milestone),
            Verdict::Drop => {
                self.parts.counts.untold().inc();
            }
            Verdict::Known => {}
        }
    }

    /// A pod isn't its target's any more, or never was: another attempt begins.
    pub(super) fn tell_anew(&mut self, uid: &str) {
        if let Some(proxy) = self.proxies.get_mut(uid) {
            proxy.told.begin_again();
        }
    }
}

fn offer(parts: &Ask, pod: &Pod, milestone: Milestone<'_>) {
    let type_ = if milestone.is_warning() {
        EventType::Warning
    } else {
        EventType::Normal
    };
    let occurrence = Occurrence {
        regarding: Regarding::pod(pod),
        type_,
        reason: milestone.reason(),
        action: "Scheduling",
        note: milestone.to_string(),
        controller: keys::PROXY_SCHEDULER.into(),
    };
    let dropped = parts.counts.untold();
    parts.scheduling.recorder().offer(occurrence, dropped);
}
