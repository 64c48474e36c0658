//! Streams of pods on virtual nodes through real API servers, and what they cost the kubelet server's process.

pub mod bench;
mod error;
mod load;
mod stage;

pub use self::error::Error;
pub use self::load::{at_once, one_log};
pub use self::stage::{POD, Stage, TARGET};
