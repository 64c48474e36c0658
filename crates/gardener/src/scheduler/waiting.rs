//! Owns what is known of one Shoot that is to be placed: what it says, what came of the last attempt, and where it may
//! be by now.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilotage_placement::Request;

use super::decision::Report;
use super::note::operation;
use super::seen::{SeenShoot, Unassigned};

/// A Shoot that is to be placed.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) object: Arc<Unassigned>,
    /// What the last attempt asked for, if it came to a selection.
    pub(super) asked: Option<Arc<Request>>,
    /// How the last attempt ended.
    pub(super) last: Last,
    /// It met a newer version, which isn't shown here yet.
    pub(super) outdated: bool,
    /// Seeds where it is assumed to be. There is more than one only while the outcome of bindings isn't known.
    pub(super) holds: Vec<Hold>,
    /// Seeds that have refused what it asks for, as both are now.
    pub(super) refused: BTreeSet<Arc<str>>,
}

/// How the last attempt of a Shoot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It hasn't ended, or there was none.
    Open {
        /// Something has changed meanwhile that could have helped.
        missed: bool,
    },
    /// It came to nothing.
    Failed,
    /// The Seed that was chosen wouldn't have it: room there is no news for it.
    Refused,
}

/// A binding that may land, or has landed, and that the cache doesn't show yet.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) seed: Arc<str>,
    /// The version that it is good for.
    pub(super) version: String,
    /// The version that came of it.
    pub(super) landed: Option<u64>,
    /// A request had no answer: what a later one is told says nothing of that one.
    pub(super) unclear: bool,
}

impl Waiting {
    /// A Shoot as one that waits, if the scheduler of this name has to place it.
    pub(super) fn of(seen: &SeenShoot, scheduler: &str) -> Option<Self> {
        let object = seen.unassigned.clone()?;
        object.is_for(scheduler).then(|| Self {
            uid: seen.uid.clone(),
            version: seen.version.clone(),
            object,
            asked: None,
            last: Last::Open { missed: false },
            outdated: false,
            holds: Vec::new(),
            refused: BTreeSet::new(),
        })
    }

    pub(super) fn report(&self, message: &str, note: String) -> Report {
        let operation = operation(message);
        Report {
            uid: self.uid.clone(),
            version: self.version.clone(),
            told: self.object.says(&operation),
            operation,
            note,
        }
    }
}

/// A version as a number; 0 if it is none.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}
