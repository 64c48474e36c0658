//! Owns warnings about objects: they are told as soon as this process leads, since only who leads may write, and
//! objects are read long before that. What is mended meanwhile needs no warning any more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pilotage_runtime::lease::Leadership;

use super::events::Recorder;
use super::occurrence::{Occurrence, Regarding};

/// Warnings, one an object, until this process leads.
pub struct Warnings {
    events: Recorder,
    leadership: Leadership,
    /// By kind, namespace and name.
    untold: Mutex<BTreeMap<Key, Occurrence>>,
}

type Key = (String, String, String);

fn key(object: &Regarding) -> Key {
    let Regarding {
        kind,
        namespace,
        name,
        ..
    } = object;
    (kind.clone(), namespace.clone(), name.clone())
}

impl Warnings {
    /// None yet.
    pub fn new(events: Recorder, leadership: Leadership) -> Self {
        Self {
            events,
            leadership,
            untold: Mutex::default(),
        }
    }

    /// Something is wrong with an object; an earlier warning about it that nobody was told isn't true any more.
    pub fn warn(&self, warning: Occurrence) {
        self.untold().insert(key(&warning.regarding), warning);
        self.tell();
    }

    /// Nothing is wrong with an object, or not any more.
    pub fn mended(&self, object: impl FnOnce() -> Regarding) {
        let mut untold = self.untold();
        if !untold.is_empty() {
            untold.remove(&key(&object()));
        }
    }

    /// Tells all that nobody was told, if this process leads.
    pub fn tell(&self) {
        if self.leadership.is_leader() {
            let untold = std::mem::take(&mut *self.untold());
            for warning in untold.into_values() {
                self.events.record(warning);
            }
        }
    }

    fn untold(&self) -> MutexGuard<'_, BTreeMap<Key, Occurrence>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Warnings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Warnings")
    }
}
