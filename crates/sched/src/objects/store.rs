//! Owns the objects of one kind.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::ObjectKey;
use crate::pod_info::IdentityError;

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

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let gone = self.by_key.remove(key)?;
        self.labels_version = new_version();
        Some(gone)
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Store<K> {
    /// The object before, if there was one.
    pub(super) fn apply(&mut self, object: Arc<K>) -> Result<Option<Arc<K>>, IdentityError> {
        let meta = object.metadata();
        let name = meta.name.as_deref().filter(|name| !name.is_empty());
        let key = ObjectKey {
            namespace: meta.namespace.as_deref().unwrap_or_default().into(),
            name: name.ok_or(IdentityError::Name)?.into(),
        };
        let before = self.by_key.get(&key).map(|before| before.metadata());
        if before.map(|before| &before.labels) != Some(&meta.labels) {
            self.labels_version = new_version();
        }
        Ok(self.by_key.insert(key, object))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Service;

    use super::Store;
    use crate::names::ObjectKey;
    use crate::pod_info::IdentityError;

    fn service(namespace: &str, name: &str) -> Arc<Service> {
        let mut service = Service::default();
        service.metadata.namespace = Some(namespace.to_owned());
        service.metadata.name = Some(name.to_owned());
        Arc::new(service)
    }

    #[test]
    fn objects_are_found_by_name_and_by_namespace() {
        let mut store = Store::default();
        for (namespace, name) in [("b", "x"), ("a", "y"), ("b", "a"), ("bb", "z")] {
            assert!(store.apply(service(namespace, name)).unwrap().is_none());
        }
        assert!(store.apply(service("a", "y")).unwrap().is_some());
        let names: Vec<_> = store
            .in_namespace(&"b".into())
            .map(|it| it.metadata.name.as_deref().unwrap())
            .collect();
        assert_eq!(names, ["a", "x"]);
        let key = ObjectKey {
            namespace: "b".into(),
            name: "x".into(),
        };
        assert!(store.get(&key).is_some());
        assert!(store.remove(&key).is_some() && store.get(&key).is_none());
        assert_eq!(store.iter().count(), 3);
        let nameless = store.apply(Arc::new(Service::default()));
        assert_eq!(nameless.unwrap_err(), IdentityError::Name);
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
        let mut seen = vec![store.labels_version()];
        let mut labelled = (*service("a", "x")).clone();
        store.apply(Arc::new(labelled.clone())).unwrap();
        seen.push(store.labels_version());
        other.apply(Arc::new(labelled.clone())).unwrap();
        seen.push(other.labels_version());
        labelled.metadata.labels = Some([("team".to_owned(), "x".to_owned())].into());
        store.apply(Arc::new(labelled.clone())).unwrap();
        seen.push(store.labels_version());
        labelled.metadata.annotations = Some([("note".to_owned(), "x".to_owned())].into());
        store.apply(Arc::new(labelled)).unwrap();
        assert_eq!(store.labels_version(), seen[3], "labels are the same");
        let key = |name: &str| ObjectKey {
            namespace: "a".into(),
            name: name.into(),
        };
        assert!(store.remove(&key("y")).is_none());
        assert_eq!(store.labels_version(), seen[3], "nothing went");
        store.remove(&key("x"));
        seen.push(store.labels_version());
        let different: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(different.len(), seen.len(), "{seen:?}");
    }
}
