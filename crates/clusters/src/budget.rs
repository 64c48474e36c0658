//! How much is kept of what one target says, how fast it is taken in, and how its server's name is asked for: all its
//! connections share one budget.
//!
//! A target may show as many objects as it likes; the memory is ours. What is fair follows from the pods that may run
//! there: the source knows them all, and a chaperon without one is somebody's invention or a leftover. Since a tenant
//! may make many Targets, those of one namespace have a bound together ([`Common`]).

mod common;
mod meter;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilotage_api::limits;
use thiserror::Error;
use tokio::time::Instant;

pub(crate) use common::{Common, Commons};

use crate::door::OBJECT_WEIGHT;
use crate::names::Names;
use common::{COMMON_BASE, common_weight_for};
use meter::Meter;

/// Objects of one target: five times the chaperons of 10,000 proxies.
const OBJECTS: usize = 50_000;
/// Weight that any target has: room for the leftovers of a thousand pods.
const BASE: usize = 16 << 20;
/// The most that is kept of a pod's chaperon, whatever its author or the target make of it: so nobody's chaperons take
/// room from others.
const A_POD: usize = limits::CHAPERON_KEPT;

/// What a usual chaperon weighs.
const USUAL: usize = 16 << 10;
/// What all that is heavier than usual weighs together before each of them is kept as [`CROWDED`]: somebody who may
/// make hundreds of pods could else have hundreds of MiB kept.
const HEAVY: usize = 64 << 20;
/// The most that is kept of a pod's chaperon among many heavy ones.
const CROWDED: usize = 64 << 10;

/// In all namespaces of this very cluster together so much may be heavier than usual: as much as in two of them.
const HEAVY_EVERYWHERE: usize = 2 * HEAVY;

/// What one target may weigh. Chaperons that are kept by [`Budget::share`] weigh less, whatever their pods' authors do.
fn weight_for(pods: usize) -> usize {
    BASE.saturating_add(weight_of(pods, 1))
}

/// The most that chaperons of so many pods weigh, each in so many targets: their whole shares, or usual ones of all,
/// the heavy ones before it was crowded, and one of those after that for each pod.
fn weight_of(pods: usize, targets: usize) -> usize {
    let shares = A_POD.saturating_mul(pods).saturating_mul(targets);
    let each = USUAL.saturating_mul(targets).saturating_add(CROWDED);
    let crowded = HEAVY.saturating_add(A_POD);
    shares.min(crowded.saturating_add(each.saturating_mul(pods)))
}

/// Whether chaperons of so many pods weigh more than is usual, by so much that each has to have less.
fn is_crowded(kept: &Account, pods: impl FnOnce() -> usize, targets: usize) -> bool {
    let weight = kept.with(Amount::default()).weight;
    // Most have no reason to count pods.
    let usual = |pods: usize| USUAL.saturating_mul(targets).saturating_mul(pods);
    weight > HEAVY && weight > HEAVY.saturating_add(usual(pods()))
}

/// The most that is kept of an object of this very cluster, beside those of its namespace and of all namespaces. Its
/// own API server is never refused anything, and shows what users have written: so nobody's heavy objects take memory
/// without end, and where none are, each is kept whole.
pub(crate) fn own_share(namespace: Amount, everywhere: Amount) -> usize {
    let is_crowded = |kept: Amount, heavy: usize| {
        let usual = CROWDED.saturating_mul(kept.objects);
        kept.weight > heavy.saturating_add(usual)
    };
    if is_crowded(namespace, HEAVY) || is_crowded(everywhere, HEAVY_EVERYWHERE) {
        CROWDED
    } else {
        OBJECT_WEIGHT
    }
}

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
    /// Too much that nobody has read yet.
    #[error(
        "what it tells faster than it is read would take more than {} MiB of memory",
        .limit >> 20
    )]
    Unread {
        /// The most that may wait.
        limit: usize,
    },
    /// A list without end.
    #[error("a list isn't complete after {0} pages")]
    Pages(usize),
    /// Too many objects of all Targets of a namespace.
    #[error("all Targets of namespace {namespace} together would show more than {limit} objects")]
    CommonObjects {
        /// Which one.
        namespace: String,
        /// The most that are kept.
        limit: usize,
    },
    /// Too heavy ones.
    #[error(
        "what all Targets of namespace {namespace} show together would take more than {} MiB of memory, for {pods} \
         pods that may run there",
        .limit >> 20
    )]
    CommonWeight {
        /// Which one.
        namespace: String,
        /// The most that is kept.
        limit: usize,
        /// For how many pods.
        pods: usize,
    },
    /// Too long answers at the same time.
    #[error(
        "answers of all Targets of namespace {namespace} that are on their way would take more than {} MiB of memory",
        .limit >> 20
    )]
    UnderWay {
        /// Which one.
        namespace: String,
        /// The most that may be on its way.
        limit: usize,
    },
}

