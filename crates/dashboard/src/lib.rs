//! A live picture of targets and pods, and the read-only page that shows it: which cluster has what room, where pods
//! are on their way, who waits and why, what was lost.
//!
//! [`picture`] is pure: whoever knows targets and pods tells it, and it says what has changed. [`Dashboard`] hands that
//! to whoever looks, a few times a second; `guard` says who may look. It knows no part of Pilotage and asks nobody.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod change;
mod guard;
mod hub;
pub mod picture;
mod routes;
mod rows;
mod text;

pub use hub::Dashboard;
pub use routes::PATH;
pub use rows::{Amount, NodeSeen, PodSeen, Stage, State};
