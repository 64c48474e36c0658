//! Moments that lie so much later: no span is so long that this fails.
//!
//! Knows no clock but tokio's; pure crates count spans since a start of their own, whose sums saturate by themselves.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time that is believed, whatever somebody has configured: ten years. Each clock can count as far.
///
/// What comes over the wire has the same bound, in a crate that this one doesn't know.
pub const LONGEST_TIME: Duration = Duration::from_hours(10 * 365 * 24);

/// The moment that lies `span` after `start`; ten years after it, if no clock counts as far.
pub fn after(start: Instant, span: Duration) -> Instant {
    let or_far = || start.checked_add(LONGEST_TIME);
    start.checked_add(span).or_else(or_far).unwrap_or(start)
}

/// The moment that lies `span` after now.
pub fn from_now(span: Duration) -> Instant {
    after(Instant::now(), span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_is_too_long() {
        let start = Instant::now();
        for (span, want) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_secs(5), Duration::from_secs(5)),
            (LONGEST_TIME, LONGEST_TIME),
            (Duration::MAX, LONGEST_TIME),
        ] {
            assert_eq!(after(start, span) - start, want, "{span:?}");
        }
        assert!(from_now(Duration::MAX) >= after(start, LONGEST_TIME));
    }
}
