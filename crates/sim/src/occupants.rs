//! Pods of a target's own that have the room on its node, and may be evicted: what each of them is worth, and what it
//! costs to have all of them leave. Who evicts them, and when, is the real machines' affair.

use pilotage_api::preempts::Preempts;
use pilotage_candidate::plan::Monotonic;

use crate::rng::Rng;

/// So many are on a node at most.
const MOST: usize = 3;
/// Kinds of them: priority, and whether a budget would spare it. All are less important than what the source asks for.
const KINDS: [(i32, bool); 4] = [(0, false), (0, true), (5, false), (5, true)];

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Occupant {
    priority: i32,
    is_spared: bool,
    /// It was evicted, and hasn't gone yet.
    ends: bool,
}

impl Occupant {
    fn of(kind: usize) -> Self {
        let (priority, is_spared) = KINDS[kind % KINDS.len()];
        Self {
            priority,
            is_spared,
            ends: false,
        }
    }
}

/// Those on one node. It has no room before all of them have gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupants(Vec<Occupant>);

impl Occupants {
    /// Kinds of an occupant are below this.
    pub(crate) const KINDS: usize = KINDS.len();

    /// Some, drawn by a seed; with seed 0 one of the cheapest.
    pub(crate) fn draw(seed: u64) -> Self {
        if seed == 0 {
            return Self(vec![Occupant::of(0)]);
        }
        let mut rng = Rng::new(seed);
        let all = 0..=rng.below(MOST);
        Self(all.map(|_| Occupant::of(rng.below(KINDS.len()))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this one was evicted, and hasn't gone yet.
    pub(crate) fn ends(&self, number: usize) -> bool {
        self.0.get(number).is_some_and(|occupant| occupant.ends)
    }

    /// Whether somebody was evicted, and hasn't gone yet.
    pub(crate) fn is_anybody_ending(&self) -> bool {
        self.0.iter().any(|occupant| occupant.ends)
    }

    /// Whether somebody is there who wasn't evicted.
    pub(crate) fn is_anybody_staying(&self) -> bool {
        !self.0.iter().all(|occupant| occupant.ends)
    }

    /// Another one comes; `false` if there are enough.
    pub(crate) fn come(&mut self, kind: usize) -> bool {
        let comes = self.0.len() < MOST;
        if comes {
            self.0.push(Occupant::of(kind));
        }
        comes
    }

    /// One that was evicted goes; `false` if it wasn't.
    pub(crate) fn go(&mut self, number: usize) -> bool {
        let goes = self.ends(number);
        if goes {
            self.0.remove(number);
        }
        goes
    }

    /// All of them are evicted.
    pub(crate) fn evict(&mut self) {
        for occupant in &mut self.0 {
            occupant.ends = true;
        }
    }

    /// What it costs to have all of them leave, counted as kube-scheduler does; `None` if there is nobody.
    pub(crate) fn cost(&self) -> Option<Preempts> {
        let priorities = self.0.iter().map(|occupant| occupant.priority);
        let from_lowest = |priority: i32| i64::from(priority) - i64::from(i32::MIN);
        let spared = self.0.iter().filter(|occupant| occupant.is_spared);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(Preempts {
            budgets: count(spared.count()),
            highest: priorities.clone().max()?,
            sum: priorities.map(from_lowest).sum(),
            pods: count(self.0.len()),
            oldest: None,
            grace: Monotonic::from_secs(5),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn drawn_nodes_cost_differently() {
        let costs = (0..200).filter_map(|seed| Occupants::draw(seed).cost());
        let costs = costs.map(|cost| cost.to_string());
        assert!(costs.collect::<BTreeSet<_>>().len() > 10);
        assert_eq!(Occupants::draw(0).len(), 1);
        assert!(Occupants::default().cost().is_none());
    }

    #[test]
    fn who_was_evicted_goes_and_others_may_come() {
        let mut there = Occupants::draw(0);
        let cheap = there.cost().unwrap();
        assert!(!there.go(0), "it runs");
        there.evict();
        assert!(there.is_anybody_ending() && !there.is_anybody_staying());
        assert!(there.come(3) && there.is_anybody_staying());
        assert!(cheap.cost() < there.cost().unwrap().cost());
        assert!(there.go(0) && !there.go(0));
        assert_eq!((there.len(), there.is_anybody_ending()), (1, false));
        assert!(there.come(0) && there.come(0) && !there.come(0));
    }
}
