//! Testkit on the real parts: planes start and stop, do their work, break and come back, and nothing outlives a run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod again;
mod faults;
mod planes;
mod processes;
