//! Owns warnings about objects that nobody has been told of yet: only who leads may write, and objects are read long before
//! that. What is mended meanwhile needs no warning any more.

use std::collections::BTreeMap;

use pilotage_sched_driver::publish::{Occurrence, Regarding};

/// Warnings, one an object.
#[derive(Default)]
pub(crate) struct Untold {
    /// By kind, namespace and name.
    by_object: BTreeMap<(String, String, String), Occurrence>,
}

fn key(object: &Regarding) -> (String, String, String) {
    let Regarding {
        kind,
        namespace,
        name,
        ..
    } = object;
    (kind.clone(), namespace.clone(), name.clone())
}

impl Untold {
    /// Something is wrong with an object; an earlier warning about it isn't true any more.
    pub(crate) fn add(&mut self, warning: Occurrence) {
        self.by_object.insert(key(&warning.regarding), warning);
    }

    /// Nothing is wrong with an object.
    pub(crate) fn mended(&mut self, object: impl FnOnce() -> Regarding) {
        if !self.by_object.is_empty() {
            self.by_object.remove(&key(&object()));
        }
    }

    /// All of them, to be told now.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Occurrence> + use<> {
        std::mem::take(&mut self.by_object).into_values()
    }
}
