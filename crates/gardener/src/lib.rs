//! The Gardener side: its objects as far as seed selection reads them, the way from them to a selection of
//! `pilotage-placement`, the configuration file of its scheduler, and the texts that its users know.
//!
//! Objects are read field by field from JSON into small types of our own, and what is malformed is told with its path.
//! Of a Shoot that waits all of its text is kept, since it is written back with a Seed. There is no client and no clock
//! here; who watches and binds is elsewhere.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod config;
mod documents;
mod eligible;
pub mod fields;
#[cfg(test)]
mod fuzz;
pub mod kinds;
mod message;
mod report;
mod request;
pub mod scheduler;
mod usage;

pub use documents::{YamlError, documents};
pub use eligible::{DEFAULT_SCHEDULER, NotEligible, eligible};
pub use message::{Texts, unasked};
pub use report::Report;
pub use request::{RequestError, profile_id, profile_of, request};
pub use usage::{SHOOTS, Usage};
