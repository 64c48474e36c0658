//! How many events may tell of stages. It knows neither pods nor events.

use std::time::Duration;

use crate::view::Monotonic;

/// So much may be told at once, measured in the time in which it comes again.
const AHEAD: Duration = Duration::from_secs(5);

/// How many events may tell of stages, for all pods together: a bucket that is filled at a steady pace.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Between two events on average; none: nothing is told.
    interval: Option<Duration>,
    /// When the bucket is full again.
    full_at: Monotonic,
}

impl Budget {
    /// So many a second on average, and five times as many at once.
    pub fn per_second(events: u16) -> Self {
        Self {
            interval: Duration::from_secs(1).checked_div(u32::from(events)),
            full_at: Monotonic::ZERO,
        }
    }

    /// Whether nothing is ever told.
    pub(super) fn is_closed(&self) -> bool {
        self.interval.is_none()
    }

    /// Takes one, if one is left.
    pub(super) fn take(&mut self, now: Monotonic) -> bool {
        let Some(interval) = self.interval else {
            return false;
        };
        let full_at = self.full_at.max(now).saturating_add(interval);
        let is_left = full_at.saturating_sub(now) <= AHEAD;
        if is_left {
            self.full_at = full_at;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_five_seconds_at_once_and_then_its_pace() {
        let mut budget = Budget::per_second(5);
        let mut at_once = |now| (0..1000).filter(|_| budget.take(now)).count();
        // From the beginning of time on.
        assert_eq!(at_once(Monotonic::ZERO), 25);
        assert_eq!(at_once(Monotonic::from_millis(199)), 0);
        assert_eq!(at_once(Monotonic::from_millis(200)), 1);
        assert_eq!(at_once(Monotonic::from_secs(2)), 9);
        // What nobody took isn't saved up for ever.
        assert_eq!(at_once(Monotonic::from_secs(1000)), 25);
        let now = Monotonic::from_secs(100);
        let mut none = Budget::per_second(0);
        assert!(none.is_closed() && !none.take(now));
        let mut most = Budget::per_second(u16::MAX);
        let taken = (0..1_000_000).filter(|_| most.take(now)).count();
        assert!(taken >= 5 * usize::from(u16::MAX), "{taken}");
    }
}
