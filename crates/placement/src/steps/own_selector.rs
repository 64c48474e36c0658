//! Step `OwnSelector`: candidates whose labels the request itself doesn't select fall out.

use super::Step;
use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Its labels aren't selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its labels don't match the selector of the request itself")]
pub struct Reason;

pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let selector = match &context.request.own_selector {
        None => return Ok(Pass::All),
        Some(Ok(selector)) => selector,
        Some(Err(error)) => {
            return Err(InputError::Selector {
                step: Step::OwnSelector,
                error: error.clone(),
            });
        }
    };
    Ok(Pass::each(|candidate| {
        if selector.matches(&candidate.labels) {
            Ok(())
        } else {
            Err(Reason)
        }
    }))
}
