//! Telling the user what goes on: lines with the time since the start.

use std::time::{Duration, Instant};

/// Tells with times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Say {
    begin: Instant,
}

impl Default for Say {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
        }
    }
}

impl Say {
    /// Since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// A line.
    pub(super) fn line(&self, text: &str) {
        println!("{:7.2} s  {text}", self.elapsed().as_secs_f64());
    }

    /// A heading of a stage.
    pub(super) fn stage(&self, text: &str) {
        println!();
        self.line(text);
    }
}
