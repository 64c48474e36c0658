//! What nobody sane sends: generators for the property tests of everything that reads other people's words.
//!
//! Those tests live next to the parsers, in modules named `fuzz`, by which `make fuzz` finds them. How long it may take
//! to read such words is here, too: for a case ([`properties!`]), and for a step of a bench ([`steps`], with [`specs`]
//! of pods). The crate knows no parser and no type of ours, and needs no client and no runtime, so that pure crates may
//! use it in their tests.

mod cases;
pub mod json;
pub mod objects;
pub mod specs;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod text;

pub use cases::{bounded, config};
#[doc(hidden)]
pub use proptest;
