//! Makers: delegate pod, chaperon, virtual node. Pure.

#[cfg(test)]
#[path = "../../testkit/tests/absurd/mod.rs"]
mod absurd;
pub mod chaperon;
pub mod constraints;
mod delegate;
#[cfg(test)]
mod fuzz;
pub mod kept_labels;
pub mod label_pattern;
pub mod labels;
pub mod manifest;
pub mod virtual_node;
