//! Owns what watched pods and nodes mean to cache, queue and nominations. Order of events doesn't matter beyond
//! the order for one object; a missed deletion is repaired by the next list.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::unread::Incoming;
use super::{Scheduler, changes};
use crate::cache::PodSeen;
use crate::event::{Actions, Event, EventResource};
use crate::moment::Moment;
use crate::names::{NodeName, ObjectKey, PodUid};
use crate::node_object::NodeObject;
use crate::pod_info::{IdentityError, PodInfo};
use crate::queue::Place;

/// What a watched pod changed; for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// Not our business: no node, and no profile of ours.
    Foreign,
    /// It looks for a node.
    Queued(Place),
    /// It looks for a node, and is being tried or bound.
    Trying,
    /// It runs on a node.
    OnNode,
    /// It runs where it was assumed.
    Confirmed,
    /// It runs elsewhere than was thought.
    Moved {
        /// Where it was thought to be.
        from: NodeName,
    },
    /// It is finished or gone.
    Gone,
}

impl Scheduler {
    /// A pod as the watch shows it: new, changed, or unchanged after a new list. Pods of all schedulers must be
    /// given, since all take room.
    pub fn pod_applied(&mut self, pod: Arc<Pod>, now: Moment) -> Result<PodChange, IdentityError> {
        self.take_in(Incoming::Object(pod), |scheduler, pod| {
            scheduler.read_in(pod, now)
        })
    }

    /// Reads a pod as far as scheduling does.
    pub(super) fn parsed(&mut self, pod: Arc<Pod>) -> Result<Arc<PodInfo>, IdentityError> {
        let mut pod = PodInfo::parse(pod)?;
        if pod.node_name.is_some() {
            pod.drop_object();
        }
        self.shared.share(&mut pod);
        Ok(Arc::new(pod))
    }

    /// A pod was read.
    pub(super) fn pod_seen(&mut self, pod: &Arc<PodInfo>, now: Moment) -> PodChange {
        if let Some(known) = self.uids.get(&pod.key)
            && *known != pod.uid
        {
            // Deleted and made again under its name, and the deletion was missed.
            let replaced = known.clone();
            self.pod_deleted(&replaced, now);
        }
        if pod.terminal {
            self.pod_deleted(&pod.uid, now);
            return PodChange::Gone;
        }
        let change = match &pod.node_name {
            Some(node) => self.pod_on_node(pod, node, now),
            None if self.profiles.get(&pod.scheduler_name).is_none() => PodChange::Foreign,
            None => self.pod_without_node(pod, now),
        };
        if change != PodChange::Foreign {
            self.uids.insert(pod.key.clone(), pod.uid.clone());
        }
        // One that is being bound may take room that nobody counts, until its node shows.
        if change != PodChange::Trying {
            self.was_read(&pod.uid, now);
        }
        change
    }

    fn pod_on_node(&mut self, pod: &Arc<PodInfo>, node: &NodeName, now: Moment) -> PodChange {
        self.pending.remove(&pod.uid);
        if pod.deleting {
            self.victim_goes(&pod.uid);
        }
        self.queue.delete(&pod.uid);
        self.awaits_nobody(&pod.uid);
        let expected = self.nominator.clear(&pod.uid);
        self.left_unless(node, expected, now);
        // Nobody binds through us before the wait is over, so somebody else did.
        self.waiting.reject_all(
            &pod.uid,
            "pod was bound by another scheduler while it waited",
        );
        let seen = self.cache.set_pod(pod.clone(), node);
        let assigned = EventResource::AssignedPod;
        let came = || Event::pod(assigned, Actions::ADD, None, Some(pod.clone()));
        let events = match &seen {
            PodSeen::Added => vec![came()],
            PodSeen::Updated { old } => changes::of_pod(assigned, old, pod),
            // What changed while it was being bound shows only now.
            PodSeen::Confirmed { old } => {
                let changed = changes::of_pod(assigned, old, pod);
                std::iter::once(came()).chain(changed).collect()
            }
            // No failed binding will tell that its room there is free.
            PodSeen::Moved { old, .. } => {
                let left = Event::pod(assigned, Actions::DELETE, Some(old.clone()), None);
                vec![left, came()]
            }
        };
        for event in &events {
            self.queue.on_event(event, now);
        }
        match seen {
            PodSeen::Added | PodSeen::Updated { .. } => PodChange::OnNode,
            PodSeen::Confirmed { .. } => PodChange::Confirmed,
            PodSeen::Moved { from, .. } => {
                self.has_gone(&pod.uid, now);
                PodChange::Moved { from }
            }
        }
    }

