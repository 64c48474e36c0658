//! Owns waiting pods that are equal to plugins that look at needs, namespace and labels, and what events are worth that
//! help all of them: each is kept once, for whoever waited when it came, so that it costs the same for one and for
//! thousands.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::QueuedPod;
use super::hints::Worth;
use crate::names::PodUid;
use crate::pod_info::PodInfo;

/// When a pod began to wait: counts pods, not time.
pub(super) type Turn = u64;

/// What an event is worth to those who waited when it came.
#[derive(Clone, Debug)]
pub(super) struct Help {
    pub(super) worth: Worth,
    pub(super) why: Arc<str>,
    /// The turn of the last of them: whoever has been rejected since has been tried with the event's news.
    pub(super) up_to: Turn,
}

impl Help {
    /// Whether it is for one who waits since then.
    pub(super) const fn is_for(&self, since: Turn) -> bool {
        since <= self.up_to
    }
}

/// The last event of each worth: it is for all that the one before it was for.
#[derive(Debug, Default)]
pub(super) struct Kept {
    at_once: Option<Help>,
    after_backoff: Option<Help>,
}

impl Kept {
    pub(super) fn keep(&mut self, help: Help) {
        match help.worth {
            Worth::Nothing => {}
            Worth::AfterBackoff => self.after_backoff = Some(help),
            Worth::AtOnce => self.at_once = Some(help),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.at_once.is_none() && self.after_backoff.is_none()
    }

    /// The best that is kept for one who waits since then, here or there.
    pub(super) fn best<'a>(&'a self, other: &'a Self, since: Turn) -> Option<&'a Help> {
        let at_once = [&self.at_once, &other.at_once];
        let after_backoff = [&self.after_backoff, &other.after_backoff];
        let mut best_first = at_once.into_iter().chain(after_backoff).flatten();
        best_first.find(|help| help.is_for(since))
    }
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<PodInfo>,
    since: Turn,
}

/// Pods of a sort that are equal to plugins that look at other pods.
#[derive(Debug, Default)]
pub(super) struct Kindred {
    pods: BTreeMap<PodUid, Waiting>,
    pub(super) kept: Kept,
}

impl Kindred {
    pub(super) fn insert(&mut self, queued: &QueuedPod) {
        let waiting = Waiting {
            pod: queued.pod.clone(),
            since: queued.waits_since,
        };
        self.pods.insert(queued.pod.uid.clone(), waiting);
    }

    /// Whether it was here.
    pub(super) fn remove(&mut self, uid: &PodUid) -> bool {
        self.pods.remove(uid).is_some()
    }

    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values().map(|waiting| &waiting.pod)
    }

    /// Tells who of them is helped, by what is kept for them or for their sort, until `told` has so many; `false` if
    /// more are. Once all are told it is forgotten; until then those who were told have to go, or they are told again.
    pub(super) fn tell(
        &mut self,
        of_sort: &Kept,
        most: usize,
        told: &mut Vec<(PodUid, Help)>,
    ) -> bool {
        if self.kept.is_empty() && of_sort.is_empty() {
            return true;
        }
        for (uid, waiting) in &self.pods {
            if let Some(help) = self.kept.best(of_sort, waiting.since) {
                if told.len() >= most {
                    return false;
                }
                told.push((uid.clone(), help.clone()));
            }
        }
        self.kept = Kept::default();
        true
    }
}
