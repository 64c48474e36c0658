//! The scheduler of Gardener's Shoots, in place of gardener-scheduler: watches, bindings, reports.
//!
//! ```text
//! watches ─► feed ─► World (pure, in pilotage-gardener) ─► keys that deserve an attempt
//!                      ▲                                        │
//!                      │ decide, bound, not bound               ▼
//!                    scheduler (one turn a Shoot at a time) ─► act: binding, lastOperation, event
//! ```
//!
//! Objects are parsed when they change, never for a selection. Decisions are made behind one lock and count at once, so
//! that no number of workers can overfill a Seed; requests are sent outside of it.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod act;
mod feed;
pub mod live;
mod metrics;
pub mod objects;
mod options;
pub mod rbac;
mod scheduler;

pub use options::{Options, OptionsError, lease};
pub use scheduler::{Shoots, start};
