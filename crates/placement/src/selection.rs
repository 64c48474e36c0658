//! Owns the outcome of a selection: who wins, in which order the others follow, and why the rest fell out.

use std::fmt;
use std::sync::Arc;

use crate::points::Points;
use crate::region_table::RowError;
use crate::rules::{Column, Measure};
use crate::selector::SelectorError;
use crate::steps::{Reason, Step};
use crate::strategy::Distance;

/// The outcome of a selection: each candidate is in `ranking` or in `rejected`, once. After an [`InputError`] both
/// may be incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Those that can have the request, best first: the order in which a selection would take them if each earlier
    /// one turned it down.
    pub ranking: Vec<Ranked>,
    /// Those that can't, in the order of the steps, then of the candidates.
    pub rejected: Vec<Rejection>,
    /// Why nobody can.
    pub failure: Option<Failure>,
}

impl Selection {
    /// Who gets the request.
    pub fn winner(&self) -> Option<&Ranked> {
        self.ranking.first()
    }

    /// How many candidates a step has got, if it was reached.
    pub fn received_by(&self, step: Step) -> usize {
        let later = self.rejected.iter().filter(|one| one.step() >= step);
        self.ranking.len().saturating_add(later.count())
    }
}

/// One that can have the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its place in the list of candidates.
    pub index: usize,
    /// Its name.
    pub name: Arc<str>,
    /// How far it is, if that decides.
    pub distance: Option<Distance>,
    /// What each weighted rule gave it; empty under a strategy.
    pub scores: Scores,
    /// Weighted sum of the scores.
    pub total: Points,
    /// How many requests are placed there.
    pub used: u64,
}

impl Ranked {
    /// What it has less than a better one.
    pub fn loss_to(&self, better: &Self) -> Loss {
        if let (Some(own), Some(nearer)) = (self.distance, better.distance)
            && own != nearer
        {
            return Loss::Farther { own, nearer };
        }
        if self.total != better.total {
            return Loss::LowerScore {
                own: self.total,
                higher: better.total,
            };
        }
        if self.used != better.used {
            return Loss::MoreUsed {
                own: self.used,
                less: better.used,
            };
        }
        Loss::Name
    }
}

/// What each rule gave one candidate. All candidates of a selection share one table, and scores are made of it when
/// somebody looks.
#[derive(Clone, Default)]
pub struct Scores {
    /// Nothing under a strategy.
    columns: Option<Arc<[Column]>>,
    place: usize,
}

impl Scores {
    /// What stands in these columns at this place.
    pub(crate) const fn new(columns: Option<Arc<[Column]>>, place: usize) -> Self {
        Self { columns, place }
    }

    /// In the order of the rules.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RuleScore> {
        let columns = self.columns.as_deref().unwrap_or_default();
        columns.iter().map(|column| column.at(self.place))
    }
}

impl PartialEq for Scores {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Scores {}

impl fmt::Debug for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What one rule gave one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleScore {
    /// Name of the rule.
    pub rule: &'static str,
    /// How much it counts.
    pub weight: u32,
    /// 0 to 100.
    pub points: Points,
    /// What was measured.
    pub measure: Measure,
}

/// Why one that could have the request doesn't get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// It is farther.
    Farther {
        /// Its own distance.
        own: Distance,
        /// That of the better one.
        nearer: Distance,
    },
    /// It has fewer points.
    LowerScore {
        /// Its own sum.
        own: Points,
        /// That of the better one.
        higher: Points,
    },
    /// More is placed there.
    MoreUsed {
        /// Its own count.
        own: u64,
        /// That of the better one.
        less: u64,
    },
    /// Equal in all; the lower name wins.
    Name,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Farther { own, nearer } => write!(f, "farther: {own} against {nearer}"),
            Self::LowerScore { own, higher } => write!(f, "scored {own} against {higher}"),
            Self::MoreUsed { own, less } => write!(f, "more used: {own} against {less}"),
            Self::Name => f.write_str("equal, but later by name"),
        }
    }
}

/// One that fell out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the list of candidates.
    pub index: usize,
    /// Its name.
    pub name: Arc<str>,
    /// Why.
    pub reason: Reason,
}

impl Rejection {
    /// The step that rejected it.
    pub const fn step(&self) -> Step {
        self.reason.step()
    }
}

/// Why nobody can have a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A step has left nobody.
    #[error("no candidate passed the step {step} ({received} came so far)")]
    Empty {
        /// The step.
        step: Step,
        /// How many candidates it had got.
        received: usize,
    },
    /// Something that the selection needs can't be read.
    #[error("{0}")]
    Input(#[from] InputError),
}

/// Something that a selection needs can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A selector.
    #[error("the selector of step {step} can't be read: {error}")]
    Selector {
        /// The step that needs it.
        step: Step,
        /// What is wrong.
        error: SelectorError,
    },
    /// A row of the table of regions.
    #[error("the distances of region {region:?} in {table} can't be read: {error}")]
    Row {
        /// Name of the table.
        table: String,
        /// The region whose row it is.
        region: String,
        /// What is wrong.
        error: RowError,
    },
}
