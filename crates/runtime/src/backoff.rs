//! Exponential back-off as plain arithmetic: the clock and the dice are the caller's.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Delays `base`, `2·base`, `4·base` … up to `max`, each lengthened by up to `spread` of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub base: Duration,
    /// Longest delay, before the spread.
    pub max: Duration,
    /// Largest lengthening, as a part of the delay: 0.2 makes 1 s at most 1.2 s. It keeps many
    /// clients that failed together from coming back together.
    pub spread: f64,
}

impl Backoff {
    /// From `base` to `max`, without spread.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            spread: 0.0,
        }
    }

    /// The same with a spread.
    #[must_use]
    pub const fn spread(self, spread: f64) -> Self {
        Self { spread, ..self }
    }

    /// Delay after `failures` failures in a row: none after none. `dice` in 0..1 chooses within the
    /// spread; see [`dice`].
    pub fn delay(&self, failures: u32, dice: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let delay = 2_u32
            .checked_pow(doublings)
            .and_then(|factor| self.base.checked_mul(factor))
            .unwrap_or(self.max)
            .min(self.max);
        delay.mul_f64(1.0 + self.spread.max(0.0) * dice.clamp(0.0, 1.0))
    }
}

/// A random number in 0..1, good enough to spread retries.
pub fn dice() -> f64 {
    // Each RandomState has keys of its own, so that hashing nothing gives another number each time.
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
        let millis: Vec<u128> = (0..8).map(|n| backoff.delay(n, 0.9).as_millis()).collect();
        assert_eq!(millis, [0, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(backoff.delay(u32::MAX, 0.0), Duration::from_secs(10));
    }

    #[test]
    fn the_spread_only_lengthens() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10)).spread(0.2);
        for (dice, want) in [
            (0.0, 1000),
            (0.5, 1100),
            (1.0, 1200),
            (7.0, 1200),
            (-1.0, 1000),
        ] {
            assert_eq!(backoff.delay(1, dice).as_millis(), want, "{dice}");
        }
    }

    #[test]
    fn dice_stay_in_range_and_differ() {
        let rolls: Vec<f64> = (0..100).map(|_| dice()).collect();
        assert!(rolls.iter().all(|roll| (0.0..1.0).contains(roll)));
        assert!(
            rolls
                .windows(2)
                .any(|pair| pair[0].to_bits() != pair[1].to_bits())
        );
    }
}
