//! The webhook in front of real API servers, under its own role.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod admission;
mod certificates;
mod configuration;
mod others;
mod support;
mod targets;
