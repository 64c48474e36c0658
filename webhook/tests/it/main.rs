//! The webhook in front of real API servers, under its own role.

mod admission;
mod certificates;
mod configuration;
mod others;
mod support;
