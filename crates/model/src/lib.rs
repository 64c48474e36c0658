//! Makers: delegate pod, chaperon, virtual node. Pure.

pub mod chaperon;
mod delegate;
pub mod labels;
pub mod constraints;
pub mod manifest;
pub mod virtual_node;
