//! The clock of an edge: it stands still while this process doesn't run.
//!
//! A process that was stopped has heard nothing of anybody. If that time counted, it would take its own silence for its
//! targets' as soon as it goes on, before any of them can be asked.

use std::time::Duration;

use tokio::time::Instant;

/// Whoever waits looks at the clock this often.
const BEAT: Duration = Duration::from_secs(1);
/// Nobody looks for longer than this, unless nobody runs.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Counts the time in which the process ran, from zero.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    looked: Instant,
    stood_still: Duration,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self::starting(Instant::now())
    }

    fn starting(now: Instant) -> Self {
        Self {
            origin: now,
            looked: now,
            stood_still: Duration::ZERO,
        }
    }

    /// The time on it.
    pub(crate) fn now(&mut self) -> Duration {
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Duration {
        let pause = now.saturating_duration_since(self.looked);
        if pause > LONGEST_PAUSE {
            tracing::warn!(
                ?pause,
                "this process didn't run for a while, which counts for nobody's silence"
            );
            self.stood_still += pause;
        }
        self.looked = now;
        now.saturating_duration_since(self.origin)
            .saturating_sub(self.stood_still)
    }

    /// The moment to wake up at, to do something at this time on it: a little earlier if that is far away, since somebody
    /// has to look.
    pub(crate) fn wake_at(&self, at: Option<Duration>) -> Instant {
        let beat = self.looked + BEAT;
        at.map_or(beat, |at| (self.origin + self.stood_still + at).min(beat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_looked_does_not_pass() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut clock = Clock::starting(start);
        assert_eq!(clock.look(start + second), second);
        // A busy machine is no stopped one.
        assert_eq!(clock.look(start + 4 * second), 4 * second);
        // Stopped for a minute, with a timer set for second 5.
        assert_eq!(clock.wake_at(Some(5 * second)), start + 5 * second, "near");
        assert_eq!(clock.look(start + 64 * second), 4 * second);
        assert_eq!(clock.wake_at(Some(5 * second)), start + 65 * second);
        assert_eq!(clock.look(start + 65 * second), 5 * second);
    }

    #[test]
    fn somebody_looks_often_however_far_the_next_timer_is() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let clock = Clock::starting(start);
        assert_eq!(clock.wake_at(None), start + BEAT);
        assert_eq!(clock.wake_at(Some(60 * second)), start + BEAT);
        assert_eq!(clock.wake_at(Some(second / 2)), start + second / 2);
    }
}
