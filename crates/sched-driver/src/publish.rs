//! What users see of scheduling: events, the `PodScheduled` condition, the nominated node.
//!
//! Owns how they are written; the scheduler decides what they say.

mod condition;
mod events;
mod series;
mod shares;
mod status;
mod warnings;

pub use condition::unscheduled;
pub(crate) use condition::{Desired, seconds};
pub use events::{EventType, EventWriter, Occurrence, Recorder, Regarding};
pub(crate) use status::StatusWriter;
pub use warnings::Warnings;
