//! The process kit: what every Pilotage process needs, whatever its component does.
//!
//! One concept a module, and none of them knows a component:
//!
//! | module | gives |
//! | --- | --- |
//! | [`args`] | groups of flags for all subcommands |
//! | [`client`], [`call`] | API clients, time limits of calls and what a failure means |
//! | [`pages`] | lists page by page |
//! | [`throttle`] | how many requests a second are sent |
//! | [`guarded`], [`weight`] | objects in lists and watches, read one by one; what JSON takes in memory |
//! | [`mod@thin`] | what is left of an object that is too heavy to be read |
//! | [`logs`], [`metrics`] | structured logs, the root of the metrics |
//! | [`otlp`] | spans of traces, sent to a collector |
//! | [`ready`], [`admin`] | what must happen before the process is ready; the port that says so |
//! | [`shutdown`], [`tasks`] | the ordered end, and tasks that can't end unnoticed |
//! | [`turns`] | one turn a key at a time, at most so many at once |
//! | [`slice`](mod@slice) | pauses in what takes long, in which others of its thread go on |
//! | [`caught`] | panics about one object, which stop nobody else's |
//! | [`retries`] | who failed how often in a row, and is tried again when |
//! | [`lease`] | leader election; leadership is asked for when writing |
//! | [`tls`], [`serve`] | replaceable certificates and the TLS server that shows them |
//! | [`backoff`], [`moment`] | delays as plain arithmetic, and moments after them |
//! | [`rbac`] | the rules of a component as data, rendered into roles |
//!
//! The order of an end: a signal cancels the work's token → the process isn't ready any more → the
//! work drains → the lease is given back → the admin port closes → `main` returns.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod admin;
pub mod args;
pub mod backoff;
pub mod call;
pub mod caught;
pub mod client;
#[cfg(test)]
mod fuzz;
pub mod guarded;
pub mod lease;
pub mod logs;
pub mod looks;
pub mod metrics;
pub mod moment;
pub mod otlp;
pub mod pages;
pub mod rbac;
pub mod ready;
pub mod retries;
pub mod seek;
pub mod serve;
pub mod shutdown;
pub mod slice;
pub mod tasks;
pub mod thin;
pub mod throttle;
pub mod tls;
pub mod turns;
pub mod weight;
