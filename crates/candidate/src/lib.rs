//! Candidate side of the protocol: state machine (reserve, hold, bind), scheduler plugins. Pure.

pub mod board;
pub mod decide;
pub mod memory;
pub mod plan;
pub mod plugins;
pub mod refusal;
pub mod settings;
pub mod view;

pub use board::Board;
pub use decide::{Observed, decide};
pub use memory::Memory;
pub use plan::{Gate, Note, Plan, Step};
pub use refusal::Refusal;
pub use settings::Settings;
