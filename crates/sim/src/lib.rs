//! A deterministic simulator of the protocol between proxy and candidate, for development only.
//!
//! It drives the very state machines of the real processes (`pilotage-proxy`, `pilotage-candidate`) against simulated
//! API servers. What happens next is drawn by a seed: deliveries that are late, requests of unknown outcome, crashes,
//! two leaders at once, partitions, clocks that disagree, users who delete things. The invariants of ARCHITECTURE.md
//! are checked after each step; at the end all faults cease, and everything must come to rest as it should.
//!
//! ```text
//! walk (seed) or replay (list of steps) ─► World::step ─┬─ processes: source, candidate, controller ─► requests
//!                                                       ├─ servers: versioned objects and their histories
//!                                                       └─ users, kubelet, garbage collector, plain targets
//! ```
#![allow(
    clippy::panic,
    reason = "a surprise must stop the simulation, and its seed is told"
)]

mod apply;
mod bodies;
mod candidate;
mod check;
mod clock;
mod config;
mod controller;
mod flight;
mod lemma;
mod liar;
mod occupants;
mod plain;
mod play;
mod regressions;
mod request;
pub mod rng;
mod server;
mod source;
mod step;
mod surroundings;
mod traces;
mod walk;
mod watch;
mod watches;
mod world;

pub use check::Violation;
pub use config::Config;
pub use regressions::{REGRESSIONS, Regression};
pub use step::{Step, Word};
pub use traces::{TRACES, Trace};
pub use walk::{Schedule, replay, shrink, walk};
pub use world::World;
