//! Rule `Spread`: `100 · (max − n) / (max − min)`, where n requests of the same application are placed in a candidate's
//! region, or at its provider, counted over those candidates that are left. Where nobody says which ones belong to an
//! application, all requests count.

use serde::Deserialize;

use super::{Measure, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::points::Points;
use crate::quick::QuickMap;
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
        context: Context<'_>,
        candidates: &[&Candidate],
    ) -> Result<Vec<(Points, Measure)>, InputError> {
        let peers = context.request.peers.as_deref();
        let mut sums: QuickMap<&str, u64> = QuickMap::default();
        for candidate in candidates {
            let sum = sums.entry(self.domain(candidate)).or_default();
            let own = match peers {
                Some(peers) => peers.get(&candidate.name).copied().unwrap_or(0),
                None => candidate.used,
            };
            *sum = sum.saturating_add(own);
        }
        let counts: Vec<_> = candidates
            .iter()
            .map(|candidate| sums.get(self.domain(candidate)).copied().unwrap_or(0))
            .collect();
        let values: Vec<_> = counts
            .iter()
            .map(|count| Some(i64::try_from(*count).unwrap_or(i64::MAX)))
            .collect();
        let measure = match peers {
            Some(_) => Measure::Peers,
            None => Measure::Count,
        };
        let measures = counts.into_iter().map(measure);
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
