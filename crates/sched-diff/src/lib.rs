//! A differential test of the scheduler: clusters, pods and configurations are drawn from seeds and played through ours
//! and through the real kube-scheduler, side by side. Development only.
//!
//! ```text
//! seed ─► generate ─► Case ─► play ─┬─► subject (pilotage_sched)   ─► Verdict ─┐
//!                                   └─► oracle (kube-scheduler)    ─► Verdict ─┴─► compare ─► explained? ─► report
//! ```
//!
//! - The oracle is a process, `kube-scheduler-oracle`: the framework and plugins of the real scheduler without an API
//!   server.
//! - Each pod goes where ours puts it, in both, so that they stay in step.
//! - The same cases are [`histories`] for our queue: whoever waits there after an event has no node by the oracle's
//!   word, either.
//! - A case that differs is made smaller ([`shrink()`]) and printed as JSON, which `sched-diff replay` plays again.
//! - [`coverage`] counts what was used *with effect*, where both agreed.
//! - [`explained`] lists the differences that are meant, and how many pods may need each;
//!   `docs/scheduler-differences.md` explains them.
//!
//! All that knows our scheduler's types is in `subject.rs`, and which plugins there are in `plugins.rs`.

pub mod case;
pub mod compare;
pub mod configuration;
pub mod coverage;
pub mod draw;
pub mod explained;
pub mod generate;
pub mod histories;
pub mod label_keys;
pub mod object;
pub mod oracle;
pub mod play;
pub mod plugins;
pub mod ports;
pub mod run;
pub mod shrink;
pub mod side;
pub mod subject;
pub mod verdict;
pub mod world;

pub use case::{Case, Step};
pub use generate::generate;
pub use oracle::Oracle;
pub use play::{Nobody, Report};
pub use run::{Mode, Plan, Summary, play_with, run, signature, smaller};
pub use shrink::shrink;
