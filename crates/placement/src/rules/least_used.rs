//! Rule `LeastUsed`: `100 · (max − n) / (max − min)`, where n requests are placed at a candidate.

use serde::Deserialize;

use super::{Measure, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::points::Points;
use crate::selection::InputError;

/// Arguments of the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Args {
    pub(super) weight: Weight,
}

impl Rule {
    /// The rule `LeastUsed`.
    pub const fn least_used(weight: Weight) -> Self {
        Self::LeastUsed(Args { weight })
    }
}

impl Args {
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "all rules have one signature"
    )]
    pub(super) fn score(
        &self,
        _: Context<'_>,
        candidates: &[&Candidate],
    ) -> Result<Vec<(Points, Measure)>, InputError> {
        let counts = || candidates.iter().map(|candidate| candidate.used);
        let values: Vec<_> = counts()
            .map(|used| Some(i64::try_from(used).unwrap_or(i64::MAX)))
            .collect();
        let measures = counts().map(Measure::Count);
        Ok(Points::less_is_better(&values)
            .into_iter()
            .zip(measures)
            .collect())
    }
}
