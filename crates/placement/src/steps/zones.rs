//! Step `Zones`: compares the zones of a request and of candidates, as strictly as either of them wants.
//!
//! It looks at all survivors together: a candidate that only prefers common zones falls out because others are there.

use std::collections::BTreeSet;

use crate::candidate::{Candidate, ZoneMode};
use crate::pipeline::{Context, Pass, Survivors};
use crate::request::ZoneHints;
use crate::selection::InputError;

/// Why a candidate's zones don't do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It lacks a zone that the request demands.
    #[error("has no zone {0:?}, which is demanded")]
    Missing(String),
    /// It takes only requests with a common zone.
    #[error("has no zone in common and enforces one")]
    Enforced,
    /// It prefers requests with a common zone, and others would take this one.
    #[error("has no zone in common and prefers one, and others don't")]
    Preferred,
}

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let Context { request, settings } = context;
    let gardener_compatible = settings.gardener_compatible;
    Ok(match &request.zones {
        // Gardener leaves a zonal request alone even if it demands zones.
        ZoneHints::All(_) if request.zonal && gardener_compatible => Pass::All,
        ZoneHints::All(zones) => Pass::each(move |candidate| {
            match zones.iter().find(|zone| !candidate.zones.contains(zone)) {
                None => Ok(()),
                Some(zone) => Err(Reason::Missing(zone.clone())),
            }
        }),
        ZoneHints::Near(_) if request.zonal => Pass::All,
        ZoneHints::Near(zones) if zones.is_empty() => Pass::All,
        ZoneHints::Near(zones) => Pass::together(move |survivors| {
            near(zones, survivors, gardener_compatible);
        }),
    })
}

fn near(zones: &BTreeSet<String>, survivors: &mut Survivors<'_>, gardener_compatible: bool) {
    let common = |candidate: &Candidate| candidate.zones.iter().any(|zone| zones.contains(zone));
    // In Gardener a candidate that doesn't care about zones suffices to push the preferring ones out, although it
    // isn't nearer than they are.
    let others = survivors.iter().any(|candidate| {
        common(candidate) || (gardener_compatible && candidate.zone_mode == ZoneMode::Ignore)
    });
    survivors.keep(|candidate| match candidate.zone_mode {
        ZoneMode::Enforce if !common(candidate) => Err(Reason::Enforced),
        ZoneMode::Prefer if others && !common(candidate) => Err(Reason::Preferred),
        _ => Ok(()),
    });
}
