//! Owns the framework's notion of time: a point on a clock that only the caller reads.
//! Knows no clock and no calendar, so that wall-clock jumps can't stretch a backoff.

use std::time::Duration;

/// A point in time, as the span since an epoch that the caller chose once for the process (its start, say).
///
/// Every method that depends on time takes one; it must never go backwards between calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The epoch.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The point that lies `span` after the epoch.
    pub const fn after_epoch(span: Duration) -> Self {
        Self(span)
    }

    /// The span since the epoch.
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// The span since `earlier`; zero if that lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The point that lies `span` later; the last one there is, if no clock counts as far.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The last whole second that isn't after this point.
    #[must_use]
    pub const fn whole_second(self) -> Self {
        Self(Duration::from_secs(self.0.as_secs()))
    }
}
