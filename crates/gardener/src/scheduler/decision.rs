//! Owns what a scheduler may do about one Shoot, and how an attempt to do it can end.

use std::sync::Arc;

use serde_json::Value;

use super::seen::Unassigned;

/// What to do about a Shoot now.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: it has a Seed, is for another scheduler, is being deleted, or is gone.
    Nothing,
    /// Give it this Seed. It counts there already.
    Bind(Bind),
    /// Tell why it gets none.
    Report(Report),
}

/// A binding that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The Seed.
    pub seed: Arc<str>,
    /// The Shoot's UID.
    pub uid: String,
    /// The version that was judged; the binding is good for no other.
    pub version: String,
    /// The Shoot as it was read.
    pub object: Arc<Unassigned>,
}

impl Bind {
    /// The object to write: the one that was read, with its Seed.
    pub fn body(&self) -> Result<Value, serde_json::Error> {
        self.object.with_seed(&self.seed)
    }
}

/// How a binding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBound {
    /// The Shoot has changed meanwhile.
    Conflict,
    /// The API server refused it: it isn't written.
    Refused,
    /// Nobody knows whether it is written.
    Open,
}

/// Why a Shoot gets no Seed, as its users are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The Shoot's UID.
    pub uid: String,
    /// The version that was judged.
    pub version: String,
    /// Description of its last operation.
    pub operation: String,
    /// Note of the event: the same, and the reasons of all steps, at most 1,024 bytes.
    pub note: String,
    /// The last operation says so already.
    pub told: bool,
}
