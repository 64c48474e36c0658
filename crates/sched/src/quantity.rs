//! Owns the Kubernetes quantity grammar (`1`, `250m`, `1.5Gi`, `2e3`): text in, exact integer out.
//! Knows nothing of resources.

use thiserror::Error;

/// Why a text isn't a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// No digit where the number should be.
    #[error("has no number")]
    NoNumber,
    /// Something other than one of the suffixes after the number.
    #[error("has an unknown suffix")]
    Suffix,
    /// An exponent that isn't an integer within i32.
    #[error("has a malformed exponent")]
    Exponent,
}

/// An exact quantity, in units of 10⁻⁹, as fine as Kubernetes keeps them.
///
/// Finer digits are rounded away from zero, and what lies beyond ±(2⁶³-1) whole units is capped there; both as
/// the API server's own parser does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;
const MICRO: i128 = NANO / 1000;
const MAX: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .bytes()
            .position(|byte| !byte.is_ascii_digit() && byte != b'.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::NoNumber);
        }
        let scale = Scale::parse(suffix)?;
        let magnitude = scale.apply(whole, fraction).min(MAX);
        Ok(Self(if negative {
            magnitude.saturating_neg()
        } else {
            magnitude
        }))
    }

    /// This many whole units.
    pub const fn of(units: i64) -> Self {
        Self((units as i128).saturating_mul(NANO))
    }

    /// This many thousandths.
    pub const fn of_milli(thousandths: i64) -> Self {
        Self((thousandths as i128).saturating_mul(MICRO))
    }

    /// The exact sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Exactly, in 10⁻⁹.
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// Whole units, rounded away from zero.
    pub const fn value(self) -> i64 {
        Self::rounded(self.0 / NANO, self.0 % NANO)
    }

    /// Thousandths, rounded away from zero; capped at the limits of i64.
    pub const fn milli_value(self) -> i64 {
        Self::rounded(self.0 / MICRO, self.0 % MICRO)
    }

    /// A number with a rest of its sign.
    const fn rounded(towards_zero: i128, rest: i128) -> i64 {
        let rounded = towards_zero.saturating_add(rest.signum());
        if rounded > i64::MAX as i128 {
            i64::MAX
        } else if rounded < i64::MIN as i128 {
            i64::MIN
        } else {
            rounded as i64
        }
    }
}

/// What a suffix multiplies by.
enum Scale {
    Binary(u32),
    Decimal(i32),
}

impl Scale {
    fn parse(suffix: &str) -> Result<Self, QuantityError> {
        Ok(match suffix {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => match suffix.strip_prefix(['e', 'E']) {
                Some(exponent) => {
                    Self::Decimal(exponent.parse().map_err(|_| QuantityError::Exponent)?)
                }
                None => return Err(QuantityError::Suffix),
            },
        })
    }

    /// The magnitude in 10⁻⁹, rounded up, saturating above [`MAX`].
    fn apply(&self, whole: &str, fraction: &str) -> i128 {
        match *self {
            Self::Decimal(exponent) => decimal(whole, fraction, exponent),
            Self::Binary(bits) => {
                let whole = digits(whole.bytes());
                let scaled = whole.saturating_mul(NANO).saturating_mul(1 << bits);
                scaled.saturating_add(binary_fraction(fraction, bits))
            }
        }
    }
}

/// The number that the digits spell, saturating.
fn digits(text: impl Iterator<Item = u8>) -> i128 {
    text.fold(0i128, |sum, byte| {
        sum.saturating_mul(10)
            .saturating_add(i128::from(byte.saturating_sub(b'0')))
    })
}

/// `whole.fraction * 10^exponent` in 10⁻⁹, rounded up.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> i128 {
    let all = || whole.bytes().chain(fraction.bytes());
    // How many of the digits stand before the point, once the result is written in 10⁻⁹.
    let kept = (whole.len() as i64).saturating_add(i64::from(exponent));
    let kept = kept.saturating_add(9);
    if all().all(|byte| byte == b'0') {
        return 0;
    }
    let Ok(kept) = usize::try_from(kept) else {
        return 1;
    };
    let count = whole.len().saturating_add(fraction.len());
    let head = digits(all().take(kept));
    if let Some(zeros) = kept.checked_sub(count) {
        return if zeros > 38 {
            i128::MAX
        } else {
            head.saturating_mul(10i128.pow(zeros as u32))
        };
    }
    head.saturating_add(i128::from(all().skip(kept).any(|byte| byte != b'0')))
}

