//! Candidate side of the protocol: state machine (reserve, hold, bind), scheduler plugins. Pure.
//!
//! ```text
//! views of pod and chaperon ─┐
//! Memory (hold, debts, times)├─► decide ─► Plan: one Step, the pod's Gate, when to decide again
//! Settings, now ─────────────┘
//! ```
//!
//! An edge carries the step out, tells [`Memory`] how it ended, and decides again. Between a process's scheduler and
//! its edge stand the [`Board`] (which pods may be tried) and one plugin ([`plugins`]). The rules are those of the
//! protocol between proxy and candidate; [`mod@decide`] follows its table row by row.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod board;
pub mod chaperon;
pub mod decide;
#[cfg(test)]
mod fuzz;
pub mod memory;
pub mod plan;
pub mod plugins;
pub mod preempts;
pub mod refusal;
pub mod seat;
pub mod settings;
pub mod view;

pub use board::Board;
pub use decide::{Observed, decide};
pub use memory::Memory;
pub use plan::{Gate, Leave, Note, Plan, Step};
pub use refusal::Refusal;
pub use settings::Settings;
