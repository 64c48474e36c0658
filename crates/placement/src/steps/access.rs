//! Step `AccessRestrictions`: a candidate must support all that the request has. One that supports more is fine.

use std::sync::Arc;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Why a candidate doesn't support them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It doesn't support this one.
    #[error("doesn't support the access restriction {0:?}")]
    Unsupported(Arc<str>),
    /// The request lists more of them than the candidate, one of them twice.
    #[error("lists {candidate} access restrictions, fewer than the {request} that are asked for")]
    Fewer {
        /// How many the candidate lists.
        candidate: usize,
        /// How many the request lists.
        request: usize,
    },
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let wanted: Vec<Arc<str>> = context
        .request
        .access_restrictions
        .iter()
        .map(|name| name.as_str().into())
        .collect();
    if wanted.is_empty() {
        return Ok(Pass::All);
    }
    Ok(Pass::each(move |candidate| {
        let supported = &candidate.access_restrictions;
        if let Some(name) = wanted.iter().find(|name| !supported.supports(name)) {
            return Err(Reason::Unsupported(name.clone()));
        }
        // Gardener compares the lengths of both lists, so that one that is listed twice counts twice.
        if context.settings.gardener_compatible && wanted.len() > supported.listed() {
            return Err(Reason::Fewer {
                candidate: supported.listed(),
                request: wanted.len(),
            });
        }
        Ok(())
    }))
}
