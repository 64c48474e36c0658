//! Turns the events of a watch into changes of a known set: what came or changed, and what went.
//!
//! A watch that restarts lists everything again and says nothing of what vanished meanwhile, and an
//! object made anew under its old name may come without a deletion between. Both become deletions
//! here. Knows no client and no scheduler.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use kube::runtime::watcher::Event;

/// What an object is known by.
pub(crate) trait Tracked {
    /// Name by which the API server finds it.
    type Key: Clone + Eq + Hash;
    /// Its key and UID; `None` for an object without identity, which the API server never sends.
    fn identity(&self) -> Option<(Self::Key, String)>;
}

/// One change of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change<K, O> {
    /// It came or changed.
    Applied(O),
    /// It went.
    Deleted {
        /// Its key.
        key: K,
        /// Its UID.
        uid: String,
    },
    /// The set is complete: all that existed when the list was made has been told.
    Synced,
}

/// The objects known so far, by key and UID.
#[derive(Debug)]
pub(crate) struct Relist<O: Tracked> {
    known: HashMap<O::Key, String>,
    /// Keys seen in the list that is under way.
    listing: Option<HashSet<O::Key>>,
}

impl<O: Tracked> Default for Relist<O> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            listing: None,
        }
    }
}

impl<O: Tracked> Relist<O> {
    /// Takes one event of the watch and gives the changes it means, in order.
    pub(crate) fn on(&mut self, event: Event<O>) -> Vec<Change<O::Key, O>> {
        match event {
            Event::Init => {
                self.listing = Some(HashSet::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let (Some(seen), Some((key, _))) = (&mut self.listing, object.identity()) {
                    seen.insert(key);
                }
                self.apply(object)
            }
            Event::InitDone => self.complete(),
            Event::Apply(object) => self.apply(object),
            Event::Delete(object) => self.delete(&object),
        }
    }

    /// Whether a list is under way.
    pub(crate) const fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    fn apply(&mut self, object: O) -> Vec<Change<O::Key, O>> {
        let Some((key, uid)) = object.identity() else {
            return Vec::new();
        };
        let mut changes = Vec::with_capacity(1);
        match self.known.get_mut(&key) {
            Some(known) if *known == uid => {}
            Some(known) => {
                let old = std::mem::replace(known, uid);
                changes.push(Change::Deleted { key, uid: old });
            }
            None => {
                self.known.insert(key, uid);
            }
        }
        changes.push(Change::Applied(object));
        changes
    }

    fn delete(&mut self, object: &O) -> Vec<Change<O::Key, O>> {
        let Some((key, _)) = object.identity() else {
            return Vec::new();
        };
        // The UID that was known counts: a deletion of an older one was told when the newer came.
        match self.known.remove(&key) {
            Some(uid) => vec![Change::Deleted { key, uid }],
            None => Vec::new(),
        }
    }

    fn complete(&mut self) -> Vec<Change<O::Key, O>> {
        let seen = self.listing.take().unwrap_or_default();
        let mut changes = Vec::new();
        self.known.retain(|key, uid| {
            let stays = seen.contains(key);
            if !stays {
                let uid = std::mem::take(uid);
                changes.push(Change::Deleted {
                    key: key.clone(),
                    uid,
                });
            }
            stays
        });
        changes.push(Change::Synced);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and UID.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Object(&'static str, &'static str);

    impl Tracked for Object {
        type Key = &'static str;
        fn identity(&self) -> Option<(Self::Key, String)> {
            Some((self.0, self.1.to_owned()))
        }
    }

    fn run(relist: &mut Relist<Object>, events: Vec<Event<Object>>) -> Vec<String> {
        let mut told: Vec<String> = events
            .into_iter()
            .flat_map(|event| relist.on(event))
            .map(|change| match change {
                Change::Applied(Object(key, uid)) => format!("+{key}/{uid}"),
                Change::Deleted { key, uid } => format!("-{key}/{uid}"),
                Change::Synced => "synced".to_owned(),
            })
            .collect();
        // Vanished objects have no order among themselves.
        told.sort_by_key(|line| !line.starts_with('-'));
        told
    }

    fn listed(objects: &[Object]) -> Vec<Event<Object>> {
        let mut events = vec![Event::Init];
        events.extend(objects.iter().cloned().map(Event::InitApply));
        events.push(Event::InitDone);
        events
    }

    #[test]
    fn a_second_list_tells_what_vanished() {
        let mut relist = Relist::default();
        let first = listed(&[Object("a", "1"), Object("b", "2")]);
        assert_eq!(run(&mut relist, first), ["+a/1", "+b/2", "synced"]);
        let second = listed(&[Object("b", "2"), Object("c", "3")]);
        assert_eq!(run(&mut relist, second), ["-a/1", "+b/2", "+c/3", "synced"]);
    }

    #[test]
    fn a_list_that_breaks_off_deletes_nothing() {
        let mut relist = Relist::default();
        run(&mut relist, listed(&[Object("a", "1"), Object("b", "2")]));
        let broken = vec![Event::Init, Event::InitApply(Object("b", "2"))];
        assert_eq!(run(&mut relist, broken), ["+b/2"]);
        let whole = listed(&[Object("a", "1"), Object("b", "2")]);
        assert_eq!(run(&mut relist, whole), ["+a/1", "+b/2", "synced"]);
    }

    #[test]
    fn the_same_name_with_another_uid_is_another_object() {
        let mut relist = Relist::default();
        run(&mut relist, listed(&[Object("a", "1")]));
        assert_eq!(
            run(&mut relist, vec![Event::Apply(Object("a", "2"))]),
            ["-a/1", "+a/2"]
        );
        assert_eq!(
            run(&mut relist, vec![Event::Delete(Object("a", "2"))]),
            ["-a/2"]
        );
        assert!(run(&mut relist, vec![Event::Delete(Object("a", "2"))]).is_empty());
    }
}
