//! Bounds for what comes over the wire: whoever wrote a number, sums of what is read here can't overflow. And waits that
//! double, up to a bound.

use std::time::Duration;

/// The longest time that anybody's word may ask for: ten years. More is taken for this.
pub const LONGEST_TIME: Duration = Duration::from_hours(10 * 365 * 24);

/// The highest attempt that is believed; as many as one a microsecond for 285 years.
pub const MOST_ATTEMPTS: u64 = 1 << 53;

/// A time in seconds, as Kubernetes writes them: less than none is none.
pub fn seconds(said: i64) -> Duration {
    Duration::from_secs(u64::try_from(said).unwrap_or_default()).min(LONGEST_TIME)
}

/// A wait that doubles with each failure before it, up to `most`.
pub fn doubled(first: Duration, before: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(before)).min(most)
}

/// A text of at most so many bytes, cut where a character ends.
pub fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_between_nothing_and_ten_years() {
        let table = [(i64::MIN, 0), (-1, 0), (0, 0), (30, 30)];
        for (said, want) in table {
            assert_eq!(seconds(said), Duration::from_secs(want), "{said}");
        }
        for said in [315_360_001, i64::MAX] {
            assert_eq!(seconds(said), LONGEST_TIME, "{said}");
        }
    }

    #[test]
    fn a_wait_doubles_up_to_the_most() {
        let (first, most) = (Duration::from_millis(500), Duration::from_mins(1));
        let millis: Vec<_> = (0..8)
            .map(|before| doubled(first, before, most).as_millis())
            .collect();
        assert_eq!(
            millis,
            [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]
        );
        for far in [31, 32, u32::MAX] {
            assert_eq!(doubled(first, far, most), most, "{far}");
            assert_eq!(doubled(Duration::MAX, far, Duration::MAX), Duration::MAX);
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, want) in [("", ""), ("abc", "abc"), ("abcd", "abc"), ("abé", "ab")] {
            assert_eq!(cut(text, 3), want);
        }
    }
}
