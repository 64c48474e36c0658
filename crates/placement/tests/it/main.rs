//! Tests of the pipeline through its public face.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]
#![allow(
    clippy::unnecessary_wraps,
    reason = "makers return what the fields take"
)]

mod distances;
mod networks;
mod oracle;
mod properties;
mod quirks;
mod scoring;
mod tables;
mod world;
