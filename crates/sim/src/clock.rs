//! A process's own clock: it starts when the process does and runs a little fast or slow.

use std::time::Duration;

/// Time of the simulated world, which no process sees.
pub(crate) type Time = Duration;

/// A process's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Time,
    /// Thousandths of the world's speed.
    rate: u32,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new(start: Time, rate: u32) -> Self {
        Self { start, rate }
    }

    /// What it shows.
    pub(crate) fn show(self, now: Time) -> Duration {
        let passed = now.saturating_sub(self.start);
        let nanos = passed.as_nanos() * u128::from(self.rate) / 1000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When it will show `at`, or more.
    pub(crate) fn when(self, at: Duration) -> Time {
        let nanos = (at.as_nanos() * 1000).div_ceil(u128::from(self.rate));
        let later = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.start.checked_add(later).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_shows_and_when_agree() {
        for rate in [800, 1000, 1217] {
            let clock = Clock::new(Duration::from_secs(3), rate);
            for millis in [0, 1, 333, 10_000] {
                let at = Duration::from_millis(millis);
                let when = clock.when(at);
                assert!(clock.show(when) >= at, "{rate} {millis}");
                assert!(
                    clock.show(when) <= at + Duration::from_nanos(2),
                    "{rate} {millis}"
                );
            }
        }
    }
}
