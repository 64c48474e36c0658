//! What a running scheduler of Shoots knows and decides, without any client, clock or lock: caches of parsed objects,
//! which Shoots wait, what was bound a moment ago, and whom a change could help.
//!
//! Whoever watches feeds [`World`] with objects and gets the keys of Shoots back that deserve an attempt now; whoever
//! works asks it to [`World::decide`] on a key, acts, and tells what came of it.

mod decision;
mod inputs;
mod judge;
mod note;
mod places;
mod seen;
mod waiting;
mod wake;
mod world;

use std::fmt;

pub use decision::{Bind, Decision, NotBound, Report};
pub use seen::{Place, Profile, SeenShoot, Unassigned};
pub use world::World;

/// Namespace and name of a Shoot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShootKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ShootKey {
    /// A key.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ShootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
