//! Owns pods on nodes that couldn't be taken in. Nobody knows what they take there, so their nodes are closed until
//! they can be taken in, or are gone. They are tried again by and by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{PodChange, Scheduler};
use crate::event::{Actions, Event};
use crate::guard::caught;
use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::pod_info::{IdentityError, PodInfo, is_terminal};

/// Time to the first try; each failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// No try is later than that.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// A pod on its way in, as far as it was read.
#[derive(Clone, Debug)]
pub(super) enum Incoming {
    /// It may be that it can't even be parsed.
    Object(Arc<Pod>),
    /// It was parsed.
    Parsed(Arc<PodInfo>),
}

impl Incoming {
    /// Where it takes room, as far as that shows without reading the rest of it.
    fn place(&self) -> Option<(PodUid, NodeName)> {
        match self {
            Self::Object(pod) => place(pod),
            Self::Parsed(pod) if pod.terminal => None,
            Self::Parsed(pod) => Some((pod.uid.clone(), pod.node_name.clone()?)),
        }
    }
}

/// One of them, as it was seen last.
#[derive(Debug)]
struct Unread {
    pod: Incoming,
    node: NodeName,
    failures: u32,
    due: Moment,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct UnreadPods(BTreeMap<PodUid, Unread>);

impl UnreadPods {
    /// Their UIDs.
    pub(super) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.0.keys()
    }

    /// When one of them is tried again.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.0.values().map(|it| it.due).min()
    }

    fn due(&self, now: Moment) -> Vec<(PodUid, Incoming)> {
        let due = self.0.iter().filter(|(_, it)| it.due <= now);
        due.map(|(uid, it)| (uid.clone(), it.pod.clone())).collect()
    }

    fn first_on(&self, node: &NodeName) -> Option<&PodUid> {
        let mut there = self.0.iter().filter(|(_, it)| it.node == *node);
        there.next().map(|(uid, _)| uid)
    }

    /// A pod couldn't be taken in; where it was before, if that isn't the first time.
    fn failed(
        &mut self,
        uid: PodUid,
        pod: Incoming,
        node: NodeName,
        now: Moment,
    ) -> Option<NodeName> {
        let before = self.0.remove(&uid);
        let failures = before.as_ref().map_or(0, |it| it.failures);
        let failures = failures.saturating_add(1);
        let unread = Unread {
            pod,
            node,
            failures,
            due: now.after(pause(failures)),
        };
        self.0.insert(uid, unread);
        before.map(|it| it.node)
    }

    /// A try that was due changed nothing.
    fn postpone(&mut self, uid: &PodUid, now: Moment) {
        if let Some(it) = self.0.get_mut(uid).filter(|it| it.due <= now) {
            it.failures = it.failures.saturating_add(1);
            it.due = now.after(pause(it.failures));
        }
    }
}

fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
}

/// Where a pod takes room, as far as that shows without reading the rest of it.
fn place(pod: &Pod) -> Option<(PodUid, NodeName)> {
    let uid = pod.metadata.uid.as_ref().filter(|uid| !uid.is_empty())?;
    let node = pod.spec.as_ref()?.node_name.as_ref();
    let node = node.filter(|node| !node.is_empty())?;
    (!is_terminal(pod)).then(|| (PodUid::from(uid), NodeName::from(node)))
}

impl Scheduler {
    /// Takes a pod in. Should that panic, [`Scheduler::mend`] knows which one it was.
    pub(super) fn take_in<R>(
        &mut self,
        pod: Incoming,
        work: impl FnOnce(&mut Self, Incoming) -> R,
    ) -> R {
        self.taking = Some(pod.clone());
        let taken = work(self, pod);
        self.taking = None;
        taken
    }

    /// A pod as the watch showed it.
    pub(super) fn read_in(
        &mut self,
        pod: Incoming,
        now: Moment,
    ) -> Result<PodChange, IdentityError> {
        let pod = match pod {
            Incoming::Object(pod) => self.parsed(pod)?,
            Incoming::Parsed(pod) => pod,
        };
        self.taking = Some(Incoming::Parsed(pod.clone()));
        Ok(self.pod_seen(&pod, now))
    }

    /// After a panic: closes the nodes of these pods, and of the one that was being taken in, if it doesn't count.
    pub(super) fn close_nodes(&mut self, left_out: Vec<(Arc<PodInfo>, NodeName)>, now: Moment) {
        for (pod, node) in left_out {
            self.not_read(pod.uid.clone(), Incoming::Parsed(pod), &node, now);
        }
        let Some(taking) = self.taking.take() else {
            return;
        };
        let Some((uid, node)) = taking.place() else {
            return;
        };
        let counts = match &taking {
            Incoming::Object(_) => false,
            Incoming::Parsed(pod) => self
                .cache
                .pod(&uid)
                .is_some_and(|(known, at)| Arc::ptr_eq(known, pod) && *at == node),
        };
        if !counts {
            self.not_read(uid, taking, &node, now);
        }
    }

    fn not_read(&mut self, uid: PodUid, pod: Incoming, node: &NodeName, now: Moment) {
        let before = self.unread.failed(uid, pod, node.clone(), now);
        if let Some(before) = before.filter(|before| before != node) {
            self.open_or_close(&before, now);
        }
        self.open_or_close(node, now);
    }

    /// A pod could be taken in, or is gone.
    pub(super) fn was_read(&mut self, uid: &PodUid, now: Moment) {
        if let Some(Unread { node, .. }) = self.unread.0.remove(uid) {
            self.open_or_close(&node, now);
        }
    }

    fn open_or_close(&mut self, node: &NodeName, now: Moment) {
        let by = self.unread.first_on(node).cloned();
        let opens = by.is_none();
        self.cache.set_unread(node, by);
        let there = self.cache.node(node).map(|info| info.node().clone());
        if let Some(there) = there.filter(|_| opens) {
            // For those who wait it is a new one.
            let event = Event::node(Actions::ADD, None, Some(there));
            self.queue.on_event(&event, now);
        }
    }

    /// Tries those whose time has come.
    pub(super) fn try_unread(&mut self, now: Moment) {
        for (uid, pod) in self.unread.due(now) {
            let again = |scheduler: &mut Self, pod| scheduler.read_in(pod, now);
            if caught(|| self.take_in(pod, again)).is_err() {
                self.mend(now);
            }
            // One that is being bound names no node yet.
            self.unread.postpone(&uid, now);
        }
    }
}
