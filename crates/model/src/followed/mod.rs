//! Objects that follow pods into targets: which ones a pod names, which Services select it, and what their copies look
//! like.
//!
//! Must not know whether or when one is copied.

mod copy;
#[cfg(test)]
mod fuzz;
mod ingress;
mod marked;
mod needs;
mod selector;
mod service;
mod unfollowed;

pub use copy::{Content, NotCopied, config_map, secret};
pub use ingress::{backends, certificates, ingress, keep_class, only_names};
pub use marked::{carry_over, is_linked};
pub use needs::{Kind, Need, needs, required};
pub use selector::{Selector, SelectorError, selects};
pub use service::{keep_load_balancer, reroute, selected, service};
pub use unfollowed::unfollowed;
