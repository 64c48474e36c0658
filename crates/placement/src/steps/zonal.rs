//! Step `Zonal`: a request that must survive the loss of a zone needs three of them.

use std::collections::BTreeSet;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;

/// Zones that it takes to survive the loss of one: a majority of the members of etcd must be left.
const NEEDED: usize = 3;

/// It has too few zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has {zones} of {NEEDED} zones that are needed to survive the loss of one")]
pub struct Reason {
    /// How many it has.
    pub zones: usize,
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    if !context.request.zonal {
        return Ok(Pass::All);
    }
    Ok(Pass::each(move |candidate| {
        let zones = if context.settings.gardener_compatible {
            candidate.zones.len()
        } else {
            // A zone that is listed twice is lost at once.
            candidate.zones.iter().collect::<BTreeSet<_>>().len()
        };
        if zones >= NEEDED {
            Ok(())
        } else {
            Err(Reason { zones })
        }
    }))
}
