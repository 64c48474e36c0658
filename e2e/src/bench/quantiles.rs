//! Quantiles of measured times. Pure.

use std::time::Duration;

use serde::Serialize;

/// Quantiles in milliseconds, each a time that was really measured (nearest rank).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of the times are no longer.
    pub p50_ms: f64,
    /// 99 % of the times are no longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// How many times there are.
    pub count: usize,
}

impl Quantiles {
    /// `None` of nothing.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Some(Self {
            p50_ms: milliseconds(rank(&times, 50)?),
            p99_ms: milliseconds(rank(&times, 99)?),
            max_ms: milliseconds(*times.last()?),
            count: times.len(),
        })
    }
}

/// The smallest of the sorted times that `percent` of them don't exceed.
fn rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// A time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_times() {
        let of = |count: u64| Quantiles::of((1..=count).rev().map(Duration::from_millis));
        for (count, p50, p99) in [
            (1, 1.0, 1.0),
            (2, 1.0, 2.0),
            (100, 50.0, 99.0),
            (500, 250.0, 495.0),
        ] {
            let quantiles = of(count).unwrap();
            let want = Quantiles {
                p50_ms: p50,
                p99_ms: p99,
                max_ms: count as f64,
                count: usize::try_from(count).unwrap(),
            };
            assert_eq!(quantiles, want);
        }
        assert_eq!(of(0), None);
    }
}
