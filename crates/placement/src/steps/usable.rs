//! Step `Usable`: candidates that are going, hidden or not ready take nothing new.

use std::sync::Arc;

use crate::candidate::Readiness;
use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Why a candidate isn't usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is being deleted.
    #[error("is being deleted")]
    Deleting,
    /// It is hidden from selection.
    #[error("is not visible")]
    Hidden,
    /// It isn't ready; why, in its own words.
    #[error("is not ready: {0}")]
    NotReady(Arc<str>),
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(_: Context<'_>) -> Result<Pass<'_>, InputError> {
    Ok(Pass::each(|candidate| {
        if candidate.deleting {
            return Err(Reason::Deleting);
        }
        if !candidate.visible {
            return Err(Reason::Hidden);
        }
        match &candidate.readiness {
            Readiness::Ready => Ok(()),
            Readiness::NotReady(why) => Err(Reason::NotReady(why.clone())),
        }
    }))
}
