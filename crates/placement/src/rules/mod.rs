//! The rules that give points, one file each. A new one is a file and its line in the list below; each file holds the
//! rule's arguments and its `gauge`.
//!
//! They are the scoring step that Gardener's proposal GEP-13 announces and leaves open.

mod cost;
mod least_allocated;
mod least_used;
mod minimal_distance;
mod spread;

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer};

pub use self::cost::Cost;
pub use self::spread::Over;
use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::points::{LessIsBetter, Points};
use crate::selection::{InputError, RuleScore};
use crate::strategy::Distance;

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident => $module:ident,)*) => {
        /// A rule that gives each candidate 0 to 100 points, with its weight and arguments.
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $rule($module::Args),)*
        }

        impl Rule {
            /// Names of all rules.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($rule),)*];

            /// Its name in configuration files.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$rule(_) => stringify!($rule),)*
                }
            }

            /// How much it counts.
            pub const fn weight(&self) -> Weight {
                match self {
                    $(Self::$rule(args) => args.weight,)*
                }
            }

            /// Whether both measure the same, whatever they weigh.
            pub(crate) fn same_as(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$rule(own), Self::$rule(other)) => {
                        let mut other = other.clone();
                        other.weight = own.weight;
                        *own == other
                    })*
                    _ => false,
                }
            }

            /// What it measures for a request, once it gets candidates. Fails if that can't be told.
            pub(crate) fn gauge<'a>(
                &'a self,
                context: Context<'a>,
            ) -> Result<Box<dyn Gauge + 'a>, InputError> {
                match self {
                    $(Self::$rule(args) => args.gauge(context),)*
                }
            }
        }
    };
}

rules! {
    /// The nearer the better, by table or by name, as the strategy of this name measures.
    MinimalDistance => minimal_distance,
    /// The larger the free share of its resources the better.
    SeedResourcesLeastAllocated => least_allocated,
    /// The less is placed there the better, whatever its size.
    LeastUsed => least_used,
    /// The less of the same application is placed in its region, or at its provider, the better.
    Spread => spread,
    /// The cheaper the better, by a label or an annotation.
    Cost => cost,
}

/// What a rule has measured at a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// Nothing could be measured; that gives no points.
    Unknown,
    /// How far it is.
    Distance(Distance),
    /// How many requests.
    Count(u64),
    /// How many requests of the same application.
    Peers(u64),
    /// How much is free, as points: 100 is all of it.
    Free(Points),
    /// An amount, in millionths of its author's unit.
    Amount(i64),
}

impl Measure {
    /// A number of requests.
    fn count(self) -> Option<i64> {
        match self {
            Self::Count(count) | Self::Peers(count) => {
                Some(i64::try_from(count).unwrap_or(i64::MAX))
            }
            _ => None,
        }
    }
}

impl Rule {
    /// Where it finds a candidate's cost, if it weighs costs.
    pub const fn cost_from(&self) -> Option<&Cost> {
        match self {
            Self::Cost(args) => Some(args.from()),
            _ => None,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Distance(distance) => distance.fmt(f),
            Self::Count(count) => write!(f, "{count} used"),
            Self::Peers(count) => write!(f, "{count} of its own"),
            Self::Free(points) => write!(f, "{points}% free"),
            Self::Amount(micro) => {
                let (whole, rest) = (micro / cost::MICRO, micro % cost::MICRO);
                let rest = format!(".{rest:06}");
                let rest = rest.trim_end_matches('0').trim_end_matches('.');
                write!(f, "{whole}{rest}")
            }
        }
    }
}

/// How much a rule counts: 0 to 1,000,000; 1 if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The largest one. Sums of scores stay far from overflow with it.
    pub const MAX: u32 = 1_000_000;

    /// A weight, unless it is too large.
    pub fn new(weight: u32) -> Option<Self> {
        (weight <= Self::MAX).then_some(Self(weight))
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        u32::try_from(number)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| {
                let max = Self::MAX;
                de::Error::custom(format!("weight must be 0 to {max}, and is {number}"))
            })
    }
}

/// A rule at work: it reads each candidate once, while that is at hand, and afterwards knows what each one is worth.
pub(crate) trait Gauge {
    /// Reads the next candidate.
    fn read(&mut self, candidate: &Candidate);

    /// What was measured, in the order in which candidates were read.
    fn measured(self: Box<Self>) -> Measured;
}

/// How many points a measurement is worth among those of the same selection.
type Worth = dyn Fn(Measure) -> Points + Send + Sync;

/// What a rule has measured, and what that is worth.
pub(crate) struct Measured {
    measures: Vec<Measure>,
    worth: Box<Worth>,
}

impl Measured {
    /// Each measurement has its own worth.
    fn new(
        measures: Vec<Measure>,
        worth: impl Fn(Measure) -> Points + Send + Sync + 'static,
    ) -> Self {
        let worth = Box::new(worth);
        Self { measures, worth }
    }

    /// Points by [`LessIsBetter`] among them all.
    fn less_is_better(
        measures: Vec<Measure>,
        value: impl Fn(Measure) -> Option<i64> + Send + Sync + 'static,
    ) -> Self {
        let scale = LessIsBetter::among(measures.iter().map(|measure| value(*measure)));
        Self::new(measures, move |measure| scale.points(value(measure)))
    }
}

/// What a rule gives to all candidates.
pub(crate) struct Column {
    rule: &'static str,
    weight: u32,
    measured: Measured,
}

impl Column {
    /// What a rule has measured.
    pub(crate) fn new(rule: &Rule, measured: Measured) -> Self {
        Self {
            rule: rule.name(),
            weight: rule.weight().get(),
            measured,
        }
    }

    /// What the candidate at this place gets.
    pub(crate) fn at(&self, place: usize) -> RuleScore {
        let Measured { measures, worth } = &self.measured;
        let measure = measures[place];
        RuleScore {
            rule: self.rule,
            weight: self.weight,
            points: worth(measure),
            measure,
        }
    }

    /// How much each one's points count, in their order.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = Points> {
        let Measured { measures, worth } = &self.measured;
        let points = measures.iter().map(|measure| worth(*measure));
        points.map(|points| points.times(self.weight))
    }
}
