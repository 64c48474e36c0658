//! Step `EmergencyStop`: an operator has stopped all work at a candidate.

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Work there is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all work there is stopped")]
pub struct Reason;

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(_: Context<'_>) -> Result<Pass<'_>, InputError> {
    Ok(Pass::each(|candidate| {
        if candidate.stopped {
            Err(Reason)
        } else {
            Ok(())
        }
    }))
}
