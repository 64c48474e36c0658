//! The proxy scheduler's own plugins. They read the [`crate::board`]; none does I/O but the port behind [`GrantBind`].

mod answers;
mod grant_bind;
mod placement_order;
mod virtual_node;

pub use answers::{ANSWERS_EVENT, CandidateAnswers};
pub use grant_bind::{GrantBind, GrantFailure, Grants};
pub use placement_order::PlacementOrder;
pub use virtual_node::VirtualNode;
