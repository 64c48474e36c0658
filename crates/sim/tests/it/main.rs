//! The protocol under faults: traces that are written down, schedules that once broke a rule, and some thousand drawn
//! ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod mutants;
mod regressions;
mod seeds;
mod traces;
