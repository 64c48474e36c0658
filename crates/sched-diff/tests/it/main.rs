//! Our scheduler beside the real one, on some hundred pods. `make diff-test` plays many more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod oracle;
mod real;
