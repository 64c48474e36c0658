//! The mutating webhook: an elected pod becomes a proxy pod, which only fits virtual nodes.
//!
//! | module | owns |
//! | --- | --- |
//! | [`mutate`], [`owned`], [`daemons`], [`denial`] | what becomes of a pod, and why one stays or is refused: pure |
//! | [`review`], [`router`] | admission reviews, and the HTTP route for them |
//! | `room`, `intake` | how much of reviews is in memory at once |
//! | [`shares`] | how many reviews of a namespace are judged at once |
//! | [`objects`] | the admission configuration and the policies of proxy pods and Targets: pure |
//! | [`install`] | keeping them installed |
//! | [`certs`] | the own CA and the serving certificate |
//! | [`args`], [`rbac`], [`metrics`], [`mod@run`] | flags, rights, metrics and wiring |

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod args;
mod bounded;
pub mod certs;
pub mod daemons;
pub mod denial;
#[cfg(test)]
mod fuzz;
pub mod install;
mod intake;
pub mod metrics;
pub mod mutate;
pub mod objects;
pub mod owned;
mod patience;
pub mod rbac;
pub mod review;
mod room;
pub mod router;
pub mod run;
pub mod shares;

pub use args::{AdmissionArgs, Options, WebhookArgs};
pub use metrics::Metrics;
pub use review::Notice;
pub use run::{RunError, run};
