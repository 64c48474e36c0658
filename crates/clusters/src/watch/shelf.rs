//! The objects that a store keeps, by namespace and name, and what they weigh. It tells nobody of them.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Resource;

use super::limits::Beside;
use super::object::{name, namespace};
use crate::budget::Amount;

/// One of them.
pub(super) struct Kept<K> {
    pub(super) object: Arc<K>,
    pub(super) weight: usize,
}

/// All of them.
pub(super) struct Shelf<K> {
    /// By namespace (empty for cluster-scoped kinds), then by name, so that a look-up allocates nothing.
    objects: HashMap<String, InNamespace<K>>,
    kept: Amount,
}

/// Those of one namespace.
struct InNamespace<K> {
    by_name: HashMap<String, Kept<K>>,
    kept: Amount,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            kept: Amount::default(),
        }
    }
}

impl<K> Default for InNamespace<K> {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            kept: Amount::default(),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Shelf<K> {
    /// What all of them come to.
    pub(super) fn kept(&self) -> Amount {
        self.kept
    }

    /// The same in a namespace.
    pub(super) fn kept_in(&self, namespace: &str) -> Amount {
        let inside = self.objects.get(namespace);
        inside.map_or_else(Amount::default, |inside| inside.kept)
    }

    /// Each of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Kept<K>> {
        let inside = self.objects.values();
        inside.flat_map(|inside| inside.by_name.values())
    }

    /// The one of that name.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Kept<K>> {
        self.objects.get(namespace)?.by_name.get(name)
    }

    /// The one of an object's name.
    pub(super) fn current(&self, object: &K) -> Option<&Kept<K>> {
        self.get(namespace(object), name(object))
    }

    /// What is kept beside an object, or will be when it has taken the place of the one of its name.
    pub(super) fn beside(&self, object: &K) -> Beside {
        let own = self.current(object);
        let own = own.map_or_else(Amount::default, |kept| Amount::new(1, kept.weight));
        Beside {
            namespace: self.kept_in(namespace(object)).without(own),
            everywhere: self.kept.without(own),
        }
    }

    /// Puts an object in the place of the one of its name.
    pub(super) fn put(&mut self, object: Arc<K>, weight: usize) {
        self.remove(&object);
        let more = Amount::new(1, weight);
        let (namespace, name) = (namespace(&*object).to_owned(), name(&*object).to_owned());
        let inside = self.objects.entry(namespace).or_default();
        inside.by_name.insert(name, Kept { object, weight });
        inside.kept = inside.kept.and(more);
        self.kept = self.kept.and(more);
    }

    /// Takes the one of an object's name away.
    pub(super) fn remove(&mut self, object: &K) {
        let namespace = namespace(object);
        let Some(inside) = self.objects.get_mut(namespace) else {
            return;
        };
        let Some(old) = inside.by_name.remove(name(object)) else {
            return;
        };
        let less = Amount::new(1, old.weight);
        inside.kept = inside.kept.without(less);
        if inside.by_name.is_empty() {
            self.objects.remove(namespace);
        }
        self.kept = self.kept.without(less);
    }
}
