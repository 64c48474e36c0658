//! Rule `SeedResourcesLeastAllocated`: mean over the candidate's resources of `100 · max(0, allocatable − used) /
//! allocatable`. What is without end is all free, and so is a candidate without resources.

use serde::Deserialize;

use super::{Gauge, Measure, Measured, Rule, Weight};
use crate::candidate::{Candidate, Resource};
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
    /// The rule `SeedResourcesLeastAllocated`.
    pub const fn least_allocated(weight: Weight) -> Self {
        Self::SeedResourcesLeastAllocated(Args { weight })
    }
}

impl Args {
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "all rules have one signature"
    )]
    pub(super) fn gauge<'a>(&'a self, _: Context<'a>) -> Result<Box<dyn Gauge + 'a>, InputError> {
        Ok(Box::new(Shares(Vec::new())))
    }
}

struct Shares(Vec<Measure>);

impl Gauge for Shares {
    fn read(&mut self, candidate: &Candidate) {
        self.0.push(Measure::Free(free(&candidate.resources)));
    }

    fn measured(self: Box<Self>) -> Measured {
        Measured::new(self.0, |measure| match measure {
            Measure::Free(free) => free,
            _ => Points::ZERO,
        })
    }
}

fn free(resources: &[Resource]) -> Points {
    let sum: u64 = resources
        .iter()
        .map(|resource| match resource.allocatable {
            None => Points::FULL,
            Some(allocatable) => {
                let free = i128::from(allocatable).saturating_sub(i128::from(resource.used));
                Points::share(free, allocatable.into())
            }
        })
        .map(Points::milli)
        .sum();
    let mean = sum.checked_div(resources.len() as u64);
    mean.map_or(Points::FULL, Points::from_milli)
}
