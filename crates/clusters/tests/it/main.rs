//! The registry against real API servers, under its own generated role.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod bench;
mod faults;
mod identity;
mod proxy;
mod secrets;
mod selector;
