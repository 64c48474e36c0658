//! Owns the objects of one kind, by name. Knows nothing of what is kept of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::labels::Labels;
use crate::names::ObjectKey;

/// Objects of one kind, by namespace (empty for those that belong to the whole cluster) and name.
#[derive(Debug)]
pub struct Store<K> {
    by_key: BTreeMap<ObjectKey, Arc<K>>,
    labels_version: u64,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            labels_version: 0,
        }
    }
}

/// A number that no store has had yet.
fn new_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).saturating_add(1)
}

impl<K> Store<K> {
    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.by_key.get(key)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.by_key.values()
    }

    /// All objects with their names.
    pub fn entries(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.by_key.iter()
    }

    /// The objects of a namespace.
    pub fn in_namespace<'a>(&'a self, namespace: &Arc<str>) -> impl Iterator<Item = &'a Arc<K>> {
        let first = ObjectKey {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let namespace = namespace.clone();
        let range = self
            .by_key
            .range((Bound::Included(first), Bound::Unbounded));
        range
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    }

    /// Stands for all objects' names and labels: as long as it is the same, they are, in whichever store of this kind.
    pub const fn labels_version(&self) -> u64 {
        self.labels_version
    }

    /// The object before, if there was one. `labels` says which labels count for [`Store::labels_version`].
    pub(super) fn apply(
        &mut self,
        key: ObjectKey,
        object: Arc<K>,
        labels: fn(&K) -> Option<&Labels>,
    ) -> Option<Arc<K>> {
        let before = self.by_key.get(&key);
        if before.is_none_or(|before| labels(before) != labels(&object)) {
            self.labels_version = new_version();
        }
        self.by_key.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let gone = self.by_key.remove(key)?;
        self.labels_version = new_version();
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Store;
    use crate::labels::Labels;
    use crate::names::ObjectKey;

    /// Labels, and something else.
    type Thing = (Labels, u8);

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn thing(team: Option<&str>, other: u8) -> Arc<Thing> {
        let label = team.map(|team| ("team".to_owned(), team.to_owned()));
        Arc::new((label.into_iter().collect(), other))
    }

    fn apply(store: &mut Store<Thing>, key: ObjectKey, thing: Arc<Thing>) -> Option<Arc<Thing>> {
        store.apply(key, thing, |(labels, _)| Some(labels))
    }

    #[test]
    fn objects_are_found_by_name_and_by_namespace() {
        let mut store = Store::default();
        for (namespace, name) in [("b", "x"), ("a", "y"), ("b", "a"), ("bb", "z")] {
            let number = u8::try_from(namespace.len()).unwrap();
            assert!(apply(&mut store, key(namespace, name), thing(None, number)).is_none());
        }
        let before = apply(&mut store, key("a", "y"), thing(None, 9));
        assert_eq!(before.unwrap().1, 1);
        assert_eq!(store.in_namespace(&"b".into()).count(), 2);
        let names: Vec<_> = store.entries().map(|(key, _)| key.to_string()).collect();
        assert_eq!(names, ["a/y", "b/a", "b/x", "bb/z"]);
        assert_eq!(store.get(&key("a", "y")).unwrap().1, 9);
        let key = key("b", "x");
        assert!(store.remove(&key).is_some() && store.get(&key).is_none());
        assert_eq!(store.iter().count(), 3);
    }

    #[test]
    fn the_version_of_labels_changes_with_them() {
        let mut store = Store::default();
        let mut other = Store::default();
        assert_eq!(
            store.labels_version(),
            other.labels_version(),
            "both are empty"
        );
        let x = || key("a", "x");
        let mut seen = vec![store.labels_version()];
        apply(&mut store, x(), thing(None, 0));
        seen.push(store.labels_version());
        apply(&mut other, x(), thing(None, 0));
        seen.push(other.labels_version());
        apply(&mut store, x(), thing(Some("x"), 0));
        seen.push(store.labels_version());
        apply(&mut store, x(), thing(Some("x"), 1));
        assert_eq!(store.labels_version(), seen[3], "labels are the same");
        assert!(store.remove(&key("a", "y")).is_none());
        assert_eq!(store.labels_version(), seen[3], "nothing went");
        store.remove(&x());
        seen.push(store.labels_version());
        let different: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(different.len(), seen.len(), "{seen:?}");
    }
}
