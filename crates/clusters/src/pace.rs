//! How often a Secret, and a Target's credentials, are read anew: a few times at once, then once in a while. Whoever
//! writes a Secret over and over makes work for every process that reads it. It must not know what is read.

use std::time::Duration;

use pilotage_runtime::moment::after;
use tokio::time::Instant;

/// Between two readings on average.
const INTERVAL: Duration = Duration::from_secs(5);
/// How far ahead of that one may be: ten readings at once.
const AHEAD: Duration = Duration::from_secs(45);

#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When nothing is owed any more.
    settled: Option<Instant>,
}

impl Pace {
    /// Takes a reading, or says when there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let settled = self.settled.map_or(now, |settled| settled.max(now));
        let owed = settled.saturating_duration_since(now);
        if owed > AHEAD {
            return Err(after(now, owed.saturating_sub(AHEAD)));
        }
        self.settled = Some(after(settled, INTERVAL));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_in_a_while() {
        let (now, mut pace) = (Instant::now(), Pace::default());
        for _ in 0..10 {
            assert_eq!(pace.take(now), Ok(()));
        }
        assert_eq!(pace.take(now), Err(now + INTERVAL));
        assert_eq!(pace.take(now + INTERVAL), Ok(()));
        assert_eq!(pace.take(now + INTERVAL), Err(now + 2 * INTERVAL));
        let rested = now + Duration::from_mins(2);
        for _ in 0..10 {
            assert_eq!(pace.take(rested), Ok(()));
        }
        assert!(pace.take(rested).is_err());
    }
}
