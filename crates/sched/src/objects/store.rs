//! Owns the objects of one kind.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::ObjectKey;
use crate::pod_info::IdentityError;

/// Objects of one kind, by namespace (empty for those that belong to the whole cluster) and name.
#[derive(Debug)]
pub struct Store<K> {
    by_key: BTreeMap<ObjectKey, Arc<K>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
        }
    }
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

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        self.by_key.remove(key)
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
}
