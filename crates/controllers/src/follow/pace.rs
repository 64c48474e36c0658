//! How soon one object may be written again in one place: pure, but for the clock's type.
//!
//! What was written once and lasts costs nothing. Something in a target may undo each write, at once or later, and each
//! write reads the whole object: so pauses between such writes double, as they do after failures. What its author
//! changes, or pods need again, waits for the first of these pauses at most.

use std::time::Duration;

use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::moment::after;
use tokio::time::Instant;

/// Pauses after failures in a row, and after writes that didn't last.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(2)).spread(0.3);
/// What was written so long ago has lasted.
const LASTS: Duration = Duration::from_mins(5);

/// What is remembered of one object.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// In a row.
    failures: u32,
    /// Writes of what had been written before, each soon after the one before.
    rewrites: u32,
    last: Option<Instant>,
    not_before: Option<Instant>,
}

impl Pace {
    /// Nothing may be written before then.
    pub(super) fn waits(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }

    /// It was written, or deleted; `undone` says that the same had been written before.
    pub(super) fn wrote(&mut self, now: Instant, undone: bool) {
        self.rewrites = match (self.is_calm(now), undone) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => self.rewrites.saturating_add(1),
        };
        self.failures = 0;
        self.last = Some(now);
        self.not_before = Some(after(now, PAUSES.delay(self.rewrites, dice())));
    }

    /// It couldn't be; when it is tried again.
    pub(super) fn failed(&mut self, now: Instant) -> Instant {
        self.failures = self.failures.saturating_add(1);
        self.last = Some(now);
        *self
            .not_before
            .insert(after(now, PAUSES.delay(self.failures, dice())))
    }

    /// How often in a row it couldn't be.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Nothing has happened for long: it needn't be remembered.
    pub(super) fn is_calm(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.saturating_duration_since(last) > LASTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_dont_last_come_less_and_less_often() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        pace.wrote(now, true);
        assert_eq!(pace.waits(now), None, "the next one may come at once");
        for least in [1, 2, 4, 8, 16, 32, 64, 120, 120] {
            pace.wrote(now, true);
            let at = pace.waits(now).unwrap();
            let pause = at - now;
            assert!(pause >= Duration::from_secs(least), "{pause:?} < {least} s");
            assert!(
                pause <= Duration::from_secs(least).mul_f64(1.31),
                "{pause:?}"
            );
            now = at;
        }
        now += LASTS + Duration::from_secs(1);
        assert!(pace.is_calm(now));
        pace.wrote(now, true);
        assert_eq!(pace.waits(now), None, "what lasted is forgotten");
    }

    #[test]
    fn what_its_author_changes_often_is_not_slowed_down() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        pace.wrote(now, false);
        for _ in 0..20 {
            pace.wrote(now, false);
            let at = pace.waits(now).unwrap();
            assert!(at - now <= Duration::from_secs(1).mul_f64(1.31));
            now = at;
        }
        // Nor does it hide what a target undoes.
        pace.wrote(now, true);
        assert!(pace.waits(now).unwrap() - now >= Duration::from_secs(2));
    }

    #[test]
    fn a_success_ends_the_pauses_of_failures() {
        let now = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..6 {
            pace.failed(now);
        }
        assert!(pace.waits(now).unwrap() - now >= Duration::from_secs(32));
        assert_eq!(pace.failures(), 6);
        pace.wrote(now, true);
        assert_eq!(pace.failures(), 0);
        assert!(pace.waits(now).unwrap() - now < Duration::from_secs(2));
    }
}
