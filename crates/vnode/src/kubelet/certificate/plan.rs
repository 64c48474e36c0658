//! How long a certificate lives, and when the next one is due: pure, the clock and the dice are arguments.

use std::time::Duration;

use jiff::Timestamp;
use pilotage_runtime::moment::LONGEST_TIME;
use x509_parser::pem::Pem;

/// Least time between two certificates, however short they live.
const LEAST: Duration = Duration::from_secs(30);

/// From when to when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}

impl Life {
    /// That of the first certificate of a PEM chain, unless it is over.
    pub(super) fn of(chain: &str, now: Timestamp) -> Option<Self> {
        let first = Pem::iter_from_buffer(chain.as_bytes()).next()?.ok()?;
        let certificate = first.parse_x509().ok()?;
        let validity = certificate.validity();
        let begin = Timestamp::from_second(validity.not_before.timestamp()).ok()?;
        let end = Timestamp::from_second(validity.not_after.timestamp()).ok()?;
        (begin < end && now < end).then_some(Self { begin, end })
    }

    /// How long it is until the next one is due: after two thirds of its life, less up to a tenth, so that many
    /// processes don't come at once.
    pub(super) fn until_renewal(self, now: Timestamp, dice: f64) -> Duration {
        let life = self.end.duration_since(self.begin).unsigned_abs();
        let late = 2.0 / 3.0 - 0.1 * dice.clamp(0.0, 1.0);
        let late = life.min(LONGEST_TIME).mul_f64(late);
        let passed = now.duration_since(self.begin);
        let passed = if passed.is_negative() {
            Duration::ZERO
        } else {
            passed.unsigned_abs()
        };
        late.saturating_sub(passed).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::make::self_signed;
    use super::*;

    const BEGIN: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    #[test]
    fn the_next_one_is_due_after_two_thirds_and_never_at_once() {
        let life = Life {
            begin: BEGIN,
            end: at(90),
        };
        for (now, dice, hours) in [(0, 0.0, 60), (0, 1.0, 51), (30, 0.0, 30)] {
            let wait = life.until_renewal(at(now), dice).as_secs_f64() / 3600.0;
            assert!((wait - f64::from(hours)).abs() < 0.01, "{wait}");
        }
        for late in [60, 89, 90, 1000] {
            assert_eq!(life.until_renewal(at(late), 0.0), LEAST);
        }
        // A signer whose clock is ahead.
        assert!(life.until_renewal(at(-1), 0.0) > Duration::from_hours(59));
        let longest = Life {
            begin: Timestamp::MIN,
            end: Timestamp::MAX,
        };
        assert!(longest.until_renewal(Timestamp::MIN, 0.0) <= LONGEST_TIME);
    }

    #[test]
    fn a_certificate_says_how_long_it_lives() {
        let now = Timestamp::now();
        let (chain, _) = self_signed(&"10.0.0.1".parse().unwrap(), now).unwrap();
        let life = Life::of(&chain, now).unwrap();
        assert!(life.begin < now && now < life.end);
        assert_eq!(Life::of(&chain, life.end), None);
        for text in [
            "",
            "garbage",
            "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(Life::of(text, now), None);
        }
    }
}
