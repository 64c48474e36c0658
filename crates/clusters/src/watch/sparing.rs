//! Owns how many lines of the log mistakes of one kind may take: whoever makes them on purpose fills no disk.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines in each span of time.
const LINES: u32 = 10;
/// That span.
const SPAN: Duration = Duration::from_mins(1);

/// Counts mistakes.
#[derive(Debug, Default)]
pub(super) struct Sparing(Mutex<Option<Count>>);

#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Sparing {
    /// Whether the mistake may be logged, and then how many were left out since the last span that had enough.
    pub(super) fn next(&self, now: Instant) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = known.is_none_or(|count| now.saturating_duration_since(count.since) >= SPAN);
        if over {
            let left_out = known.map_or(0, |count| count.left_out);
            *known = Some(Count {
                since: now,
                lines: 1,
                left_out: 0,
            });
            return Some(left_out);
        }
        let count = known.as_mut()?;
        if count.lines < LINES {
            count.lines = count.lines.saturating_add(1);
            return Some(0);
        }
        count.left_out = count.left_out.saturating_add(1);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_are_written_and_the_next_one_says_how_many_were_not() {
        let sparing = Sparing::default();
        let began = Instant::now();
        let said = (0..1_000).filter_map(|_| sparing.next(began)).count();
        assert_eq!(said, 10);
        let later = began + SPAN;
        assert_eq!(sparing.next(later), Some(990));
        assert_eq!(sparing.next(later), Some(0));
    }
}