    fn pod_without_node(&mut self, pod: &Arc<PodInfo>, now: Moment) -> PodChange {
        let old = self.pending.insert(pod.uid.clone(), pod.clone());
        if self.binding.contains_key(&pod.uid) || self.cache.is_assumed(&pod.uid) {
            if pod.deleting {
                // It may have a finalizer: then it isn't gone for long, and will never run.
                self.waiting
                    .reject_all(&pod.uid, "pod began to be deleted while it waited");
            }
            // It has its node already, as far as we are concerned; a failed binding takes the newest version.
            return PodChange::Trying;
        }
        self.follow_nomination(old.as_ref(), pod, now);
        let place = match &old {
            None => {
                let place = self.queue.add(pod.clone(), now);
                let unscheduled = EventResource::UnscheduledPod;
                let event = Event::pod(unscheduled, Actions::ADD, None, Some(pod.clone()));
                self.queue.on_event_but(&event, Some(&pod.uid), now);
                place
            }
            Some(old) => {
                let changes = changes::of_pod(EventResource::TargetPod, old, pod);
                self.queue.update(pod.clone(), &changes, now)
            }
        };
        if place == Place::InFlight {
            PodChange::Trying
        } else {
            PodChange::Queued(place)
        }
    }

    /// Follows `status.nominatedNodeName`, unless it never said anything: then what we decided ourselves, and
    /// perhaps couldn't write yet, stays.
    fn follow_nomination(&mut self, old: Option<&Arc<PodInfo>>, new: &Arc<PodInfo>, now: Moment) {
        let was_named = old.is_some_and(|old| old.nominated_node.is_some());
        let known = self.nominator.node_of(&new.uid).cloned();
        match (&new.nominated_node, known) {
            (Some(node), _) => self.expect_on(new.clone(), node.clone(), now),
            (None, Some(_)) if was_named => {
                self.expect_nowhere(&new.uid, now);
            }
            (None, Some(node)) => self.nominator.refresh(new.clone(), node),
            (None, None) => {}
        }
    }

    /// A pod is gone, or finished.
    pub fn pod_deleted(&mut self, uid: &PodUid, now: Moment) -> PodChange {
        let change = self.take_out(uid, now);
        if self.cache.pod(uid).is_none() {
            self.has_gone(uid, now);
        }
        change
    }

    fn take_out(&mut self, uid: &PodUid, now: Moment) -> PodChange {
        self.was_read(uid, now);
        self.victim_goes(uid);
        let pending = self.pending.remove(uid);
        let on_node = self.cache.pod(uid).map(|(pod, _)| pod.clone());
        let Some(pod) = on_node.as_ref().or(pending.as_ref()).cloned() else {
            return PodChange::Foreign;
        };
        if self.uids.get(&pod.key) == Some(uid) {
            self.uids.remove(&pod.key);
        }
        self.queue.delete(uid);
        self.awaits_nobody(uid);
        let expected = self.nominator.clear(uid);
        if self.binding.contains_key(uid) {
            // The binding task holds what was reserved; it ends with an error, or finds the wait rejected.
            self.waiting
                .reject_all(uid, "pod was deleted while it waited");
            if !self.cache.is_assumed(uid) {
                self.cache.remove_pod(uid);
                self.announce_room(pod, now);
            }
            return PodChange::Gone;
        }
        let freed = self.cache.remove_pod(uid).is_some();
        if freed {
            self.announce_room(pod, now);
        } else {
            self.left(expected, now);
        }
        PodChange::Gone
    }

    fn announce_room(&mut self, pod: Arc<PodInfo>, now: Moment) {
        let event = Event::pod(EventResource::AssignedPod, Actions::DELETE, Some(pod), None);
        self.queue.on_event(&event, now);
    }

    /// Drops the pods that a new, complete list doesn't have: their deletion was missed. Call it after
    /// [`Scheduler::pod_applied`] for each pod of the list.
    pub fn retain_pods(&mut self, listed: &HashSet<PodUid>, now: Moment) {
        let mut missing = self
            .pending
            .keys()
            .chain(self.cache.pod_uids())
            .chain(self.unread.uids())
            .filter(|uid| !listed.contains(*uid))
            .cloned()
            .collect::<Vec<_>>();
        missing.sort();
        missing.dedup();
        for uid in missing {
            self.pod_deleted(&uid, now);
        }
    }

    /// A node as the watch shows it: new, changed, or unchanged after a new list.
    pub fn node_applied(&mut self, node: &Node, now: Moment) -> Result<(), IdentityError> {
        let mut node = NodeObject::parse(node)?;
        self.cache.nodes().share_images(&mut node);
        let node = Arc::new(node);
        let events = match self.cache.set_node(node.clone()) {
            Some(old) => changes::of_node(&old, &node),
            None => vec![Event::node(Actions::ADD, None, Some(node))],
        };
        for event in &events {
            self.queue.on_event(event, now);
        }
        Ok(())
    }

    /// A node is gone. The pods on it stay known until they are deleted themselves.
    pub fn node_deleted(&mut self, name: &NodeName, now: Moment) {
        if let Some(old) = self.cache.remove_node(name) {
            self.queue
                .on_event(&Event::node(Actions::DELETE, Some(old), None), now);
        }
    }

    /// Drops the nodes that a new, complete list doesn't have.
    pub fn retain_nodes(&mut self, listed: &HashSet<NodeName>, now: Moment) {
        let missing = self
            .cache
            .node_names()
            .filter(|name| !listed.contains(*name));
        for name in missing.cloned().collect::<Vec<_>>() {
            self.node_deleted(&name, now);
        }
    }

    /// The pod of this name that is tracked, whoever schedules it.
    pub fn uid_of(&self, key: &ObjectKey) -> Option<&PodUid> {
        self.uids.get(key)
    }
}
