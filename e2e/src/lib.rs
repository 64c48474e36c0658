//! Scenarios on real control planes, the demo, and checks of the workspace itself.

pub mod bench;
pub mod demo;
pub mod fleet;
pub mod garden;
pub mod hostile;
pub mod roles;
pub mod scheduler;