/// How many objects, and what they weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) objects: usize,
    pub(crate) weight: usize,
}

impl Amount {
    pub(crate) const fn new(objects: usize, weight: usize) -> Self {
        Self { objects, weight }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            weight: self.weight.saturating_add(other.weight),
        }
    }

    /// What is left without `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(other.objects),
            weight: self.weight.saturating_sub(other.weight),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            objects: self.objects.max(other.objects),
            weight: self.weight.max(other.weight),
        }
    }
}

/// What is there, counted by all who keep some of it.
#[derive(Debug, Default)]
struct Account {
    objects: AtomicUsize,
    weight: AtomicUsize,
}

impl Account {
    fn with(&self, more: Amount) -> Amount {
        let there = Amount {
            objects: self.objects.load(Ordering::Relaxed),
            weight: self.weight.load(Ordering::Relaxed),
        };
        there.and(more)
    }

    /// What was `before` is `now`.
    fn change(&self, before: Amount, now: Amount) {
        let (more, less) = (now.without(before), before.without(now));
        self.objects.fetch_add(more.objects, Ordering::Relaxed);
        self.objects.fetch_sub(less.objects, Ordering::Relaxed);
        self.weight.fetch_add(more.weight, Ordering::Relaxed);
        self.weight.fetch_sub(less.weight, Ordering::Relaxed);
    }
}

type Expected = Box<dyn Fn() -> usize + Send + Sync>;

/// What is kept of one target.
#[derive(Default)]
pub(crate) struct Budget {
    kept: Account,
    /// What was told and nobody has read yet, whether it is kept or not: as much may wait as may be kept.
    queued: Account,
    /// The most pods that were ever expected there: their chaperons go after them.
    pods: AtomicUsize,
    expected: OnceLock<Expected>,
    meter: Meter,
    names: Arc<Names>,
    /// What it has together with its namespace's others.
    common: Option<Arc<Common>>,
}

impl Budget {
    /// One that is a share of `common`, if there is such.
    pub(crate) fn of(common: Option<Arc<Common>>) -> Self {
        let names = common.as_ref().map(|common| common.names.clone());
        Self {
            names: names.unwrap_or_default(),
            common,
            ..Self::default()
        }
    }

    /// One whose server's name is asked for in this way.
    #[cfg(test)]
    pub(crate) fn with_names(names: Names) -> Self {
        Self {
            names: Arc::new(names),
            ..Self::default()
        }
    }

    /// Who asks for the name of its server.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Says how many pods may run there at present; the first word counts.
    pub(crate) fn expect(&self, pods: impl Fn() -> usize + Send + Sync + 'static) {
        // A second one would say the same.
        let _ = self.expected.set(Box::new(pods));
    }

    /// Whether so much more may be kept.
    pub(crate) fn check(&self, more: Amount) -> Result<(), Excess> {
        let sum = self.kept.with(more);
        if sum.objects > OBJECTS {
            return Err(Excess::Objects);
        }
        if sum.weight > BASE {
            let pods = self.pods();
            let limit = weight_for(pods);
            if sum.weight > limit {
                return Err(Excess::Weight { limit, pods });
            }
        }
        match &self.common {
            Some(common) => common.check(more, || self.pods()),
            None => Ok(()),
        }
    }

