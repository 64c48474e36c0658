//! Rule `Spread`: `100 · (max − n) / (max − min)`, where n requests are placed in a candidate's region, or at its
//! provider, counted over those candidates that are left.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Measure, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::points::Points;
use crate::selection::InputError;

/// Arguments of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[serde(default)]
    pub(super) weight: Weight,
    over: Over,
}

/// What requests are spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Over {
    /// Regions, whoever's they are.
    Region,
    /// Providers.
    Provider,
}

impl Rule {
    /// The rule `Spread`.
    pub const fn spread(weight: Weight, over: Over) -> Self {
        Self::Spread(Args { weight, over })
    }
}

impl Args {
    #[allow(clippy::unnecessary_wraps, reason = "all rules have one signature")]
    pub(super) fn score(
        &self,
        _: Context<'_>,
        candidates: &[&Candidate],
    ) -> Result<Vec<(Points, Measure)>, InputError> {
        let mut sums: HashMap<&str, u64> = HashMap::new();
        for candidate in candidates {
            let sum = sums.entry(self.domain(candidate)).or_default();
            *sum = sum.saturating_add(candidate.used);
        }
        let counts: Vec<_> = candidates
            .iter()
            .map(|candidate| sums.get(self.domain(candidate)).copied().unwrap_or(0))
            .collect();
        let values: Vec<_> = counts
            .iter()
            .map(|count| Some(i64::try_from(*count).unwrap_or(i64::MAX)))
            .collect();
        let measures = counts.into_iter().map(Measure::Count);
        Ok(Points::less_is_better(&values)
            .into_iter()
            .zip(measures)
            .collect())
    }

    fn domain<'a>(&self, candidate: &'a Candidate) -> &'a str {
        match self.over {
            Over::Region => candidate.region.name(),
            Over::Provider => &candidate.provider,
        }
    }
}
