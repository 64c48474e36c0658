//! The built binary, run as a user would.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail their test"
)]

mod admission;
mod configuration;
mod crds;
mod rbac;
mod select_seed;
