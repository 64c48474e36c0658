//! Owns preemptions under way: which victims are still to go, and when their preemptor may be tried again. As in
//! kube-scheduler 1.36.3 (`prepareCandidateAsync`): all victims but one go together, then the last one, and the
//! preemptor is kept from being tried until that one is going, so that its end can't be missed. Knows nothing of how
//! pods are deleted.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Scheduler;
use super::awaited::Awaited;
use super::orders::{EvictionOrder, Preempted};
use crate::effects::Eviction;
use crate::guard::caught;
use crate::moment::Moment;
use crate::names::PodUid;
use crate::pod_info::PodInfo;
use crate::room::{Room, RoomOffer};
use crate::status::{PluginName, Status};

/// Names an eviction that a driver is to make.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EvictionId {
    preemption: u64,
    victim: PodUid,
}

/// Room that is being made for a pod.
#[derive(Debug)]
struct Preemption {
    preemptor: Arc<PodInfo>,
    plugin: PluginName,
    victims: Vec<PodUid>,
    /// Evictions that the driver was asked for and hasn't told of.
    asked: BTreeSet<PodUid>,
    /// Who is evicted when all the others were; `None` once it is its turn.
    last: Option<PodUid>,
    /// Whether the preemptor mustn't be tried.
    shuts: bool,
}

/// How a preemption ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All its victims are going, or gone.
    Made,
    /// One of them can't be evicted.
    Failed,
    /// Nobody needs the room any more.
    GivenUp,
}

/// All preemptions under way.
#[derive(Debug, Default)]
pub(super) struct Preemptions {
    by_number: HashMap<u64, Preemption>,
    /// Preemptions whose last victim's turn it is.
    by_last_victim: HashMap<PodUid, BTreeSet<u64>>,
    /// Those that keep a pod from being tried.
    shut: HashMap<PodUid, BTreeSet<u64>>,
    /// Whose end is waited for when all evictions have been made.
    awaited: Awaited,
    next: u64,
}

#[cfg(test)]
impl Preemptions {
    pub(super) fn is_empty(&self) -> bool {
        let under_way = [&self.by_last_victim, &self.shut];
        let none = self.by_number.is_empty() && self.awaited.is_empty();
        none && under_way.into_iter().all(HashMap::is_empty)
    }
}

fn forget(index: &mut HashMap<PodUid, BTreeSet<u64>>, uid: &PodUid, number: u64) {
    if let Some(numbers) = index.get_mut(uid) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(uid);
        }
    }
}

impl Scheduler {
    /// Begins to make room.
    pub(super) fn preempt(&mut self, eviction: Eviction, now: Moment) {
        let Eviction {
            victims,
            preemptor,
            plugin,
        } = eviction;
        let Some(preemptor) = self.pending.get(&preemptor).cloned() else {
            // Nobody needs the room any more.
            return;
        };
        let mut others = victims.clone();
        let Some(last) = others.pop() else {
            return;
        };
        // Those whom it has evicted elsewhere may never end.
        self.awaits_nobody(&preemptor.uid);
        self.orders.victims.push(victims.len());
        let number = self.preemptions.next;
        self.preemptions.next = number.saturating_add(1);
        let shut = self.preemptions.shut.entry(preemptor.uid.clone());
        shut.or_default().insert(number);
        self.tell_plugin(&preemptor, plugin);
        let preemption = Preemption {
            preemptor,
            plugin,
            victims,
            asked: BTreeSet::new(),
            last: Some(last),
            shuts: true,
        };
        self.preemptions.by_number.insert(number, preemption);
        for victim in others {
            self.evict(number, &victim);
        }
        self.proceed(number, now);
    }

    /// Whether an eviction is still to be made: neither has another one of the same preemption failed, nor has the pod
    /// gone that it makes room for.
    pub fn is_wanted(&self, id: &EvictionId) -> bool {
        let preemption = self.preemptions.by_number.get(&id.preemption);
        preemption.is_some_and(|known| {
            known.asked.contains(&id.victim) && self.pending.contains_key(&known.preemptor.uid)
        })
    }

    /// An eviction was made, or failed: then its preemptor looks for another way, after a pause.
    pub fn evicted(&mut self, id: &EvictionId, succeeded: bool, now: Moment) {
        let Some(preemption) = self.preemptions.by_number.get_mut(&id.preemption) else {
            return;
        };
        if !preemption.asked.remove(&id.victim) {
            return;
        }
        if succeeded {
            self.proceed(id.preemption, now);
        } else {
            self.end_preemption(id.preemption, End::Failed, now);
        }
    }

    /// What a pod that was put back may expect; what it was offered comes from its attempt.
    pub(super) fn room_for(&mut self, uid: &PodUid, offer: Option<RoomOffer>) -> Room {
        if offer.is_some() {
            self.nominator.only_offered(uid.clone());
        }
        let expected = self.nominator.node_of(uid);
        match (expected, offer) {
            (None, _) => Room::Nowhere,
            (Some(_), Some(offer)) => Room::Offered(offer),
            (Some(node), None) => Room::Awaited(node.clone()),
        }
    }

