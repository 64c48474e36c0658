//! Makers: delegate pod, chaperon, virtual node. Pure.

pub mod chaperon;
mod delegate;
pub mod labels;
