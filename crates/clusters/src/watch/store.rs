//! The contents of a watch and who is told about changes: no I/O, and no clock but for what it costs to look at them.
//!
//! Versions are compared as numbers, as Kubernetes has allowed for all kinds since 1.35, so that the reply to a
//! write of our own can be taken in before the watch brings it, and is never overwritten by an older event.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch as cell;
use tokio::time::Instant;

use super::event::Event;
use super::feed::{Feed, Told, Unread};
use super::limits::{Beside, Limits};
use super::object::{is_at_its_end, name, namespace, number, version};
use super::shelf::Shelf;
use crate::budget::{Amount, Budget, Excess, Room};
use crate::door::OBJECT_WEIGHT;

/// What a watch knows, readable at any time without waiting.
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
    /// Whether leaving the set doesn't mean being deleted.
    selective: bool,
    limits: Option<Limits<K>>,
}

struct Inner<K> {
    shelf: Shelf<K>,
    /// What of it the budget knows.
    counted: Amount,
    subscribers: Vec<UnboundedSender<Told<K>>>,
    /// Counts what was told, for those who look at the objects themselves.
    told: cell::Sender<u64>,
    /// The version up to which the watch has told everything.
    seen: u64,
    /// The next list may be another cluster's: what is known can't be compared with it by version.
    incomparable: bool,
    synced: bool,
}

impl<K: Resource<DynamicType = ()>> Store<K> {
    /// Nothing known; `selective` if a selector restricts the set.
    pub(crate) fn new(selective: bool, limits: Option<Limits<K>>) -> Self {
        let inner = Inner {
            shelf: Shelf::default(),
            counted: Amount::default(),
            subscribers: Vec::new(),
            told: cell::Sender::new(0),
            seen: 0,
            incomparable: false,
            synced: false,
        };
        Self {
            inner: RwLock::new(inner),
            selective,
            limits,
        }
    }

