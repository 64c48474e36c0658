//! Owns how many pods each place has, and the fewest of any place, for one constraint. A *what if* adds a few changes
//! to sums that it shares. Knows nothing of nodes.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::counts::PlaceId;

/// The sum of a place that doesn't count.
const NOT_COUNTED: i32 = i32::MIN;

/// Sums by place, as they are on the nodes.
#[derive(Debug)]
struct Base {
    sums: Vec<i32>,
    domains: usize,
    // The lowest sum, how many places have it, and the next one above it.
    lowest: i32,
    with_lowest: usize,
    next: i32,
}

/// Sums by place in a *what if*. Copies are cheap.
#[derive(Clone, Debug)]
pub(super) struct PlaceSums {
    base: Arc<Base>,
    // Nearly always none or one: a what-if is about one node.
    changed: Vec<(PlaceId, i32)>,
}

/// Sums that are being made.
pub(super) struct Summing(Vec<i32>);

impl Summing {
    /// With places below this number, of which none counts yet.
    pub(super) fn new(places: usize) -> Self {
        Self(vec![NOT_COUNTED; places])
    }

    /// A place counts.
    pub(super) fn count(&mut self, place: usize) {
        let sum = &mut self.0[place];
        *sum = (*sum).max(0);
    }

    /// A place that counts has so many pods more.
    pub(super) fn add(&mut self, place: usize, pods: u32) {
        let sum = &mut self.0[place];
        *sum = sum.saturating_add_unsigned(pods);
    }

    /// The sums.
    pub(super) fn finish(self) -> PlaceSums {
        let (mut domains, mut lowest, mut with_lowest, mut next) = (0_usize, i32::MAX, 0, i32::MAX);
        for &sum in self.0.iter().filter(|sum| **sum != NOT_COUNTED) {
            domains = domains.saturating_add(1);
            match sum.cmp(&lowest) {
                Ordering::Less => (next, lowest, with_lowest) = (lowest, sum, 1_usize),
                Ordering::Equal => with_lowest = with_lowest.saturating_add(1),
                Ordering::Greater => next = next.min(sum),
            }
        }
        PlaceSums {
            base: Arc::new(Base {
                sums: self.0,
                domains,
                lowest,
                with_lowest,
                next,
            }),
            changed: Vec::new(),
        }
    }
}

impl PlaceSums {
    /// How many places count.
    pub(super) fn domains(&self) -> usize {
        self.base.domains
    }

    /// What is said of the sum of each place, without what changed in a *what if*.
    pub(super) fn each(&self, says: impl Fn(i32) -> bool) -> Vec<bool> {
        let sums = self.base.sums.iter();
        sums.map(|sum| says((*sum).max(0))).collect()
    }

    /// The places that changed in a *what if*, with their sums.
    pub(super) fn changes(&self) -> impl Iterator<Item = (PlaceId, i32)> {
        self.changed.iter().copied()
    }

    /// How many pods a place has; none if it doesn't count.
    pub(super) fn of(&self, place: PlaceId) -> i32 {
        match self.changed.iter().find(|(changed, _)| *changed == place) {
            Some((_, sum)) => *sum,
            None => self.base.sums[place.index()].max(0),
        }
    }

    /// A place that counts has so many pods more, or less. It may have less than none: kube-scheduler takes off pods,
    /// too, that it hadn't counted since they are being deleted.
    pub(super) fn change(&mut self, place: PlaceId, pods: i32) {
        let before = self.base.sums[place.index()];
        let mut changed = self.changed.iter_mut();
        if let Some((_, sum)) = changed.find(|(known, _)| *known == place) {
            *sum = sum.saturating_add(pods);
        } else if before != NOT_COUNTED {
            self.changed.push((place, before.saturating_add(pods)));
        }
    }

    /// The fewest pods that a place has which counts; as many as there can be if none does.
    pub(super) fn lowest(&self) -> i32 {
        let base = &*self.base;
        match &*self.changed {
            [] => base.lowest,
            [(place, sum)] => {
                let was_lowest = base.sums[place.index()] == base.lowest;
                let others = if was_lowest && base.with_lowest == 1 {
                    base.next
                } else {
                    base.lowest
                };
                others.min(*sum)
            }
            changed => {
                let is_changed = |at: usize| changed.iter().any(|(place, _)| place.index() == at);
                let sums = base.sums.iter().enumerate();
                let others = sums.filter(|(at, sum)| **sum != NOT_COUNTED && !is_changed(*at));
                let others = others.map(|(_, sum)| *sum);
                let lowest = others.chain(changed.iter().map(|(_, sum)| *sum)).min();
                lowest.unwrap_or(i32::MAX)
            }
        }
    }
}
