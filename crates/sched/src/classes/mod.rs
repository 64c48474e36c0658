//! Owns what plugins have said of all nodes for pods of each class, so that the next pod of the class asks only about
//! nodes that changed since. Knows nothing of the choice among nodes (see `cycle::by_class`).
//!
//! Pods of one class have equal [`PodNeeds`], one profile, and the same plugins left out of their cycles. Answers are
//! kept only of filters that say what their answers depend on: see [`Reads`](crate::Reads).

mod answer;
mod class;
mod column;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use self::class::Class;
use crate::pod_info::PodInfo;
use crate::pod_needs::PodNeeds;
use crate::state::PluginMask;
use crate::used::Used;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of all classes together, unless it is one alone.
    pub(crate) bytes: usize,
    pub(crate) classes: usize,
    /// A class that no pod of so many was of is forgotten.
    pub(crate) unused: u64,
}

impl Limits {
    /// With 50,000 nodes that is some 150 classes.
    const DEFAULT: Self = Self {
        bytes: 128 << 20,
        classes: 2_048,
        unused: 32_768,
    };
}

/// What makes pods equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    profile: Arc<str>,
    // The scheduler keeps equal needs once, so their place in memory stands for them; the class keeps them there.
    needs: usize,
    skipped_filters: PluginMask,
}

#[derive(Debug)]
struct Known {
    class: Class,
    // Keeps the address taken.
    _needs: Arc<PodNeeds>,
    bytes: usize,
}

/// The classes whose pods were tried lately.
#[derive(Debug)]
pub(crate) struct Classes {
    known: HashMap<Key, Known>,
    used: Used<Key>,
    bytes: usize,
    limits: Limits,
}

impl Default for Classes {
    fn default() -> Self {
        Self::new(Limits::DEFAULT)
    }
}

impl Classes {
    /// None yet.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            known: HashMap::new(),
            used: Used::default(),
            bytes: 0,
            limits,
        }
    }

    /// The class of a pod, taken out: it must be given back unless what is in it can't be trusted any more.
    pub(crate) fn take(&mut self, pod: &PodInfo, skipped_filters: PluginMask) -> Taken {
        let key = Key {
            profile: pod.scheduler_name.clone(),
            needs: Arc::as_ptr(&pod.needs).addr(),
            skipped_filters,
        };
        let class = self.remove(&key);
        Taken {
            class: class.unwrap_or_default(),
            needs: pod.needs.clone(),
            key,
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Class> {
        let known = self.known.remove(key)?;
        self.bytes = self.bytes.saturating_sub(known.bytes);
        Some(known.class)
    }

    /// Keeps a class, and forgets others if there are too many, or if nobody has used one for long.
    pub(crate) fn give_back(&mut self, taken: Taken) {
        let bytes = taken.class.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        self.used.now(taken.key.clone());
        let known = Known {
            class: taken.class,
            _needs: taken.needs,
            bytes,
        };
        self.known.insert(taken.key, known);
        if let Some(key) = self.used.unused(self.limits.unused) {
            self.remove(&key);
        }
        while self.bytes > self.limits.bytes || self.known.len() > self.limits.classes {
            let Some(key) = self.used.give_way() else {
                return;
            };
            self.remove(&key);
        }
    }
}

/// A class in use.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) class: Class,
    needs: Arc<PodNeeds>,
    key: Key,
}

#[cfg(test)]
mod tests;
