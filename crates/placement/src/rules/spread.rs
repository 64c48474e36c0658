//! Rule `Spread`: `100 · (max − n) / (max − min)`, where n requests of the same application are placed in a candidate's
//! region, or at its provider, counted over those candidates that are left. Where nobody says which ones belong to an
//! application, all requests count.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{Gauge, Measure, Measured, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::request::Peers;
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
    pub(super) fn gauge<'a>(
        &'a self,
        context: Context<'a>,
    ) -> Result<Box<dyn Gauge + 'a>, InputError> {
        Ok(Box::new(Domains {
            over: self.over,
            peers: context.request.peers.as_deref(),
            numbers: HashMap::default(),
            sums: Vec::new(),
            candidates: Vec::new(),
        }))
    }
}

struct Domains<'a> {
    over: Over,
    peers: Option<&'a Peers>,
    /// Domains by name, as they came. Whoever owns a place chooses these names: nobody may make their hashes collide.
    numbers: HashMap<Arc<str>, usize>,
    /// Requests in each.
    sums: Vec<u64>,
    /// The domain of each candidate.
    candidates: Vec<usize>,
}

impl Gauge for Domains<'_> {
    fn read(&mut self, candidate: &Candidate) {
        let own = match self.peers {
            Some(peers) => peers.get(&candidate.name).copied().unwrap_or(0),
            None => candidate.used,
        };
        let name = match self.over {
            Over::Region => candidate.region.name(),
            Over::Provider => &candidate.provider,
        };
        let number = if let Some(number) = self.numbers.get(name) {
            *number
        } else {
            let number = self.sums.len();
            self.numbers.insert(name.into(), number);
            self.sums.push(0);
            number
        };
        self.sums[number] = self.sums[number].saturating_add(own);
        self.candidates.push(number);
    }

    fn measured(self: Box<Self>) -> Measured {
        let measure = match self.peers {
            Some(_) => Measure::Peers,
            None => Measure::Count,
        };
        let counts = self.candidates.iter().map(|number| self.sums[*number]);
        Measured::less_is_better(counts.map(measure).collect(), Measure::count)
    }
}
