//! Step `OwnSelector`: candidates whose labels the request itself doesn't select fall out.

use super::{Step, selected};
use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Its labels aren't selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its labels don't match the selector of the request itself")]
pub struct Reason;

pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    selected(
        Step::OwnSelector,
        context.request.own_selector.as_ref(),
        Reason,
    )
}
