//! Owns whom a change could help. It errs on the side of waking: an attempt more costs little, one less costs a user
//! the rest of a back-off.

use std::collections::BTreeSet;

use pilotage_placement::{Candidate, Request, Settings, ZoneHints, ZoneMode, select};

use super::places::Places;

/// A Seed that has changed, or come, or gone.
pub(super) struct Change<'a> {
    pub(super) old: Option<&'a Candidate>,
    pub(super) new: Option<&'a Candidate>,
}

impl Change<'_> {
    /// Whether a Shoot that got no Seed could get one now.
    ///
    /// Most steps look at each candidate alone, so whoever passes them alone is a hope. In two steps a candidate can
    /// speak against others; whoever doesn't any more is a hope for those.
    pub(super) fn helps(&self, request: &Request, places: &Places, settings: &Settings) -> bool {
        if self.new.is_some_and(|new| takes(request, new, settings)) {
            return true;
        }
        let Some(old) = self.old else {
            return false;
        };
        let (ZoneHints::Near(zones) | ZoneHints::All(zones)) = &request.zones;
        // A domain that nobody manages any more is the author's own.
        request.domain.is_some()
            || (!stands_back(old, zones)
                && places
                    .candidates()
                    .iter()
                    .any(|one| stands_back(one, zones)))
    }
}

/// Whether a Seed would take a Shoot if it was the only one.
pub(super) fn takes(request: &Request, candidate: &Candidate, settings: &Settings) -> bool {
    let selection = select(request, std::slice::from_ref(candidate), settings);
    selection.winner().is_some()
}

/// Whether it gives way to others, since it prefers Shoots in its own zones.
fn stands_back(candidate: &Candidate, zones: &BTreeSet<String>) -> bool {
    candidate.zone_mode == ZoneMode::Prefer
        && !candidate.zones.iter().any(|zone| zones.contains(zone))
}

/// Whether a Seed is another than it was, but for how many Shoots it has.
pub(super) fn differs(old: &Candidate, new: &Candidate) -> bool {
    let mut old = old.clone();
    crate::usage::fill(&mut old, new.used);
    old != *new
}