    /// The object of that name; `namespace` is `None` for cluster-scoped kinds.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let inner = self.read();
        let kept = inner.shelf.get(namespace.unwrap_or_default(), name);
        kept.map(|kept| kept.object.clone())
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        let inner = self.read();
        inner.shelf.all().map(|kept| kept.object.clone()).collect()
    }

    /// The objects that `keep` keeps; it must be quick, the store is locked meanwhile.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let inner = self.read();
        let kept = inner.shelf.all().filter(|kept| keep(&kept.object));
        kept.map(|kept| kept.object.clone()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.kept().objects
    }

    /// How many there are in a namespace, or in all; at no cost.
    pub fn count_in(&self, namespace: Option<&str>) -> usize {
        let Some(namespace) = namespace else {
            return self.len();
        };
        self.read().shelf.kept_in(namespace).objects
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a list has been read; before that, what the store lacks means nothing at all.
    pub fn is_synced(&self) -> bool {
        self.read().synced
    }

    /// What there is and every change from now on. The queue has no limit, so that a slow reader delays nobody: read
    /// on.
    pub fn subscribe(&self) -> Feed<K> {
        let (sender, feed) = Feed::new();
        let mut inner = self.write();
        for kept in inner.shelf.all() {
            // The receiver is right here.
            let event = Event::Applied(kept.object.clone());
            let _ = sender.send((event, self.unread(kept.weight)));
        }
        if inner.synced {
            let _ = sender.send((Event::Synced, Unread::default()));
        }
        inner.subscribers.push(sender);
        feed
    }

    /// The share of an object that its reader itself puts into a queue.
    pub fn unread_share(&self, object: &K) -> Unread {
        self.unread(self.weigh(object))
    }

    fn unread(&self, weight: usize) -> Unread {
        Unread::new(self.budget(), weight)
    }

    #[cfg(test)]
    pub(crate) fn queues(&self) -> usize {
        self.read().subscribers.len()
    }

    /// Changes from now on, without what they are: for whoever looks at the objects then. Whoever doesn't look, such as
    /// a process that doesn't lead, has nothing kept for it. It counts as changed at first.
    pub fn changes(&self) -> cell::Receiver<u64> {
        let mut changes = self.read().told.subscribe();
        changes.mark_changed();
        changes
    }

    /// Takes in the reply to a write of our own, so that the next decision sees it although the watch hasn't brought
    /// it yet. A version that the watch is past is ignored, for instance of an object that is gone by now; so is
    /// one for which there is no room.
    pub fn fold(&self, object: K) {
        if self.check_one(&object).is_err() {
            return;
        }
        let mut inner = self.write();
        if version(&object) > inner.seen {
            self.put(&mut inner, Arc::new(object));
            self.settle(&mut inner, Amount::default());
        }
    }

    /// Whether this very version of an object is kept: a reply that was [folded in](Self::fold) and isn't is old, or
    /// too much.
    pub fn keeps(&self, object: &K) -> bool {
        let inner = self.read();
        inner.shelf.current(object).is_some_and(|known| {
            let same = known.object.meta().uid == object.meta().uid;
            same && version(&*known.object) == version(object)
        })
    }

    /// What an object counts for: nothing where nobody counts.
    fn weigh(&self, object: &K) -> usize {
        let limits = self.limits.as_ref();
        limits.map_or(0, |limits| limits.share(object))
    }

    /// Takes off what an object has beyond its share, as it will be kept; what it counts for then.
    pub fn fit(&self, object: &mut K) -> usize {
        if self.limits.is_none() {
            return 0;
        }
        let beside = self.read().shelf.beside(object);
        self.fit_beside(object, beside)
    }

    /// The same, beside what its reader has counted.
    pub(crate) fn fit_beside(&self, object: &mut K, beside: Beside) -> usize {
        let limits = self.limits.as_ref();
        limits.map_or(0, |limits| limits.fit(object, beside))
    }

    /// All that is there.
    pub(crate) fn kept(&self) -> Amount {
        self.read().shelf.kept()
    }

    /// Whether it is a target's, so that what is kept has to fit into its budget.
    pub(crate) fn is_of_target(&self) -> bool {
        self.budget().is_some()
    }

    /// Whether it is this very cluster's, and somebody says what becomes of heavy objects.
    pub(crate) fn is_own_and_limited(&self) -> bool {
        self.limits.is_some() && self.budget().is_none()
    }

    fn budget(&self) -> Option<&Arc<Budget>> {
        self.limits.as_ref().and_then(Limits::budget)
    }

    /// Room for a list.
    pub(crate) fn room(&self) -> Room {
        Room::new(self.budget().cloned())
    }

    /// One object of a list is looked at.
    pub(crate) fn look(&self) {
        if let Some(budget) = self.budget() {
            budget.spend(0, 1, Instant::now());
        }
    }

    /// Whether there is room for so much more than what is there.
    fn check(&self, more: Amount) -> Result<(), Excess> {
        self.budget().map_or(Ok(()), |budget| budget.check(more))
    }

    /// Whether so much more may be told, beside what nobody has read yet.
    pub(crate) fn check_queue(&self, weight: usize) -> Result<(), Excess> {
        self.budget()
            .map_or(Ok(()), |budget| budget.check_queue(weight))
    }

    /// Whether there is room for an event about this object, beside those that nobody has read yet. One that isn't
    /// told is seen in the next list, though as no evidence.
    pub(crate) fn check_unread(&self, object: &K) -> Result<(), Excess> {
        // Most of the time nobody needs to know its weight.
        self.check_queue(OBJECT_WEIGHT)
            .or_else(|_| self.check_queue(self.weigh(object)))
    }

    /// Whether there is room for an added or modified object, beside what is there.
    pub(crate) fn check_one(&self, object: &K) -> Result<(), Excess> {
        self.check_unread(object)?;
        // All that one object can weigh still fits: most of the time nobody needs to know.
        if self.check(Amount::new(1, OBJECT_WEIGHT)).is_ok() {
            return Ok(());
        }
        let new = Amount::new(1, self.weigh(object));
        let old = match self.read().shelf.current(object) {
            Some(known) => Amount::new(1, known.weight),
            None => Amount::default(),
        };
        self.check(new.without(old))
    }

    /// An added or modified object.
    pub(crate) fn apply(&self, object: K) {
        let mut inner = self.write();
        inner.saw(version(&object));
        self.put(&mut inner, Arc::new(object));
        self.settle(&mut inner, Amount::default());
    }

    /// A deleted object, or one that left the selector.
    pub(crate) fn delete(&self, mut object: K) {
        let evidence = !self.selective || is_at_its_end(object.meta());
        let mut inner = self.write();
        inner.saw(version(&object));
        let beside = inner.shelf.beside(&object);
        let weight = self.fit_beside(&mut object, beside);
        let object = Arc::new(object);
        if inner
            .shelf
            .current(&object)
            .is_some_and(|known| known.object.meta().uid == object.meta().uid)
        {
            inner.shelf.remove(&object);
            self.settle(&mut inner, Amount::default());
        }
        // It may have been seen by whoever wrote it: nobody misses the proof that an object is gone.
        let event = if evidence {
            Event::Deleted(object)
        } else {
            Event::Gone(object)
        };
        self.tell(&mut inner, &event, weight);
    }

    /// A deleted object that couldn't be parsed: what is known under its name and UID goes.
    pub(crate) fn delete_unread(&self, meta: &ObjectMeta) {
        let evidence = !self.selective || is_at_its_end(meta);
        let mut inner = self.write();
        inner.saw(number(meta.resource_version.as_deref().unwrap_or_default()));
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let known = inner.shelf.get(namespace, name);
        let known = known.map(|kept| (kept.object.clone(), kept.weight));
        if let Some((known, weight)) = known.filter(|(known, _)| known.meta().uid == meta.uid) {
            inner.shelf.remove(&known);
            self.settle(&mut inner, Amount::default());
            let event = if evidence {
                Event::Deleted(known)
            } else {
                Event::Gone(known)
            };
            self.tell(&mut inner, &event, weight);
        }
    }

    /// The watch is past this version: a bookmark.
    pub(crate) fn bookmark(&self, resource_version: &str) {
        self.write().saw(number(resource_version));
    }

    /// A whole list, read at `resource_version`, for which `room` was taken; objects in `unread` exist but couldn't be
    /// parsed.
    pub(crate) fn replace(
        &self,
        list: Vec<K>,
        unread: &[(String, String)],
        resource_version: &str,
        room: Room,
    ) {
        let at = number(resource_version);
        let mut inner = self.write();
        let mut listed: HashMap<String, HashMap<String, Arc<K>>> = HashMap::new();
        for object in list {
            listed
                .entry(namespace(&object).to_owned())
                .or_default()
                .insert(name(&object).to_owned(), Arc::new(object));
        }
        let unread: HashSet<(&str, &str)> = unread
            .iter()
            .map(|(ns, n)| (ns.as_str(), n.as_str()))
            .collect();
        let incomparable = std::mem::take(&mut inner.incomparable);
        let missing: Vec<(Arc<K>, usize)> = inner
            .shelf
            .all()
            .filter(|kept| {
                let known = &kept.object;
                let (namespace, name) = (namespace(&**known), name(&**known));
                let found = listed.get(namespace).and_then(|names| names.get(name));
                if incomparable {
                    return found.is_none_or(|found| found.meta().uid != known.meta().uid);
                }
                let there = found.is_some() || unread.contains(&(namespace, name));
                // What was folded in from a write after the list was read isn't missing.
                !there && version(&**known) <= at
            })
            .map(|kept| (kept.object.clone(), kept.weight))
            .collect();
        for (object, weight) in missing {
            inner.shelf.remove(&object);
            self.tell(&mut inner, &Event::Gone(object), weight);
        }
        for object in listed.into_values().flat_map(HashMap::into_values) {
            self.put(&mut inner, object);
        }
        self.settle(&mut inner, room.hand_over());
        inner.saw(at);
        inner.synced = true;
        inner.told.send_modify(|told| *told = told.wrapping_add(1));
        for subscriber in &inner.subscribers {
            // Who doesn't listen any more is found with the next object.
            let _ = subscriber.send((Event::Synced, Unread::default()));
        }
    }

    /// Another cluster may be behind the connection now: its versions can't be compared with what was seen.
    pub(crate) fn forget_versions(&self) {
        let mut inner = self.write();
        inner.seen = 0;
        inner.incomparable = true;
    }

    /// Stores and tells, unless a newer version is known.
    fn put(&self, inner: &mut Inner<K>, mut object: Arc<K>) {
        if let Some(kept) = inner.shelf.current(&object) {
            let known = &kept.object;
            let same = known.meta().uid == object.meta().uid;
            let (old, new) = (version(&**known), version(&*object));
            if old > new || (same && old == new && old != 0) {
                return;
            }
            if !same {
                let (known, weight) = (known.clone(), kept.weight);
                self.tell(inner, &Event::Gone(known), weight);
            }
        }
        let beside = inner.shelf.beside(&object);
        let weight = match Arc::get_mut(&mut object) {
            Some(object) => self.fit_beside(object, beside),
            None => self.weigh(&object),
        };
        inner.shelf.put(object.clone(), weight);
        self.tell(inner, &Event::Applied(object), weight);
    }

    /// Tells all who listen of an object of that weight: one share of the budget until the last of them has read it.
    fn tell(&self, inner: &mut Inner<K>, event: &Event<K>, weight: usize) {
        inner.told.send_modify(|told| *told = told.wrapping_add(1));
        if inner.subscribers.is_empty() {
            return;
        }
        let unread = self.unread(weight);
        inner
            .subscribers
            .retain(|subscriber| subscriber.send((event.clone(), unread.clone())).is_ok());
    }

    /// Tells the budget what is kept by now, beside what it knew and `room` that was taken in advance.
    fn settle(&self, inner: &mut Inner<K>, room: Amount) {
        let kept = inner.shelf.kept();
        let known = std::mem::replace(&mut inner.counted, kept);
        if let Some(budget) = self.budget() {
            budget.change(known.and(room), kept);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<K>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<K>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Inner<K> {
    fn saw(&mut self, version: u64) {
        self.seen = self.seen.max(version);
    }
}

impl<K> Drop for Store<K> {
    fn drop(&mut self) {
        let budget = self.limits.as_ref().and_then(Limits::budget);
        let Some(budget) = budget else { return };
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        budget.change(inner.counted, Amount::default());
    }
}

impl<K: Resource<DynamicType = ()>> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("kind", &K::kind(&()))
            .field("len", &self.len())
            .finish()
    }
}

#[cfg(test)]
#[path = "store/tests.rs"]
mod tests;
