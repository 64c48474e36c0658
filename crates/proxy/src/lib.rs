//! The proxy side of the protocol, pure: no client, no clock, no runtime.
//!
//! A proxy pod's life in the source is decided by two functions over what is there: [`decide()`] until the pod has a
//! place (ask, choose, record, grant, bind; run by the proxy scheduler), and [`feedback::decide`] from then on (status,
//! clean-up; run by the feedback controller). Both return requests with their preconditions; edges send them. The
//! scheduler's cycle takes part through [`plugins`], which read the [`board`].
//!
//! Rules and their reasons: `ARCHITECTURE.md`, "The protocol".

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod annotations;
pub mod board;
pub mod book;
pub mod class;
pub mod config;
pub mod decide;
pub mod door;
pub mod feedback;
#[cfg(test)]
mod fuzz;
mod gone;
pub mod kept;
mod lost;
pub mod memory;
pub mod milestones;
pub mod others;
pub mod placing;
pub mod plan;
pub mod plugins;
pub mod profile;
pub mod rank;
pub mod reaction;
pub mod record;
pub mod released;
pub mod requests;
pub mod settings;
pub mod slim;
mod status;
pub mod targets;
#[cfg(test)]
pub(crate) mod testing;
mod unfit;
pub mod view;
pub mod wave;
mod what_if;
pub mod window;
pub mod wire;
pub mod world;

pub use book::Book;
pub use config::Configuration;
pub use decide::{Observed, decide, see};
pub use door::{Serves, TurnedAway, Wanted};
pub use memory::Memory;
pub use plan::{Action, ActionKey, Answer, ChoiceFate, Gate, GrantForm, Note, Plan, Words};
pub use reaction::{Reaction, RefusalKind};
pub use released::Released;
pub use requests::{Outcome, Reply};
pub use settings::Settings;
pub use targets::{TargetView, Targets, Terms};
pub use view::{ChaperonView, Monotonic, ProxyView, Reach, RecordState};
pub use wave::Ranked;
pub use world::{ChaperonNews, Dropped, Heard, World};
