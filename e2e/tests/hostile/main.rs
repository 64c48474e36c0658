//! Hostile targets and hostile tenants on real control planes, under the generated roles, beside a healthy target and the pods of
//! another namespace, which must not notice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail their test"
)]

mod numbers;
mod record;
mod stage;
mod whose;
