//! Owns durations as Go writes them: `15s`, `1h30m`, `1.5s`.

/// Not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration such as 15s or 1m30s")]
pub struct DurationError;

/// Units and their nanoseconds. Two-letter ones come first.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration, in nanoseconds: a sign, and decimal numbers each with a unit. `0` needs none.
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError);
    }
    let mut sum: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, tail) = rest.split_at(end.ok_or(DurationError)?);
        let (unit, nanos) = UNITS
            .iter()
            .find(|(unit, _)| tail.starts_with(unit))
            .ok_or(DurationError)?;
        rest = &tail[unit.len()..];
        let part = scale(number, *nanos).ok_or(DurationError)?;
        sum = sum.checked_add(part).ok_or(DurationError)?;
    }
    Ok(if is_negative {
        sum.saturating_neg()
    } else {
        sum
    })
}

/// `whole.fraction · nanos`, what is finer being dropped.
fn scale(number: &str, nanos: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut sum = whole.checked_mul(nanos)?;
    let mut digit_is_worth = i128::from(nanos);
    // Digits that are worth less than a nanosecond each add nothing.
    for digit in fraction.bytes() {
        digit_is_worth /= 10;
        let digit = i128::from(digit.saturating_sub(b'0'));
        sum = sum.checked_add(digit_is_worth.saturating_mul(digit) as i64)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn as_go_writes_them() {
        const S: i64 = 1_000_000_000;
        for (text, nanos) in [
            ("0", Some(0)),
            ("15s", Some(15 * S)),
            ("1m30s", Some(90 * S)),
            ("1.5s", Some(S + S / 2)),
            ("-2s", Some(-2 * S)),
            ("100ms", Some(S / 10)),
            ("1h2m3s4ms5us6ns", Some(3_723_004_005_006)),
            (".5m", Some(30 * S)),
            ("1.s", Some(S)),
            ("", None),
            ("-", None),
            ("15", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("15 s", None),
            ("15d", None),
            ("99999999999h", None),
            ("9999999999999999999999s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), nanos, "{text:?}");
        }
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(any in "\\PC{0,20}", near in "-?([0-9.]{0,25}(h|m|s|ms|µs|ns)?){0,3}") {
                let _ = (parse_duration(&any), parse_duration(&near));
            }
        }
    }
}
