//! The chaperon controller's state machine: the pod of each `PodChaperon`, from its creation to its end.
//!
//! [`decide()`] says which request comes next for one name; an edge sends it and tells [`Memory`] how it ended. It must
//! not know proxies, sources or scheduling.

mod change;
mod copy;
mod decide;
pub mod kept;
mod memory;
mod observe;
mod raw_pod;

pub use change::Step;
pub use decide::{Action, Note, Plan, decide};
pub use memory::{Memory, Outcome};
pub use observe::{Monotonic, Observed, Owner, owner};
pub use raw_pod::RawPod;
