//! What a process of the source knows of the way to one target.

use pilotage_api::{PodChaperon, lost::LostPolicy};
use pilotage_proxy::{Monotonic, Reach, Terms};

use crate::watch::Watch;

/// What a process knows of the way to one target.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) reach: Reach,
    /// Since when it is lost.
    pub(super) lost_since: Monotonic,
    pub(crate) terms: Terms,
    pub(crate) chaperons: Watch<PodChaperon>,
}

/// So long at least a process waits for what it asked of a forgotten target that answers.
const BUSY: Monotonic = Monotonic::from_secs(30);

impl Link {
    /// Whether it is forgotten, and answers, and what was asked of it at `asked` has been waited for.
    pub(super) fn has_had_its_time(&self, asked: Option<Monotonic>, now: Monotonic) -> bool {
        let answers = matches!(self.reach, Reach::Reachable | Reach::Unknown);
        self.terms.forgotten && answers && asked.is_some_and(|asked| now >= asked + BUSY)
    }

    /// Whether what the process knows lets it give up the pods there: the Target is gone, or lost and forgotten, or
    /// lost for as long as was said.
    pub(super) fn has_word(&self, own: Option<Monotonic>, now: Monotonic) -> bool {
        let theirs = match self.terms.lost_policy {
            Some(LostPolicy::ReplaceAfter(after)) => Some(after),
            Some(LostPolicy::Hold) | None => None,
        };
        let is_over = |after: Monotonic| now >= self.lost_since + after;
        match self.reach {
            Reach::NoSuchTarget => true,
            Reach::Lost => self.terms.forgotten || own.or(theirs).is_some_and(is_over),
            Reach::Unseen => self.terms.forgotten,
            Reach::Reachable | Reach::Unknown => false,
        }
    }
}
