//! Gardener's objects through the whole way: read, turned into requests and candidates, selected, told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod cases;
mod malformed;
