//! Bounds for what comes over the wire: whoever wrote a number, sums of what is read here can't overflow. And waits
//! that double, up to a bound.

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

/// Longest UID: a label value must be able to hold it.
pub const LONGEST_UID: usize = 63;

/// Whether a text can be an object's UID. Every API server makes UUIDs; its interface says only that it is a text, so
/// each of letters, digits and dashes is taken. It may stand in records, labels, names and messages.
pub fn is_uid(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= LONGEST_UID && text.bytes().all(is_part)
}

/// A text of at most so many bytes, cut where a character ends.
pub fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_word_of_letters_digits_and_dashes() {
        for (text, good) in [
            ("6f8e2c0a-9f0b-4c7e-8a39-1d2b7c5e4f60", true),
            ("5f6c", true),
            (&"x".repeat(63), true),
            (&"x".repeat(64), false),
            ("", false),
            ("a/b", false),
            ("a b", false),
            ("a\nb", false),
            ("é", false),
        ] {
            assert_eq!(is_uid(text), good, "{text:?}");
        }
    }

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
