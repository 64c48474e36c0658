//! Hostile targets and hostile tenants on real control planes, under the generated roles, beside a healthy target and
//! the pods of another namespace, which must not notice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail their test"
)]

mod bodies;
mod bytes;
mod copies;
mod elsewhere;
mod forgotten;
mod granted;
mod heavy;
mod leaving;
mod limits;
mod lines;
mod needs;
mod numbers;
mod record;
mod secrets;
mod siege;
mod silent;
mod stage;
mod watches;
mod well;
mod whose;
mod words;
mod writes;
