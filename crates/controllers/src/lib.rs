//! Controllers: ask and reserve edges, chaperon, feedback, follow, source, target, summary.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod ask;
mod caught;
pub mod chaperon;
mod clock;
pub mod feedback;
pub mod fleet;
pub mod follow;
mod intake;
mod lanes;
mod proxies;
mod pulse;
mod remote;
pub mod reserve;
pub mod source;
mod status;
pub mod summary;
pub mod target;
mod teller;
#[cfg(test)]
mod testing;
mod timers;

use pilotage_runtime::turns;
