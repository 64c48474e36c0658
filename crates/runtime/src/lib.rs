//! The process kit.
#![allow(dead_code)]
pub mod rbac;
