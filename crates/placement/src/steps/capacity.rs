//! Step `Capacity`: there must be room for what the request takes.

use std::sync::Arc;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// There is too little left of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is full: {used} of {allocatable} {resource} are used")]
pub struct Reason {
    /// The resource.
    pub resource: Arc<str>,
    /// How much of it is used.
    pub used: i64,
    /// How much there is.
    pub allocatable: i64,
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let demand = || {
        context
            .request
            .demand
            .iter()
            .filter(|(_, wanted)| *wanted > 0)
    };
    if demand().next().is_none() {
        return Ok(Pass::All);
    }
    Ok(Pass::each(move |candidate| {
        for (name, wanted) in demand() {
            let mut resources = candidate.resources.iter();
            let Some(resource) = resources.find(|resource| resource.name == *name) else {
                continue;
            };
            if let Some(allocatable) = resource.allocatable
                && resource.used.saturating_add(*wanted) > allocatable
            {
                return Err(Reason {
                    resource: name.clone(),
                    used: resource.used,
                    allocatable,
                });
            }
        }
        Ok(())
    }))
}
