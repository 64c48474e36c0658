//! What a kept object counts for, and what is left of one that is heavier than a pod's share. Knows no store.

use std::sync::Arc;

use kube::Resource;
use pilotage_api::bounds::cut;
use pilotage_api::limits::SUBDOMAIN;
use pilotage_runtime::caught::caught;

use super::WatchConfig;
use crate::budget::{Amount, Budget, own_share};
use crate::door::OBJECT_WEIGHT;

/// Against what the contents of a store count.
pub(crate) enum Bound {
    /// What may be kept of a target: what goes beyond is refused.
    Target(Arc<Budget>),
    /// Of this very cluster nothing is refused.
    Own,
}

/// What the contents of a store count for, and against what.
pub(crate) struct Limits<K> {
    pub(crate) bound: Bound,
    pub(crate) weigh: fn(&K) -> usize,
    /// Leaves of an object what its watcher can't do without; none is heavier than its share then. Without it an object
    /// may weigh as much as there is room.
    pub(crate) slim: Option<fn(&mut K)>,
}

/// What else is kept, beside an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// In its namespace.
    pub(crate) namespace: Amount,
    /// In all.
    pub(crate) everywhere: Amount,
}

impl<K> Limits<K> {
    /// Of objects of this very cluster; none, if nobody says what becomes of heavy ones.
    pub(super) fn own(config: &WatchConfig<K>) -> Option<Self> {
        Some(Self {
            bound: Bound::Own,
            weigh: config.weigh?,
            slim: config.slim,
        })
    }

    /// What may be kept of the target, if it is one's.
    pub(super) fn budget(&self) -> Option<&Arc<Budget>> {
        match &self.bound {
            Bound::Target(budget) => Some(budget),
            Bound::Own => None,
        }
    }

    /// The most that is kept of an object.
    pub(super) fn most(&self, beside: Beside) -> usize {
        match &self.bound {
            Bound::Target(budget) => budget.share(),
            Bound::Own => own_share(beside.namespace, beside.everywhere),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Limits<K> {
    /// What an object counts for: the most, if to weigh it panics.
    pub(super) fn weigh(&self, object: &K) -> usize {
        caught(|| (self.weigh)(object)).unwrap_or_else(|panic| {
            let name = name(object);
            tracing::error!(kind = %K::kind(&()), name, panic, "an object has no weight");
            OBJECT_WEIGHT
        })
    }

    /// The same, of what will be kept of it.
    pub(super) fn share(&self, object: &K) -> usize {
        let weight = self.weigh(object);
        match (self.slim, self.budget()) {
            (Some(_), Some(budget)) => weight.min(budget.share()),
            _ => weight,
        }
    }

    /// Takes off what an object has beyond its share; what it weighs then.
    pub(super) fn fit(&self, object: &mut K, beside: Beside) -> usize {
        let weight = self.weigh(object);
        let Some(slim) = self.slim.filter(|_| weight > self.most(beside)) else {
            return weight;
        };
        let slimmed = caught(|| slim(object));
        let name = name(object);
        match slimmed {
            Ok(()) => {
                // Its author pays for it, and nobody else: no reason to fill a log.
                tracing::debug!(kind = %K::kind(&()), name, weight, "an object is too heavy to be kept whole");
            }
            Err(panic) => {
                tracing::error!(kind = %K::kind(&()), name, panic, "an object is kept whole");
            }
        }
        self.weigh(object)
    }
}

fn name<K: Resource>(object: &K) -> &str {
    cut(object.meta().name.as_deref().unwrap_or_default(), SUBDOMAIN)
}
