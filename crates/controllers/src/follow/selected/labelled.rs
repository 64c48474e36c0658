//! Who has which label: a look-up touches only those that have it. No I/O.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Names by one label of theirs.
#[derive(Debug, Default)]
pub(super) struct Labelled {
    by_key: HashMap<String, HashMap<String, BTreeSet<Arc<str>>>>,
}

impl Labelled {
    pub(super) fn insert(&mut self, key: &str, value: &str, name: &Arc<str>) {
        let values = self.by_key.entry(key.to_owned()).or_default();
        let names = values.entry(value.to_owned()).or_default();
        names.insert(name.clone());
    }

    pub(super) fn remove(&mut self, key: &str, value: &str, name: &str) {
        let Some(values) = self.by_key.get_mut(key) else {
            return;
        };
        if let Some(names) = values.get_mut(value) {
            names.remove(name);
            if names.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// Those that have this label.
    pub(super) fn with(&self, key: &str, value: &str) -> impl Iterator<Item = &Arc<str>> {
        self.names(key, value).into_iter().flatten()
    }

    /// Of these labels the one that the fewest have.
    pub(super) fn rarest<'a>(
        &self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Option<(&'a str, &'a str)> {
        let labels = labels.into_iter();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
        labels.min_by_key(|(key, value)| self.names(key, value).map_or(0, BTreeSet::len))
    }

    fn names(&self, key: &str, value: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.by_key.get(key)?.get(value)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
