//! Owns distances between a request and candidates, as the strategy `MinimalDistance` of Gardener's scheduler and the
//! rule of the same name measure them. What becomes of them is decided by the step and the rule.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::candidate::Candidate;
use crate::region::Region;
use crate::region_table::Row;
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
    /// A number that is less for what is nearer.
    pub(crate) const fn as_key(self) -> u64 {
        match self {
            // Counted from the nearest that a table could say.
            Self::Table(distance) => distance.abs_diff(i64::MIN),
            Self::Name(distance) => (u64::MAX - FARTHEST_BY_NAME).saturating_add(distance),
        }
    }

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

/// Measures how far a candidate is: by the table where it names the candidate's region, by name otherwise; nothing if
/// it is too far to be chosen ever. A request that is everywhere is near to all.
pub(crate) struct Ruler<'a> {
    request: &'a Request,
    /// The request's region, and the row of the table for it.
    own: Option<(&'a Region, Option<&'a Row>)>,
    /// Without what a foreign provider adds. Many candidates share few regions. Whoever owns a place chooses its name,
    /// so the hash must be one that nobody can make collide.
    known: RefCell<HashMap<Arc<str>, Distance>>,
}

impl<'a> Ruler<'a> {
    pub(crate) fn new(request: &'a Request) -> Result<Self, InputError> {
        let own = match &request.region {
            None => None,
            Some(own) => Some((own, row(request, own)?)),
        };
        Ok(Self {
            request,
            own,
            known: RefCell::default(),
        })
    }

    pub(crate) fn measure(&self, candidate: &Candidate) -> Option<Distance> {
        match self.to(&candidate.region) {
            Distance::Table(distance) => Some(Distance::Table(distance)),
            Distance::Name(distance) => {
                let distance = distance.saturating_add(foreign(self.request, candidate));
                (distance <= FARTHEST_BY_NAME).then_some(Distance::Name(distance))
            }
        }
    }

    fn to(&self, region: &Region) -> Distance {
        let Some((own, row)) = self.own else {
            return Distance::Name(0);
        };
        let mut known = self.known.borrow_mut();
        if let Some(distance) = known.get(region.name()) {
            return *distance;
        }
        let listed = row.and_then(|row| row.distance(own.name(), region.name()));
        let distance = match listed.filter(|distance| *distance <= FARTHEST_IN_TABLE) {
            Some(distance) => Distance::Table(distance),
            None => Distance::Name(region.distance(own)),
        };
        known.insert(region.shared_name(), distance);
        distance
    }
}

fn row<'a>(request: &'a Request, own: &Region) -> Result<Option<&'a Row>, InputError> {
    let Some(table) = request.distances.as_deref() else {
        return Ok(None);
    };
    table
        .row(own.name())
        .transpose()
        .map_err(|error| InputError::Row {
            table: table.name().to_owned(),
            region: own.name().to_owned(),
            error: error.clone(),
        })
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
