//! Controllers: ask and reserve edges, chaperon, feedback, source, target, summary.

pub mod ask;
pub mod feedback;
mod fleet;
mod remote;
mod timers;
pub mod chaperon;
pub mod reserve;
mod turns;
pub mod source;
mod status;
pub mod summary;
pub mod target;
