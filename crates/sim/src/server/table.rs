//! Objects of one kind, and every version that they ever had, in the order of a watch.

use std::sync::Arc;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use pilotage_api::PodChaperon;

/// What is stored.
pub(crate) trait Object {
    fn meta(&self) -> &ObjectMeta;

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn version(&self) -> u64 {
        let version = self.meta().resource_version.as_deref();
        version
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }

    fn is_ending(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    fn has_finalizers(&self) -> bool {
        self.meta()
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty())
    }
}

impl Object for Pod {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Object for PodChaperon {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Entry<K> {
    pub(crate) version: u64,
    /// The object is gone; this is its last version.
    pub(crate) gone: bool,
    pub(crate) object: Arc<K>,
}

/// All objects of a kind.
#[derive(Debug)]
pub(crate) struct Table<K> {
    objects: Vec<Arc<K>>,
    pub(crate) log: Vec<Entry<K>>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            log: Vec::new(),
        }
    }
}

impl<K: Object> Table<K> {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<K>> {
        self.objects.iter().find(|object| object.name() == name)
    }

    pub(crate) fn all(&self) -> &[Arc<K>] {
        &self.objects
    }

    /// Stores a new version.
    pub(super) fn put(&mut self, object: K) -> Arc<K> {
        let object = Arc::new(object);
        let name = object.name();
        match self.objects.iter_mut().find(|known| known.name() == name) {
            Some(known) => *known = Arc::clone(&object),
            None => self.objects.push(Arc::clone(&object)),
        }
        self.log.push(Entry {
            version: object.version(),
            gone: false,
            object: Arc::clone(&object),
        });
        object
    }

    /// Removes an object; `object` is its last version.
    pub(super) fn remove(&mut self, object: K) {
        self.objects.retain(|known| known.name() != object.name());
        self.log.push(Entry {
            version: object.version(),
            gone: true,
            object: Arc::new(object),
        });
    }

    /// What a list shows that was read after the first `length` changes.
    pub(crate) fn listed_at(&self, length: usize) -> (Vec<Arc<K>>, u64) {
        let mut objects: Vec<Arc<K>> = Vec::new();
        let mut version = 0;
        for entry in self.log.iter().take(length) {
            version = entry.version;
            objects.retain(|known| known.name() != entry.object.name());
            if !entry.gone {
                objects.push(Arc::clone(&entry.object));
            }
        }
        (objects, version)
    }
}
