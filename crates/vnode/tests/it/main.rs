//! Virtual nodes on real control planes, under their own generated role.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod bench;
mod certificate;
mod huge_pages;
mod life;
mod many;
mod removal;
mod secrets;
