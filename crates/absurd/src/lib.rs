//! What nobody sane sends: generators for the property tests of everything that reads other people's words.
//!
//! Those tests live next to the parsers, in modules named `fuzz`, by which `make fuzz` finds them. The crate has no I/O, so
//! that pure crates may use it in their tests. It knows no parser, and no type of ours.

mod cases;
pub mod json;
pub mod objects;
#[cfg(test)]
mod tests;
pub mod text;

pub use cases::{bounded, config};
#[doc(hidden)]
pub use proptest;
