//! Owns what is kept of an object that was seen: a Shoot's place, and the whole of it only as long as it has none.

use std::sync::Arc;

use pilotage_placement::Candidate;
use serde_json::Value;

use crate::fields::{Field, FieldError};
use crate::kinds::{CloudProfile, ProfileKind};

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
    /// The whole object if it has no Seed: it is written back with one, and no field may be lost.
    pub unassigned: Option<Arc<Value>>,
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
            unassigned: seed.is_none().then(|| Arc::new(value)),
            seed,
            status_seed,
        })
    }
}

/// A Seed, parsed once; one that can't be read takes no Shoots.
pub type Place = Result<Candidate, FieldError>;

/// A profile of either kind, parsed once; one that can't be read fails the Shoots that name it.
pub type Profile = Result<CloudProfile, FieldError>;

/// Where a profile is looked for: kind, namespace (empty for the cluster-wide kind), name.
pub(super) type ProfileId = (ProfileKind, String, String);
