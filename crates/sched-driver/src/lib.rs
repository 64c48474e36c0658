//! Feeds watches to the scheduling framework, runs its loop, binds, records events and conditions.
#![allow(dead_code)]

mod binder;
mod feed;
mod metrics;
pub mod publish;
pub mod rbac;

pub use binder::{BindError, BindingRequest, PodBinder};