/// `0.fraction * 2^bits` in 10⁻⁹, rounded up.
///
/// Digits after the 18th only make it round up: they are worth less than a byte even in `Ei`.
fn binary_fraction(fraction: &str, bits: u32) -> i128 {
    const EXACT: usize = 18;
    let count = fraction.len().min(EXACT) as u32;
    // At most 10^18 * 2^60, which i128 holds.
    let scaled = digits(fraction.bytes().take(EXACT)) << bits;
    let lost = fraction.bytes().skip(EXACT).any(|byte| byte != b'0');
    let nanos = if let Some(zeros) = 9_u32.checked_sub(count) {
        scaled.saturating_mul(10i128.pow(zeros))
    } else {
        let divisor = 10i128.pow(count.saturating_sub(9));
        let nanos = scaled.checked_div(divisor).unwrap_or_default();
        let is_more = scaled.checked_rem(divisor) != Some(0);
        nanos.saturating_add(i128::from(is_more))
    };
    nanos.saturating_add(i128::from(lost))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Quantity, QuantityError};

    #[test]
    fn the_grammar() {
        for (text, value, milli) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("+7", 7, 7000),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("250m", 1, 250),
            ("1500m", 2, 1500),
            ("0.1m", 1, 1),
            ("1n", 1, 1),
            ("0.1n", 1, 1),
            ("100u", 1, 1),
            ("2k", 2000, 2_000_000),
            ("1M", 1_000_000, 1_000_000_000),
            ("1Ki", 1024, 1_024_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("0.1Ki", 103, 102_400),
            ("0.333Ki", 341, 340_992),
            ("2e3", 2000, 2_000_000),
            ("2E-3", 1, 2),
            ("1E", 1_000_000_000_000_000_000, i64::MAX),
            ("1.25e+2", 125, 125_000),
            ("-1500m", -2, -1500),
            ("8Ei", i64::MAX, i64::MAX),
            (
                "99999999999999999999999999999999999999999999",
                i64::MAX,
                i64::MAX,
            ),
            ("-100Ei", -i64::MAX, i64::MIN),
            ("1e2000000000", i64::MAX, i64::MAX),
            ("1e-2000000000", 1, 1),
            ("0e2000000000", 0, 0),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(quantity.value(), value, "{text}");
            assert_eq!(quantity.milli_value(), milli, "{text} in milli");
        }
    }

    #[test]
    fn sums_are_exact_and_rounded_once() {
        let read = |text| Quantity::parse(text).unwrap();
        let sum = read("0.4").plus(read("400m")).plus(read("100u"));
        assert_eq!((sum.value(), sum.milli_value()), (1, 801));
        assert_eq!(Quantity::of(3).plus(Quantity::of_milli(500)), read("3.5"));
        let most = read("9223372036854775807");
        assert_eq!(most, Quantity::of(i64::MAX));
        assert_eq!(most.plus(most).value(), i64::MAX);
    }

    #[test]
    fn what_is_not_a_quantity() {
        for (text, error) in [
            ("", QuantityError::NoNumber),
            ("-", QuantityError::NoNumber),
            (".", QuantityError::NoNumber),
            ("m", QuantityError::NoNumber),
            ("1.2.3", QuantityError::NoNumber),
            ("1 Gi", QuantityError::Suffix),
            ("1KB", QuantityError::Suffix),
            ("1ki", QuantityError::Suffix),
            ("1µ", QuantityError::Suffix),
            ("1e", QuantityError::Exponent),
            ("1e1.5", QuantityError::Exponent),
            ("1e99999999999", QuantityError::Exponent),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text:?}");
        }
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(text in "\\PC{0,24}") {
                let _ = Quantity::parse(&text);
            }

            #[test]
            fn numeric_text_never_panics(text in "[-+]?[0-9.]{0,60}([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,10})?") {
                let _ = Quantity::parse(&text);
            }

            #[test]
            fn binary_fractions_are_exact(whole in 0i64..1000, fraction in 0u32..1_000_000, bits in 1u32..4) {
                let suffix = ["", "Ki", "Mi", "Gi"][bits as usize];
                let text = format!("{whole}.{fraction:06}{suffix}");
                let exact = (i128::from(whole) * 1_000_000 + i128::from(fraction)) * (1i128 << (10 * bits));
                let value = (exact + 999_999) / 1_000_000;
                prop_assert_eq!(i128::from(Quantity::parse(&text).unwrap().value()), value);
            }
        }
    }
}
