//! What all Targets of one namespace may make us keep together. Whoever may make one Target may make hundreds, and is
//! still one tenant. `ClusterTarget`s are the operator's, and have only a budget each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::meter::Meter;
use super::{Account, Amount, BASE, Excess, OBJECTS, is_crowded, weight_of};
use crate::names::Names;

/// So many targets' worth of objects, and of weight that nobody has pods for, the Targets of one namespace have
/// together; as much again may be on its way from them. A few hostile ones can't take it from the others of their
/// namespace: each is stopped by its own budget first.
pub(super) const SHARES: usize = 8;
/// In so many targets each pod of the namespace may have a usual chaperon at a time. A few are asked for a pod at once,
/// unless all are.
const ASKED: usize = 16;

/// What any namespace may weigh.
pub(super) const COMMON_BASE: usize = BASE * SHARES;

/// What all Targets of a namespace may weigh together.
pub(super) fn common_weight_for(pods: usize) -> usize {
    COMMON_BASE.saturating_add(weight_of(pods, ASKED))
}

/// What is kept of all Targets of one namespace, and what is on its way from them.
#[derive(Debug)]
pub(crate) struct Common {
    namespace: String,
    pub(super) kept: Account,
    /// What of it nobody has read yet.
    pub(super) queued: Account,
    /// Bytes of answers that aren't complete.
    under_way: AtomicUsize,
    /// The most pods that any of them ever expected.
    pods: AtomicUsize,
    pub(super) meter: Arc<Meter>,
    pub(super) names: Arc<Names>,
}

impl Common {
    fn new(namespace: &str, meter: Arc<Meter>, names: Arc<Names>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            kept: Account::default(),
            queued: Account::default(),
            under_way: AtomicUsize::new(0),
            pods: AtomicUsize::new(0),
            meter,
            names,
        }
    }

    /// Whether so much more may be kept; who has nothing to add isn't to blame for what others have added.
    pub(super) fn check(
        &self,
        more: Amount,
        expected: impl FnOnce() -> usize,
    ) -> Result<(), Excess> {
        let sum = self.kept.with(more);
        let limit = OBJECTS.saturating_mul(SHARES);
        if more.objects > 0 && sum.objects > limit {
            let namespace = self.namespace.clone();
            return Err(Excess::CommonObjects { namespace, limit });
        }
        if more.weight == 0 || sum.weight <= COMMON_BASE {
            return Ok(());
        }
        let pods = self.pods(expected);
        let limit = common_weight_for(pods);
        if sum.weight > limit {
            return Err(Excess::CommonWeight {
                namespace: self.namespace.clone(),
                limit,
                pods,
            });
        }
        Ok(())
    }

    /// Whether so many more bytes may come; they are counted then.
    pub(super) fn receive(
        &self,
        bytes: usize,
        expected: impl FnOnce() -> usize,
    ) -> Result<(), Excess> {
        let before = self.under_way.fetch_add(bytes, Ordering::Relaxed);
        let sum = before.saturating_add(bytes);
        if sum <= COMMON_BASE {
            return Ok(());
        }
        let limit = common_weight_for(self.pods(expected));
        if sum > limit {
            self.pass_on(bytes);
            let namespace = self.namespace.clone();
            return Err(Excess::UnderWay { namespace, limit });
        }
        Ok(())
    }

    /// Whether what they keep of each chaperon has to be less.
    pub(super) fn is_crowded(&self, expected: impl FnOnce() -> usize) -> bool {
        is_crowded(&self.kept, || self.pods(expected), ASKED)
    }

    /// So many bytes aren't on their way any more.
    pub(super) fn pass_on(&self, bytes: usize) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn pods(&self, expected: impl FnOnce() -> usize) -> usize {
        let now = expected();
        self.pods.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

/// One [`Common`] a namespace, as long as anything of a Target of it is kept.
#[derive(Debug, Default)]
pub(crate) struct Commons {
    by_namespace: HashMap<String, Known>,
}

/// Who makes his Targets anew is no better off: some of it outlives the others.
#[derive(Debug)]
struct Known {
    common: Weak<Common>,
    meter: Arc<Meter>,
    names: Weak<Names>,
}

impl Known {
    fn is_over(&self, now: Instant) -> bool {
        self.common.strong_count() == 0 && self.names.strong_count() == 0 && !self.meter.owes(now)
    }
}

impl Commons {
    /// That of a namespace, for one more Target.
    pub(crate) fn of(&mut self, namespace: &str) -> Arc<Common> {
        self.at(namespace, Instant::now())
    }

    pub(super) fn at(&mut self, namespace: &str, now: Instant) -> Arc<Common> {
        let known = self.by_namespace.get(namespace);
        if let Some(common) = known.and_then(|known| known.common.upgrade()) {
            return common;
        }
        self.by_namespace.retain(|_, known| !known.is_over(now));
        let known = self.by_namespace.get(namespace);
        let meter = known.map_or_else(|| Arc::new(Meter::common()), |known| known.meter.clone());
        let names = known.and_then(|known| known.names.upgrade());
        let names = names.unwrap_or_default();
        let common = Arc::new(Common::new(namespace, meter.clone(), names.clone()));
        let known = Known {
            common: Arc::downgrade(&common),
            meter,
            names: Arc::downgrade(&names),
        };
        self.by_namespace.insert(namespace.to_owned(), known);
        common
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_namespace.len()
    }
}
