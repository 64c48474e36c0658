//! The driver on real control planes with kwok nodes, each scheduler under a service account that may do
//! what `rbac` says and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod fixture;
mod held;
mod objects;
mod preemption;
mod stock;
