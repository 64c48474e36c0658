//! Owns the unit of scores, and how measurements where less is better become scores.

use std::fmt;

/// A score: 0 to 100 points, kept in thousandths, so that rankings need no floating point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Points(u64);

impl Points {
    /// None.
    pub const ZERO: Self = Self(0);
    /// All that a rule can give: 100.
    pub const FULL: Self = Self(100_000);

    /// From thousandths of a point.
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli)
    }

    /// In thousandths of a point.
    pub const fn milli(self) -> u64 {
        self.0
    }

    /// `part / whole` of 100 points, rounded down; nothing of a whole of 0 or less.
    pub(crate) fn share(part: i128, whole: i128) -> Self {
        if whole <= 0 {
            return Self::ZERO;
        }
        let part = part.clamp(0, whole);
        // Divisions of 128 bits are an order of magnitude slower, and hardly ever needed.
        if let (Ok(part), Ok(whole)) = (u64::try_from(part), u64::try_from(whole))
            && let Some(milli) = part.checked_mul(Self::FULL.0)
            && let Some(milli) = milli.checked_div(whole)
        {
            return Self(milli);
        }
        let milli = part.saturating_mul(i128::from(Self::FULL.0));
        let milli = milli.checked_div(whole).map(u64::try_from);
        let milli = milli.and_then(Result::ok).unwrap_or(Self::FULL.0);
        Self(milli.min(Self::FULL.0))
    }

    /// This many times a weight, saturating.
    pub(crate) const fn times(self, weight: u32) -> Self {
        Self(self.0.saturating_mul(weight as u64))
    }

    /// Both together, saturating.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// `100 · (max − v) / (max − min)` for a measurement v among several, rounded down, so that only the least ones get
/// 100; 100 for all if they are equal; 0 for what couldn't be measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LessIsBetter {
    min: i64,
    max: i64,
}

impl LessIsBetter {
    /// Among these.
    pub(crate) fn among(values: impl Iterator<Item = Option<i64>>) -> Self {
        let ends = values.flatten().fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((min, max)) => Some((value.min(min), value.max(max))),
        });
        let (min, max) = ends.unwrap_or_default();
        Self { min, max }
    }

    /// What one of them gets.
    pub(crate) fn points(self, value: Option<i64>) -> Points {
        let (min, max) = (i128::from(self.min), i128::from(self.max));
        match value {
            None => Points::ZERO,
            Some(_) if min == max => Points::FULL,
            Some(value) => {
                let better = max.saturating_sub(i128::from(value));
                Points::share(better, max.saturating_sub(min))
            }
        }
    }
}

impl fmt::Display for Points {
    /// `100`, `37.5`, `0.004`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:03}");
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn less_is_better(values: &[Option<i64>]) -> Vec<Points> {
        let scale = LessIsBetter::among(values.iter().copied());
        values.iter().map(|value| scale.points(*value)).collect()
    }

    #[test]
    fn only_the_least_gets_everything() {
        let values = [Some(0), Some(1), None, Some(1_000_000), Some(0)];
        let milli: Vec<_> = less_is_better(&values)
            .into_iter()
            .map(Points::milli)
            .collect();
        assert_eq!(milli, [100_000, 99_999, 0, 0, 100_000]);
        let wide = less_is_better(&[Some(i64::MIN), Some(i64::MAX), Some(0)]);
        assert_eq!(wide[..2], [Points::FULL, Points::ZERO]);
        assert_eq!(
            less_is_better(&[Some(7), None]),
            [Points::FULL, Points::ZERO]
        );
        assert_eq!(less_is_better(&[]), []);
    }

    #[test]
    fn text() {
        for (milli, text) in [(100_000, "100"), (37_500, "37.5"), (4, "0.004"), (0, "0")] {
            assert_eq!(Points::from_milli(milli).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn shares_are_exact_at_any_size(part in any::<i64>(), whole in any::<i64>(), small in 0..1000_i64) {
            for (part, whole) in [(part, whole), (small, whole), (part, small), (small, 1000 - small)] {
                let (part, whole) = (i128::from(part), i128::from(whole));
                let expected = match whole {
                    ..=0 => 0,
                    whole => part.clamp(0, whole) * 100_000 / whole,
                };
                prop_assert_eq!(i128::from(Points::share(part, whole).milli()), expected);
            }
        }
    }
}
