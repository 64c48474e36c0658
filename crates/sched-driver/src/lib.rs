//! The driver around `pilotage-sched`: feeds it from watches, runs its loop, binds, and tells users what
//! became of their pods.
//!
//! ```text
//! watches ─► feed ─► core (the Scheduler behind its lock) ◄─ handle ◄─ edges of protocols
//!                      │ turn                                  observer ─► edges
//!                      ▼
//!            driver (the loop) ─► binding (a task a pod) ─► Bind plugins ─► binder
//!                      ├──────────────┴─► publish: events, PodScheduled, nominated node
//!                      └─► evictions: pods that have to make room
//! ```
//!
//! It knows pods, nodes and profiles of one cluster, and no protocol: what is special about proxy and
//! candidate pods is in their plugins and edges. The lock is never held across an await; the loop sleeps
//! until something changes or a time comes; leadership is asked for before each attempt, and before a
//! binding, a status or an eviction is begun. A panic about one pod or node is told on it and stops nobody
//! else, wherever it is: in a plugin, in the scheduler, in an observer, in a feed.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod binder;
mod binding;
mod core;
mod driver;
mod evictions;
mod extension;
mod feed;
mod handle;
mod metrics;
mod mistakes;
mod objects;
mod observer;
pub mod outline;
pub mod publish;
pub mod rbac;
mod run;
mod sinks;
#[cfg(test)]
mod test_server;

pub use binder::{BindError, PodBinder};
pub use driver::{Driver, DriverError, DriverOptions};
pub use extension::{AskExtender, Extension};
pub use feed::{PodNews, Pods};
pub use handle::DriverHandle;
pub use observer::{NoObserver, Observer};
