//! Owns what is kept of an object that was seen: a Shoot's place, and the whole of it only as long as it has none.

use std::sync::Arc;

use pilotage_placement::Candidate;
use serde_json::Value;

use crate::eligible::{DEFAULT_SCHEDULER, eligible};
use crate::fields::{Field, FieldError};
use crate::kinds::{CloudProfile, Shoot};

/// A Shoot as it was seen.
#[derive(Clone, Debug)]
pub struct SeenShoot {
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// Seed that it is to be at.
    pub seed: Option<String>,
    /// Seed that it is at.
    pub status_seed: Option<String>,
    /// The whole of it if it has no Seed.
    pub unassigned: Option<Arc<Unassigned>>,
}

/// A Shoot without a Seed: what is read of it, and all that it says, for it is written back with a Seed and no field
/// may be lost.
///
/// The latter is kept as text: as a tree it would take ten times as much memory, and thousands may wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Unassigned {
    /// What is read of it.
    pub(super) shoot: Result<Shoot, FieldError>,
    /// Scheduler that it names, and whether it is being deleted; known also of many that can't be read as a whole.
    addressed: Option<(String, bool)>,
    /// Description of its last operation, if that is a creation that hasn't begun.
    pending: Option<String>,
    /// Its `spec`.
    spec: Box<str>,
    /// The rest of it, but for `managedFields`: whoever leaves them out leaves them to the API server.
    rest: Box<str>,
}

impl SeenShoot {
    /// Keeps of a Shoot what is needed.
    pub fn read(value: Value) -> Result<Self, FieldError> {
        let root = Field::root(&value);
        let text = |field: Field<'_>| -> Result<Option<String>, FieldError> {
            Ok(field.non_empty()?.map(ToOwned::to_owned))
        };
        let metadata = root.get("metadata")?;
        let (uid, version) = (metadata.get("uid")?, metadata.get("resourceVersion")?);
        let (uid, version) = (text(uid)?, text(version)?);
        let seed = text(root.at(&["spec", "seedName"])?)?;
        let status_seed = text(root.at(&["status", "seedName"])?)?;
        Ok(Self {
            uid: uid.unwrap_or_default(),
            version: version.unwrap_or_default(),
            unassigned: seed.is_none().then(|| Arc::new(Unassigned::read(value))),
            seed,
            status_seed,
        })
    }
}

impl Unassigned {
    fn read(mut value: Value) -> Self {
        let shoot = Shoot::read(&value);
        let addressed = addressed(&value).ok();
        let pending = pending(&value).map(ToOwned::to_owned);
        let mut spec = Value::Null;
        if let Some(object) = value.as_object_mut() {
            spec = object.remove("spec").unwrap_or_default();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
        Self {
            shoot,
            addressed,
            pending,
            spec: spec.to_string().into(),
            rest: value.to_string().into(),
        }
    }

    /// Whether the scheduler of this name has to place it. One that can't be read as a whole is its own as well, if it
    /// says so: somebody has to tell its author.
    pub(super) fn is_for(&self, scheduler: &str) -> bool {
        match (&self.shoot, &self.addressed) {
            (Ok(shoot), _) => eligible(shoot, Some(scheduler)).is_ok(),
            (Err(_), Some((wanted, deleting))) => wanted == scheduler && !deleting,
            (Err(_), None) => false,
        }
    }

    /// Whether its last operation says that it waits, and why.
    pub(super) fn says(&self, description: &str) -> bool {
        self.pending.as_deref() == Some(description)
    }

    /// Whether its author asks for the same.
    pub(super) fn same_spec(&self, other: &Self) -> bool {
        self.spec == other.spec
    }

    /// The object with this Seed.
    pub fn with_seed(&self, seed: &str) -> Result<Value, serde_json::Error> {
        let mut object: Value = serde_json::from_str(&self.rest)?;
        let mut spec: Value = serde_json::from_str(&self.spec)?;
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("seedName".to_owned(), seed.into());
        }
        if let Some(object) = object.as_object_mut() {
            object.insert("spec".to_owned(), spec);
        }
        Ok(object)
    }
}

/// The scheduler that a Shoot names, and whether it is being deleted.
fn addressed(object: &Value) -> Result<(String, bool), FieldError> {
    let root = Field::root(object);
    let wanted = root.at(&["spec", "schedulerName"])?.non_empty()?;
    let deleting = root.at(&["metadata", "deletionTimestamp"])?.is_present();
    Ok((wanted.unwrap_or(DEFAULT_SCHEDULER).to_owned(), deleting))
}

fn pending(object: &Value) -> Option<&str> {
    let operation = object.pointer("/status/lastOperation")?;
    let field = |name: &str| operation.get(name).and_then(Value::as_str);
    let waits = field("type") == Some("Create") && field("state") == Some("Pending");
    field("description").filter(|_| waits)
}

/// A Seed, parsed once; one that can't be read takes no Shoots.
pub type Place = Result<Candidate, FieldError>;

/// A profile of either kind, parsed once; one that can't be read fails the Shoots that name it.
pub type Profile = Result<CloudProfile, FieldError>;
