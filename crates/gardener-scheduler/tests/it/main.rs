//! The scheduler of Shoots on a real API server with Gardener's kinds, under its own generated role.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod binding;
mod capacity;
mod election;
mod messages;
mod stage;
mod wake;
