//! Step `EmergencyStop`: an operator has stopped all work at a candidate.

use crate::pipeline::{Context, Survivors};
use crate::selection::InputError;

/// Work there is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all work there is stopped")]
pub struct Reason;

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn run(_: Context<'_>, survivors: &mut Survivors<'_>) -> Result<(), InputError> {
    survivors.keep(|candidate| {
        if candidate.stopped {
            Err(Reason)
        } else {
            Ok(())
        }
    });
    Ok(())
}
