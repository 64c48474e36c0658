//! Our scheduler beside the real one, on some hundred pods, and what the oracle takes. `make diff-test` plays many
//! more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod histories;
mod kinds;
mod least;
mod oracle;
mod real;
