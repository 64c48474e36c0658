//! Rule `MinimalDistance`: `100 · (max − d) / (max − min)` over those that are left.
//!
//! Distances by table and by name have different units. As soon as the table names one of the candidates, only it
//! counts, and candidates that it doesn't name get nothing.

use serde::Deserialize;

use super::{Measure, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::points::Points;
use crate::selection::InputError;
use crate::strategy::{Distance, Ruler};

/// Arguments of the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Args {
    pub(super) weight: Weight,
}

impl Rule {
    /// The rule `MinimalDistance`.
    pub const fn minimal_distance(weight: Weight) -> Self {
        Self::MinimalDistance(Args { weight })
    }
}

impl Args {
    #[allow(clippy::unused_self, reason = "all rules have one signature")]
    pub(super) fn score(
        &self,
        context: Context<'_>,
        candidates: &[&Candidate],
    ) -> Result<Vec<(Points, Measure)>, InputError> {
        let ruler = Ruler::new(context.request)?;
        let distances: Vec<_> = candidates
            .iter()
            .map(|candidate| ruler.measure(candidate))
            .collect();
        let by_table = |distance: &Distance| matches!(distance, Distance::Table(_));
        let any_by_table = distances.iter().flatten().any(by_table);
        let values: Vec<_> = distances
            .iter()
            .map(|distance| {
                let counts = distance.filter(|distance| !any_by_table || by_table(distance));
                counts.map(Distance::value)
            })
            .collect();
        let measures = distances
            .iter()
            .map(|distance| distance.map_or(Measure::Unknown, Measure::Distance));
        Ok(Points::less_is_better(&values)
            .into_iter()
            .zip(measures)
            .collect())
    }
}
