//! Owns which of several nodes costs least to make room on, as in kube-scheduler 1.36.3 (`pickOneNodeForPreemption`).

use std::cmp::Reverse;
use std::sync::Arc;

use crate::pod_info::PodInfo;
use crate::start_time::StartTime;

/// Priorities are counted from the lowest there is, so that more pods always cost more.
const LOWEST_PRIORITY: i64 = i32::MIN as i64;

/// What it costs to make room for a pod. What is less is better: the first difference decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreemptionCost {
    /// How many victims' ends break a `PodDisruptionBudget`.
    pub budget_violations: usize,
    /// The highest priority of a victim.
    pub highest_priority: i32,
    /// The sum of the victims' priorities, each above the lowest priority that there can be.
    pub priorities: i64,
    /// How many victims there are.
    pub victims: usize,
    /// When the oldest victim of the highest priority started: the later the better.
    pub oldest: Reverse<StartTime>,
}

impl PreemptionCost {
    /// Of these victims, in any order; `None` if there are none.
    pub fn of(victims: &[Arc<PodInfo>], budget_violations: usize) -> Option<Self> {
        let highest_priority = victims.iter().map(|victim| victim.priority).max()?;
        let above =
            |victim: &Arc<PodInfo>| i64::from(victim.priority).saturating_sub(LOWEST_PRIORITY);
        let dearest = victims
            .iter()
            .filter(|victim| victim.priority == highest_priority);
        let oldest = dearest.map(|victim| victim.started).min()?;
        Some(Self {
            budget_violations,
            highest_priority,
            priorities: victims.iter().map(above).fold(0, i64::saturating_add),
            victims: victims.len(),
            oldest: Reverse(oldest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::PreemptionCost;
    use crate::test_objects::{PodBuilder, pod};

    fn cost(victims: &[(i32, i64)], violations: usize) -> PreemptionCost {
        let one = |(priority, started): &(i32, i64)| -> PodBuilder {
            let victim = pod("victim").priority(*priority);
            if *started == 0 {
                victim
            } else {
                victim.started(*started)
            }
        };
        let victims: Vec<_> = victims.iter().map(|it| one(it).info()).collect();
        PreemptionCost::of(&victims, violations).unwrap()
    }

    #[test]
    fn the_first_difference_decides() {
        for (better, worse, why) in [
            (cost(&[(9, 1), (9, 1)], 0), cost(&[(1, 5)], 1), "budgets"),
            (
                cost(&[(3, 1), (3, 1)], 0),
                cost(&[(4, 5)], 0),
                "the highest priority",
            ),
            (
                cost(&[(4, 1), (2, 1)], 0),
                cost(&[(4, 5), (3, 5)], 0),
                "the sum",
            ),
            // The sum of negative priorities grows with each.
            (
                cost(&[(-5, 1)], 0),
                cost(&[(-5, 9), (-7, 9)], 0),
                "negative priorities",
            ),
            (
                cost(&[(4, 20), (1, 1)], 0),
                cost(&[(4, 10), (1, 9)], 0),
                "age of the dearest",
            ),
            (
                cost(&[(4, 20), (4, 9)], 0),
                cost(&[(4, 30), (4, 8)], 0),
                "the oldest of them",
            ),
            (cost(&[(4, 0)], 0), cost(&[(4, 30)], 0), "not started"),
        ] {
            assert!(better < worse, "{why}: {better:?} {worse:?}");
        }
        // Two of the lowest priority sum up to no more than one.
        let (one, two) = (
            cost(&[(i32::MIN, 1)], 0),
            cost(&[(i32::MIN, 1), (i32::MIN, 1)], 0),
        );
        assert_eq!(one.priorities, two.priorities);
        assert!(one < two, "fewer victims");
        assert_eq!(PreemptionCost::of(&[], 0), None);
    }
}