    /// The most that is kept of one chaperon at present.
    pub(crate) fn share(&self) -> usize {
        let common = self.common.as_ref();
        let crowded = is_crowded(&self.kept, || self.pods(), 1)
            || common.is_some_and(|common| common.is_crowded(|| self.pods()));
        if crowded { CROWDED } else { A_POD }
    }

    /// What was kept `before` is what is kept `now`.
    pub(crate) fn change(&self, before: Amount, now: Amount) {
        self.kept.change(before, now);
        if let Some(common) = &self.common {
            common.kept.change(before, now);
        }
    }

    /// Whether an event of this weight may be told.
    pub(crate) fn check_queue(&self, weight: usize) -> Result<(), Excess> {
        let more = Amount::new(0, weight);
        let check = |queued: &Account, base: usize, limit: fn(usize) -> usize| {
            let sum = queued.with(more).weight;
            if sum <= base {
                return Ok(());
            }
            let limit = limit(self.pods());
            if sum > limit {
                return Err(Excess::Unread { limit });
            }
            Ok(())
        };
        check(&self.queued, BASE, weight_for)?;
        let common = self.common.as_ref();
        common.map_or(Ok(()), |common| {
            check(&common.queued, COMMON_BASE, common_weight_for)
        })
    }

    /// An event waits to be read.
    pub(crate) fn queue(&self, weight: usize) {
        self.change_queue(Amount::default(), Amount::new(0, weight));
    }

    /// One was read by all.
    pub(crate) fn unqueue(&self, weight: usize) {
        self.change_queue(Amount::new(0, weight), Amount::default());
    }

    fn change_queue(&self, before: Amount, now: Amount) {
        self.queued.change(before, now);
        if let Some(common) = &self.common {
            common.queued.change(before, now);
        }
    }

    /// So many bytes of it have come, and so many things to look at.
    pub(crate) fn spend(&self, bytes: usize, looks: usize, now: Instant) {
        self.meter.spend(bytes, looks, now);
        if let Some(common) = &self.common {
            common.meter.spend(bytes, looks, now);
        }
    }

    /// How long to wait before more is taken in.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let common = self.common.as_ref();
        let common = common.and_then(|common| common.meter.pause(now));
        self.meter.pause(now).max(common)
    }

    /// Whether far more has come than what was asked for in time.
    pub(crate) fn is_far_over(&self, now: Instant) -> bool {
        let common = self.common.as_ref();
        self.meter.is_far_over(now) || common.is_some_and(|common| common.meter.is_far_over(now))
    }

    /// The most pods that were expected so far.
    fn pods(&self) -> usize {
        let now = self.expected.get().map_or(0, |expected| expected());
        self.pods.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

/// Room for a list while it is read, beyond what it will replace: lists that are read at the same time don't all find
/// the same room. It is given back when this value goes.
#[derive(Default)]
pub(crate) struct Room {
    budget: Option<Arc<Budget>>,
    taken: Amount,
}

impl Room {
    /// None is taken yet; without a budget nobody counts.
    pub(crate) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self {
            budget,
            taken: Amount::default(),
        }
    }

    /// Takes as much as is missing to `amount`, if there is so much.
    pub(crate) fn raise(&mut self, amount: Amount) -> Result<(), Excess> {
        let Some(budget) = &self.budget else {
            return Ok(());
        };
        let now = self.taken.or(amount);
        budget.check(now.without(self.taken))?;
        budget.change(self.taken, now);
        self.taken = now;
        Ok(())
    }

    /// Leaves what was taken to the caller, who says from now on what is kept.
    pub(crate) fn hand_over(mut self) -> Amount {
        std::mem::take(&mut self.taken)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.change(self.taken, Amount::default());
        }
    }
}

/// The bytes of one answer while they come. They are counted for all Targets of a namespace only: what one of them may
/// send at a time is bounded by each answer's limits.
pub(crate) struct UnderWay {
    budget: Arc<Budget>,
    bytes: usize,
}

impl UnderWay {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// What they count for.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// So many more have come.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Excess> {
        if let Some(common) = &self.budget.common {
            common.receive(bytes, || self.budget.pods())?;
            self.bytes = self.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    /// They have been passed on.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(common) = &self.budget.common {
            common.pass_on(bytes);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests;
