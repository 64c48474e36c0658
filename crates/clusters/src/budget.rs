//! How much is kept of what one target says: all its watches share one budget.
//!
//! A target may show as many objects as it likes; the memory is ours. What is fair follows from the pods that may run
//! there: the source knows them all, and a chaperon without one is somebody's invention or a leftover.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

/// Objects of one target: five times the chaperons of 10,000 proxies.
const OBJECTS: usize = 50_000;
/// Weight that any target has: room for the leftovers of a thousand pods.
const BASE: usize = 16 << 20;
/// Weight for each pod that may run there. An API server takes 256 KiB of annotations, so that no author of a pod can make a
/// chaperon that has more; a usual one has 16 KiB.
const A_POD: usize = 384 << 10;

/// The budget is spent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Excess {
    /// Too many objects.
    #[error("it shows more than {OBJECTS} objects")]
    Objects,
    /// Too heavy ones.
    #[error(
        "what it shows would take more than {} MiB of memory, for {pods} pods that may run there",
        .limit >> 20
    )]
    Weight {
        /// The most that is kept.
        limit: usize,
        /// For how many pods.
        pods: usize,
    },
    /// A list without end.
    #[error("a list isn't complete after {0} pages")]
    Pages(usize),
}

type Expected = Box<dyn Fn() -> usize + Send + Sync>;

/// What is kept of one target.
#[derive(Default)]
pub(crate) struct Budget {
    objects: AtomicUsize,
    weight: AtomicUsize,
    /// The most pods that were ever expected there: their chaperons go after them.
    pods: AtomicUsize,
    expected: OnceLock<Expected>,
}

impl Budget {
    /// Says how many pods may run there at present; the first word counts.
    pub(crate) fn expect(&self, pods: impl Fn() -> usize + Send + Sync + 'static) {
        // A second one would say the same.
        let _ = self.expected.set(Box::new(pods));
    }

    /// Whether so much more may be kept.
    pub(crate) fn check(&self, objects: usize, weight: usize) -> Result<(), Excess> {
        if self.objects.load(Ordering::Relaxed).saturating_add(objects) > OBJECTS {
            return Err(Excess::Objects);
        }
        let weight = self.weight.load(Ordering::Relaxed).saturating_add(weight);
        if weight <= BASE {
            return Ok(());
        }
        let now = self.expected.get().map_or(0, |expected| expected());
        let pods = self.pods.fetch_max(now, Ordering::Relaxed).max(now);
        let limit = BASE.saturating_add(A_POD.saturating_mul(pods));
        if weight > limit {
            return Err(Excess::Weight { limit, pods });
        }
        Ok(())
    }

    /// Something is kept.
    pub(crate) fn add(&self, objects: usize, weight: usize) {
        self.objects.fetch_add(objects, Ordering::Relaxed);
        self.weight.fetch_add(weight, Ordering::Relaxed);
    }

    /// Something that was added isn't kept any more.
    pub(crate) fn take_off(&self, objects: usize, weight: usize) {
        self.objects.fetch_sub(objects, Ordering::Relaxed);
        self.weight.fetch_sub(weight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn ten_thousand_pods_fit_and_an_invented_crowd_does_not() {
        let budget = Budget::default();
        assert_eq!(budget.check(OBJECTS, BASE), Ok(()));
        assert_eq!(budget.check(OBJECTS + 1, 0), Err(Excess::Objects));
        let excess = budget.check(10_000, 10_000 * (16 << 10));
        assert_eq!(
            excess,
            Err(Excess::Weight {
                limit: BASE,
                pods: 0
            })
        );
        assert_eq!(
            excess.unwrap_err().to_string(),
            "what it shows would take more than 16 MiB of memory, for 0 pods that may run there"
        );
        let pods = Arc::new(AtomicUsize::new(10_000));
        let counted = pods.clone();
        budget.expect(move || counted.load(Ordering::Relaxed));
        assert_eq!(budget.check(10_000, 10_000 * (300 << 10)), Ok(()));
        // When the pods have gone their chaperons are still to go.
        pods.store(0, Ordering::Relaxed);
        assert_eq!(budget.check(10_000, 10_000 * (300 << 10)), Ok(()));
    }

    #[test]
    fn what_goes_makes_room() {
        let budget = Budget::default();
        budget.add(OBJECTS, BASE);
        assert!(budget.check(1, 0).is_err() && budget.check(0, 1).is_err());
        budget.take_off(1, 10);
        assert_eq!(budget.check(1, 10), Ok(()));
    }
}
