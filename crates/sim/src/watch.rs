//! A process's store of one kind of one API server, and where its watch stands in the history.
//!
//! The rules are those of the real stores: versions decide what is newer, a reply to a write of one's own may come
//! before its event, and only a DELETED event is evidence; what a new list lacks is merely not there.

use std::sync::Arc;

use crate::server::{Entry, Object, Table};

/// What a watch tells.
#[derive(Clone, Debug)]
pub(crate) enum News<K> {
    /// The object is new or changed.
    Applied(Arc<K>),
    /// The API server said that it is gone.
    Deleted(Arc<K>),
    /// It isn't in the set any more; no evidence.
    Gone(Arc<K>),
}

/// A store and its watch.
#[derive(Debug)]
pub(crate) struct Watch<K> {
    objects: Vec<Arc<K>>,
    seen: u64,
    /// Whether leaving the set doesn't mean being deleted.
    selective: bool,
    /// What belongs to the set.
    suits: fn(&K) -> bool,
    pub(crate) synced: bool,
    /// Nothing is delivered for now.
    pub(crate) frozen: bool,
    position: usize,
}

impl<K: Object> Watch<K> {
    /// `synced`: of a world in which nothing is yet.
    pub(crate) fn new(selective: bool, synced: bool) -> Self {
        Self {
            objects: Vec::new(),
            seen: 0,
            selective,
            suits: |_| true,
            synced,
            frozen: false,
            position: 0,
        }
    }

    /// The same, of what suits.
    pub(crate) fn only(self, suits: fn(&K) -> bool) -> Self {
        Self { suits, ..self }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<K>> {
        self.objects.iter().find(|object| object.name() == name)
    }

    pub(crate) fn all(&self) -> &[Arc<K>] {
        &self.objects
    }

    /// How many changes it hasn't seen.
    pub(crate) fn behind(&self, table: &Table<K>) -> usize {
        table.log.len() - self.position
    }

    /// Brings the next change.
    pub(crate) fn deliver(&mut self, table: &Table<K>, news: &mut Vec<News<K>>) {
        let Some(Entry {
            version,
            gone,
            object,
        }) = table.log.get(self.position)
        else {
            return;
        };
        self.position += 1;
        self.seen = self.seen.max(*version);
        if !(self.suits)(object) {
            // The event has the object as it was when it belonged to the set.
            let known = self.objects.iter().position(|it| it.uid() == object.uid());
            if let Some(before) = known.map(|n| self.objects.remove(n)) {
                news.push(News::Gone(before));
            }
            return;
        }
        if !gone {
            self.put(Arc::clone(object), news);
            return;
        }
        let evidence = !self.selective || object.is_ending();
        self.objects.retain(|known| known.uid() != object.uid());
        news.push(if evidence {
            News::Deleted(Arc::clone(object))
        } else {
            News::Gone(Arc::clone(object))
        });
    }

    /// Reads a whole list, `back` changes before the newest.
    pub(crate) fn list(&mut self, table: &Table<K>, back: usize, news: &mut Vec<News<K>>) {
        let position = table.log.len().saturating_sub(back).max(self.position);
        let (mut listed, version) = table.listed_at(position);
        listed.retain(|object| (self.suits)(object));
        self.objects.retain(|known| {
            let there = listed.iter().any(|found| found.name() == known.name());
            let stays = there || known.version() > version;
            if !stays {
                news.push(News::Gone(Arc::clone(known)));
            }
            stays
        });
        for object in listed {
            self.put(object, news);
        }
        self.seen = self.seen.max(version);
        self.position = position;
        self.synced = true;
    }

    /// Takes in the reply to a write of one's own.
    pub(crate) fn fold(&mut self, object: Arc<K>, news: &mut Vec<News<K>>) {
        if object.version() > self.seen {
            self.put(object, news);
        }
    }

    /// Whether the watch has told all up to this version.
    pub(crate) fn is_past(&self, object: &K) -> bool {
        object.version() <= self.seen
    }

    fn put(&mut self, object: Arc<K>, news: &mut Vec<News<K>>) {
        let name = object.name();
        match self.objects.iter_mut().find(|known| known.name() == name) {
            Some(known) => {
                let same = known.uid() == object.uid();
                let (old, new) = (known.version(), object.version());
                if old > new || (same && old == new) {
                    return;
                }
                let before = std::mem::replace(known, Arc::clone(&object));
                if !same {
                    news.push(News::Gone(before));
                }
            }
            None => self.objects.push(Arc::clone(&object)),
        }
        news.push(News::Applied(object));
    }
}
