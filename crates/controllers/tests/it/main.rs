//! Controllers and edges on real control planes, each under its own generated role.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod chaperon;
mod conditions;
mod identity;
mod reserve;
mod summary;
mod target;