    /// A pod expects room no more, whether it was offered or is being made: evictions that haven't begun are left, and
    /// others may have the room.
    pub fn give_up_room(&mut self, uid: &PodUid, now: Moment) {
        let of_pod =
            |(number, known): (&u64, &Preemption)| (known.preemptor.uid == *uid).then_some(*number);
        let under_way = self.preemptions.by_number.iter().filter_map(of_pod);
        for number in under_way.collect::<Vec<_>>() {
            self.end_preemption(number, End::GivenUp, now);
        }
        self.awaits_nobody(uid);
        let pending = self.pending.get(uid);
        let shows = pending.filter(|pod| pod.nominated_node.is_some()).cloned();
        if self.expect_nowhere(uid, now) {
            self.orders.cleared.extend(shows);
        }
    }

    /// A pod on a node is going, or gone.
    pub(super) fn victim_goes(&mut self, uid: &PodUid) {
        let Some(numbers) = self.preemptions.by_last_victim.remove(uid) else {
            return;
        };
        for number in numbers {
            self.open(number);
        }
    }

    /// Evicts the last victim if all others have been, and ends if it has been, too.
    fn proceed(&mut self, number: u64, now: Moment) {
        let Some(preemption) = self.preemptions.by_number.get_mut(&number) else {
            return;
        };
        if !preemption.asked.is_empty() {
            return;
        }
        if let Some(last) = preemption.last.take() {
            if !self.pending.contains_key(&preemption.preemptor.uid) {
                return self.end_preemption(number, End::GivenUp, now);
            }
            if self.evict(number, &last) {
                let numbers = self.preemptions.by_last_victim.entry(last.clone());
                numbers.or_default().insert(number);
                let known = self.cache.pod(&last);
                if known.is_none_or(|(pod, _)| pod.deleting) {
                    self.victim_goes(&last);
                }
                return;
            }
        }
        self.end_preemption(number, End::Made, now);
    }

    fn end_preemption(&mut self, number: u64, end: End, now: Moment) {
        self.open(number);
        let Some(preemption) = self.preemptions.by_number.remove(&number) else {
            return;
        };
        let uid = &preemption.preemptor.uid;
        // No pod's end may ever bring it back.
        match end {
            End::Made => {}
            End::Failed => return self.queue.eviction_failed(uid, now),
            End::GivenUp => {
                self.queue.activate(uid);
                return;
            }
        }
        let is_there = |victim: &&PodUid| self.cache.pod(victim).is_some();
        let left = preemption.victims.iter().filter(is_there);
        let left: Vec<_> = left.cloned().collect();
        if left.is_empty() {
            // Nobody's end is left to bring it back.
            self.queue.room_made(uid, now);
        } else if self.pending.contains_key(uid) {
            self.preemptions.awaited.add(uid, left);
        }
    }

    /// A pod takes no room any more: whoever waited for that alone is tried.
    pub(super) fn has_gone(&mut self, uid: &PodUid, now: Moment) {
        for preemptor in self.preemptions.awaited.gone(uid) {
            self.queue.room_made(&preemptor, now);
        }
    }

    /// A pod needs no room of others any more.
    pub(super) fn awaits_nobody(&mut self, uid: &PodUid) {
        self.preemptions.awaited.forget(uid);
    }

    /// The preemptor may be tried, as far as this preemption is concerned.
    fn open(&mut self, number: u64) {
        let Some(preemption) = self.preemptions.by_number.get_mut(&number) else {
            return;
        };
        if !std::mem::take(&mut preemption.shuts) {
            return;
        }
        let (preemptor, plugin) = (preemption.preemptor.clone(), preemption.plugin);
        for victim in preemption.victims.clone() {
            forget(&mut self.preemptions.by_last_victim, &victim, number);
        }
        forget(&mut self.preemptions.shut, &preemptor.uid, number);
        self.tell_plugin(&preemptor, plugin);
    }

    /// Tells the plugin whether its preemptor mustn't be tried.
    fn tell_plugin(&self, preemptor: &Arc<PodInfo>, plugin: PluginName) {
        let under_way = self.preemptions.shut.contains_key(&preemptor.uid);
        let profile = self.profiles.get(&preemptor.scheduler_name);
        let plugins = profile.map(|profile| profile.post_filters());
        let mut plugins = plugins.unwrap_or_default().iter();
        if let Some(known) = plugins.find(|known| known.name() == plugin)
            && let Err(panic) = caught(|| known.evicting(&preemptor.uid, under_way))
        {
            self.queue.mishaps().note(preemptor, panic.by(plugin));
        }
    }

    /// Has a victim leave. A pod whose binding hasn't begun only gives its place up: nothing of it runs yet. Whether
    /// the driver has to delete it.
    fn evict(&mut self, number: u64, victim: &PodUid) -> bool {
        let Some(preemption) = self.preemptions.by_number.get_mut(&number) else {
            return false;
        };
        let Some((pod, node)) = self.cache.pod(victim) else {
            return false;
        };
        let (pod, node) = (pod.clone(), node.clone());
        let preemptor = preemption.preemptor.clone();
        let cancelled = || Status::error(format!("preempted by {}", preemption.plugin));
        let gave_up = self.waiting.preempt(victim)
            || (self.binding.get(victim)).is_some_and(|binding| binding.cancel(cancelled()));
        let preempted = Preempted::new(pod, node, preemptor, gave_up);
        if gave_up {
            self.orders.preempted.push(preempted);
            return false;
        }
        preemption.asked.insert(victim.clone());
        let scheduler = &preempted.preemptor.scheduler_name;
        self.orders.evictions.push(EvictionOrder {
            id: EvictionId {
                preemption: number,
                victim: victim.clone(),
            },
            condition: format!("{scheduler}: preempting to accommodate a higher priority pod"),
            preempted,
        });
        true
    }
}
