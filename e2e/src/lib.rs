//! Scenarios on real control planes, the demo, and checks of the workspace itself.

pub mod bench;
pub mod demo;
pub mod fleet;
pub mod garden;
pub mod hostile;
pub mod memory;
pub mod roles;
pub mod scheduler;
pub mod scripts;
pub mod streams;

/// An error with its causes, in one line.
pub fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Many say their cause already.
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}
