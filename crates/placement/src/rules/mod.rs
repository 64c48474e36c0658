//! The rules that give points, one file each. A new one is a file and its line in the list below; each file holds the
//! rule's arguments and its `score`.
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
use crate::points::Points;
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

            fn measure(
                &self,
                context: Context<'_>,
                candidates: &[&Candidate],
            ) -> Result<Vec<(Points, Measure)>, InputError> {
                match self {
                    $(Self::$rule(args) => args.score(context, candidates),)*
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

/// What a rule gives to all candidates.
pub(crate) struct Column {
    rule: &'static str,
    weight: u32,
    scores: Vec<(Points, Measure)>,
}

impl Column {
    /// What the candidate at this place gets.
    pub(crate) fn at(&self, place: usize) -> RuleScore {
        let (points, measure) = self.scores[place];
        RuleScore {
            rule: self.rule,
            weight: self.weight,
            points,
            measure,
        }
    }

    /// How much that counts.
    pub(crate) fn weighted(&self, place: usize) -> Points {
        self.scores[place].0.times(self.weight)
    }
}

/// What a rule gives each candidate, in their order.
pub(crate) fn score(
    rule: &Rule,
    context: Context<'_>,
    candidates: &[&Candidate],
) -> Result<Column, InputError> {
    Ok(Column {
        rule: rule.name(),
        weight: rule.weight().get(),
        scores: rule.measure(context, candidates)?,
    })
}
