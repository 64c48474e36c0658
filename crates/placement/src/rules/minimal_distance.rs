//! Rule `MinimalDistance`: `100 · (max − d) / (max − min)` over those that are left.
//!
//! Distances by table and by name have different units. As soon as the table names one of the candidates, only it
//! counts, and candidates that it doesn't name get nothing.

use serde::Deserialize;

use super::{Gauge, Measure, Measured, Rule, Weight};
use crate::candidate::Candidate;
use crate::pipeline::Context;
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
    pub(super) fn gauge<'a>(
        &'a self,
        context: Context<'a>,
    ) -> Result<Box<dyn Gauge + 'a>, InputError> {
        Ok(Box::new(Distances {
            ruler: Ruler::new(context.request)?,
            measures: Vec::new(),
            by_table: false,
        }))
    }
}

struct Distances<'a> {
    ruler: Ruler<'a>,
    measures: Vec<Measure>,
    /// The table names one of them.
    by_table: bool,
}

impl Gauge for Distances<'_> {
    fn read(&mut self, candidate: &Candidate) {
        let distance = self.ruler.measure(candidate);
        self.by_table |= matches!(distance, Some(Distance::Table(_)));
        self.measures
            .push(distance.map_or(Measure::Unknown, Measure::Distance));
    }

    fn measured(self: Box<Self>) -> Measured {
        let by_table = self.by_table;
        Measured::less_is_better(self.measures, move |measure| match measure {
            Measure::Distance(Distance::Name(_)) if by_table => None,
            Measure::Distance(distance) => Some(distance.value()),
            _ => None,
        })
    }
}
