//! Checks of the workspace itself, and scenarios on real control planes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail their test"
)]

mod arrows;
mod chart;
mod cleanup;
mod clocks;
mod commands;
mod completion;
mod features;
mod files;
mod garden;
mod image;
mod kinds;
mod links;
mod makefile;
mod purity;
mod readme;
mod reference;
mod release;
mod scenario;
mod scheduler;
mod security;
mod webhook;
mod workspace;
