//! Live registry of target clusters: clients, connection state, supervised watches.
//!
//! ```text
//! Registry ── follows Targets and ClusterTargets ── one Target each
//! Target   ── supervisor: secret → client (Session) → probe (Connection) → permissions (Authorization)
//!          └─ watch::<K>() ── Watch: Store, read at any time, and Event feeds
//! ```
//!
//! Every target is treated as already down: own task, own connection, own back-off, own limits, own stores. A dead or
//! hanging one delays no other and nothing local; a changed secret swaps the client while watches go on; a missing or
//! broken secret makes a *lost* target, never a removed one.
//!
//! A target may be anybody's server. What it says comes through one door (`door`), which bounds size, time and kind;
//! what is kept of it has one `budget`, and with all others of its namespace a common one; where it may be, `allow`
//! says.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod access;
pub mod allow;
pub mod args;
mod budget;
pub mod connection;
mod door;
#[cfg(test)]
mod fuzz;
pub mod identity;
mod kept;
pub mod key;
pub mod kubeconfig;
mod lookup;
mod mistakes;
mod names;
mod namespaces;
mod offence;
mod pace;
mod probe;
pub mod rbac;
mod registry;
mod seats;
mod secrets;
mod session;
pub mod spec;
mod supervise;
mod target;
#[cfg(test)]
mod testing;
mod trial;
pub mod watch;

pub use access::{Authorization, Need};
pub use allow::Allowed;
pub use args::{Options, TargetArgs};
pub use connection::{Connection, LostReason, Since};
pub use door::streams::{LocalStreams, Opened, StreamError, Streams, Upgrade, Want};
pub use identity::cluster_uid;
pub use kept::Kept;
pub use key::{TargetKey, TargetObject};
pub use lookup::Lookup;
pub use mistakes::Mistake;
pub use namespaces::TargetNamespaces;
pub use probe::ProbeOptions;
pub use registry::{Registry, RegistryEvent};
pub use session::Session;
pub use target::Target;
pub use watch::{Event, Feed, Store, Unread, Watch, WatchConfig, WatchHealth, Watchable};
