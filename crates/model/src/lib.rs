//! Makers: delegate pod, chaperon, virtual node, copies of what pods use. Pure.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod burden;
pub mod changes;
pub mod chaperon;
pub mod constraints;
mod delegate;
pub mod followed;
#[cfg(test)]
mod fuzz;
pub mod kept_labels;
pub mod label_pattern;
pub mod labels;
pub mod manifest;
pub mod recent;
pub mod virtual_node;
