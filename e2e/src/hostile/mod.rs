//! Hostile targets: what they can say. Tests play the attacks one by one.

pub mod attacks;
mod bodies;
mod lines;
mod watches;
