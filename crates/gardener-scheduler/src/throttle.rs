//! Owns how many requests a second are sent: a token bucket as plain arithmetic. The clock is the caller's.

use std::time::Duration;

/// `qps` requests a second on average, `burst` at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttle {
    /// Between two requests on average; zero is no limit.
    interval: Duration,
    /// How far ahead of the average one may be.
    ahead: Duration,
    /// When the bucket is full again.
    full_at: Duration,
}

impl Throttle {
    /// As client-go's: no limit for a `qps` below zero.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        let interval = if qps > 0.0 {
            Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        };
        Self {
            interval,
            ahead: interval.saturating_mul(burst.saturating_sub(1)),
            full_at: Duration::ZERO,
        }
    }

    /// Takes a token; returns how long to wait before it may be used.
    pub(crate) fn take(&mut self, now: Duration) -> Duration {
        let full_at = self.full_at.max(now);
        self.full_at = full_at.saturating_add(self.interval);
        full_at.saturating_sub(now.saturating_add(self.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_average() {
        let ms = Duration::from_millis;
        let mut throttle = Throttle::new(50.0, 3);
        let waits: Vec<_> = (0..6).map(|_| throttle.take(ms(1000))).collect();
        assert_eq!(waits, [ms(0), ms(0), ms(0), ms(20), ms(40), ms(60)]);
        // Three of the six are paid for by then.
        assert_eq!(throttle.take(ms(1060)), ms(20));
        assert_eq!(throttle.take(ms(9000)), ms(0));
        let mut free = Throttle::new(-1.0, 0);
        assert!((0..100).all(|_| free.take(ms(0)) == ms(0)));
        let mut single = Throttle::new(10.0, 0);
        assert_eq!([single.take(ms(0)), single.take(ms(0))], [ms(0), ms(100)]);
    }
}
