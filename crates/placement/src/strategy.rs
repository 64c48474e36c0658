//! Owns distances between a request and candidates, as the strategy `MinimalDistance` of Gardener's scheduler and the
//! rule of the same name measure them. What becomes of them is decided by the step and the rule.

use std::collections::HashMap;
use std::fmt;

use crate::candidate::Candidate;
use crate::pipeline::Context;
use crate::region::Region;
use crate::request::Request;
use crate::selection::InputError;

/// Distances in a table above this one never win.
const FARTHEST_IN_TABLE: i64 = i32::MAX as i64;
/// Distances by name above this one never win.
const FARTHEST_BY_NAME: u64 = 1000;
/// What a foreign provider adds to a distance by name.
const FOREIGN_PROVIDER: u64 = 2;

/// How far a candidate is. What a table says is nearer than any distance by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Distance {
    /// By the table of regions, in its own unit.
    Table(i64),
    /// By the names of the regions, plus 2 for a foreign provider.
    Name(u64),
}

impl Distance {
    /// The number alone.
    pub const fn value(self) -> i64 {
        match self {
            Self::Table(distance) => distance,
            // At most FARTHEST_BY_NAME.
            Self::Name(distance) => distance as i64,
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(distance) => write!(f, "{distance} by table"),
            Self::Name(distance) => write!(f, "{distance} by name"),
        }
    }
}

/// How far each candidate is: by the table where it names the candidate's region, by name otherwise; nothing if it is
/// too far to be chosen ever. A request that is everywhere is near to all.
pub(crate) fn distances<'a>(
    context: Context<'_>,
    candidates: impl Iterator<Item = &'a Candidate>,
) -> Result<Vec<Option<Distance>>, InputError> {
    let request = context.request;
    let Some(own) = &request.region else {
        return Ok(candidates.map(|_| Some(Distance::Name(0))).collect());
    };
    let row = match request
        .distances
        .as_deref()
        .and_then(|table| Some((table, table.row(own.name())?)))
    {
        None => None,
        Some((_, Ok(row))) => Some(row),
        Some((table, Err(error))) => {
            return Err(InputError::Row {
                table: table.name().to_owned(),
                region: own.name().to_owned(),
                error: error.clone(),
            });
        }
    };
    // Many candidates share few regions.
    let mut by_name: HashMap<&str, u64> = HashMap::new();
    Ok(candidates
        .map(|candidate| {
            let region = &candidate.region;
            let listed = row.and_then(|row| row.distance(own.name(), region.name()));
            if let Some(distance) = listed.filter(|distance| *distance <= FARTHEST_IN_TABLE) {
                return Some(Distance::Table(distance));
            }
            let spelling = *by_name
                .entry(region.name())
                .or_insert_with(|| region.distance(own));
            let distance = spelling + foreign(request, candidate);
            (distance <= FARTHEST_BY_NAME).then_some(Distance::Name(distance))
        })
        .collect())
}

fn foreign(request: &Request, candidate: &Candidate) -> u64 {
    match &request.provider {
        Some(provider) if *provider != candidate.provider => FOREIGN_PROVIDER,
        _ => 0,
    }
}

/// Whether a candidate belongs to the request's own provider.
pub(crate) fn same_provider(request: &Request, candidate: &Candidate) -> bool {
    foreign(request, candidate) == 0
}

/// Whether a candidate is in the request's own region.
pub(crate) fn same_region(own: Option<&Region>, candidate: &Candidate) -> bool {
    own.is_none_or(|own| own.name() == candidate.region.name())
}
