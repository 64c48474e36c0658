//! That a pod which was granted to a target isn't that target's any more, in words for its author. What lets go of it
//! is decided elsewhere: [`crate::record`], `lost`.

use std::fmt;

/// A pod that its target doesn't have any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The virtual node of that target.
    pub node: String,
    /// Nobody waits for what may run there. Else it is proved that nothing does.
    pub given_up: bool,
    /// The pod was bound to that node, and is replaced. Else others may take it.
    pub placed: bool,
}

impl Released {
    /// Reason of the event that says so.
    pub fn reason(&self) -> &'static str {
        "Released"
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, .. } = self;
        match (self.given_up, self.placed) {
            (false, false) => write!(
                f,
                "{node}, which was granted the pod, doesn't run it; other targets may take it now"
            ),
            (true, false) => write!(
                f,
                "{node}, which was granted the pod, is given up: other targets may take it now, and it may run in both"
            ),
            (false, true) => write!(
                f,
                "{node} doesn't run the pod any more; it is deleted, so that its controller makes another one"
            ),
            (true, true) => write!(
                f,
                "{node} is given up: the pod is deleted, so that its controller makes another one, and may run on there"
            ),
        }
    }
}
