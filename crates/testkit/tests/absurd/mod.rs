//! What nobody sane sends: generators for the property tests of everything that reads other people's words.
//!
//! Those tests live next to the parsers, in modules named `fuzz`, by which `make fuzz` finds them. Crates without any
//! client can't use this one, so each crate takes these files in by their path, as a module of its tests. Must not know any
//! parser, nor any type of ours.

#![allow(dead_code, reason = "each crate takes what its parsers read")]

pub(crate) mod json;
pub(crate) mod objects;
pub(crate) mod text;
