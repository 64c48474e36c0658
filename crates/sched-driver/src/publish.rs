//! What users see of scheduling: events, the `PodScheduled` condition, the nominated node.
//!
//! Owns how they are written; the scheduler decides what they say.

mod condition;
mod events;
mod occurrence;
mod series;
mod shares;
mod status;
mod warnings;

pub use condition::unscheduled;
pub(crate) use condition::{Desired, seconds};
pub use events::{EventWriter, Recorder};
pub use occurrence::{EventType, Occurrence, Regarding};
pub(crate) use status::StatusWriter;
pub use warnings::Warnings;
