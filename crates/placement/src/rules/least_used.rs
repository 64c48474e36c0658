//! Rule `LeastUsed`: `100 · (max − n) / (max − min)`, where n requests are placed at a candidate.

use serde::Deserialize;

use super::{Gauge, Measure, Measured, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
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
    pub(super) fn gauge<'a>(&'a self, _: Context<'a>) -> Result<Box<dyn Gauge + 'a>, InputError> {
        Ok(Box::new(Counts(Vec::new())))
    }
}

struct Counts(Vec<Measure>);

impl Gauge for Counts {
    fn read(&mut self, candidate: &Candidate) {
        self.0.push(Measure::Count(candidate.used));
    }

    fn measured(self: Box<Self>) -> Measured {
        Measured::less_is_better(self.0, Measure::count)
    }
}
