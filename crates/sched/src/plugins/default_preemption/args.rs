//! Owns how many nodes preemption tries before it chooses one, with kube-scheduler's defaults and limits.

use thiserror::Error;

/// What `DefaultPreemption` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionArgs {
    percentage: i32,
    absolute: i32,
}

/// Arguments that kube-scheduler refuses, in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PreemptionArgsError {
    /// No percentage.
    #[error("minCandidateNodesPercentage: Invalid value: {0}: not in valid range [0, 100]")]
    Percentage(i32),
    /// No number.
    #[error("minCandidateNodesAbsolute: Invalid value: {0}: not in valid range [0, inf)")]
    Absolute(i32),
    /// No node would be tried.
    #[error(
        "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute"
    )]
    BothZero,
}

impl Default for PreemptionArgs {
    fn default() -> Self {
        Self {
            percentage: 10,
            absolute: 100,
        }
    }
}

impl PreemptionArgs {
    /// `minCandidateNodesPercentage` and `minCandidateNodesAbsolute`: the larger of the two counts.
    pub const fn new(percentage: i32, absolute: i32) -> Result<Self, PreemptionArgsError> {
        match (percentage, absolute) {
            (..0 | 101.., _) => Err(PreemptionArgsError::Percentage(percentage)),
            (_, ..0) => Err(PreemptionArgsError::Absolute(absolute)),
            (0, 0) => Err(PreemptionArgsError::BothZero),
            _ => Ok(Self {
                percentage,
                absolute,
            }),
        }
    }

    /// How many candidates are enough, where so many nodes may become one.
    pub(super) fn candidates(self, nodes: usize) -> usize {
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let share = nodes.saturating_mul(count(self.percentage)) / 100;
        share.max(count(self.absolute)).min(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::{PreemptionArgs, PreemptionArgsError};

    #[test]
    fn the_larger_of_share_and_number_is_enough() {
        for (percentage, absolute, nodes, candidates) in [
            (10, 100, 50, 50),
            (10, 100, 700, 100),
            (10, 100, 3010, 301),
            (0, 7, 3000, 7),
            (100, 0, 30, 30),
            (1, 0, 99, 0),
        ] {
            let args = PreemptionArgs::new(percentage, absolute).unwrap();
            assert_eq!(args.candidates(nodes), candidates, "{args:?} of {nodes}");
        }
        assert_eq!(
            PreemptionArgs::default(),
            PreemptionArgs::new(10, 100).unwrap()
        );
    }

    #[test]
    fn what_kube_scheduler_refuses() {
        for (percentage, absolute, error) in [
            (-1, 5, PreemptionArgsError::Percentage(-1)),
            (101, 5, PreemptionArgsError::Percentage(101)),
            (5, -1, PreemptionArgsError::Absolute(-1)),
            (0, 0, PreemptionArgsError::BothZero),
        ] {
            assert_eq!(PreemptionArgs::new(percentage, absolute), Err(error));
        }
    }
}
