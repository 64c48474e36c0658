//! Hostile targets: what they can say, and what that costs whoever listens. Tests play the same attacks one by one.

pub mod attacks;
pub mod bench;
mod bodies;
pub mod copies;
mod deeds;
mod error;
mod lines;
mod siege;
mod trickle;
mod watches;
pub mod written;

pub use self::error::Error;
