//! Objects that follow pods into targets: which ones a pod names, and what their copies look like.
//!
//! Must not know whether or when one is copied.

mod copy;
mod needs;

pub use copy::{Content, NotCopied, config_map, secret};
pub use needs::{Kind, Need, needs};
