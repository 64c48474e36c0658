//! How long single steps take, beside what one may take: a bench prints it, and fails. Whoever waits for another thing
//! of the same thread waits as long.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// No step may take longer.
pub const LIMIT: Duration = Duration::from_millis(50);

/// The longest time of each step, in the order in which they came.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    /// Does a step's work.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let outcome = black_box(work());
        self.took(name, begin.elapsed());
        outcome
    }

    fn took(&mut self, name: &str, time: Duration) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, longest)) => *longest = time.max(*longest),
            None => self.0.push((name.to_owned(), time)),
        }
    }

    /// Keeps the shorter time of each step.
    fn improve(&mut self, other: Self) {
        for (name, time) in other.0 {
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, best)) => *best = time.min(*best),
                None => self.0.push((name, time)),
            }
        }
    }

    fn is_met(&self) -> bool {
        self.0.iter().all(|(_, time)| *time <= LIMIT)
    }
}

/// Plays scenes so many times, and prints how long each step took. Of each step's longest times the shortest counts:
/// whatever else runs on the machine stops one time or the other. Fails if one took too long.
pub fn measure(rounds: usize, mut scenes: impl FnMut(&mut Times)) -> ExitCode {
    let mut best = Times::default();
    for _ in 0..rounds {
        let mut times = Times::default();
        scenes(&mut times);
        best.improve(times);
    }
    println!("{} ms are allowed.\n", LIMIT.as_millis());
    for (name, time) in &best.0 {
        let aim = if *time <= LIMIT { "met" } else { "missed" };
        println!("{name:64} {:>9.3} ms  aim {aim}", time.as_secs_f64() * 1e3);
    }
    if best.is_met() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_round_and_the_shortest_of_all_rounds_count() {
        let round = |all: &[(&str, u64)]| {
            let mut times = Times::default();
            for (name, millis) in all {
                times.took(name, Duration::from_millis(*millis));
            }
            times
        };
        let mut best = Times::default();
        best.improve(round(&[("a", 1), ("b", 90), ("a", 51)]));
        assert!(!best.is_met());
        best.improve(round(&[("a", 60), ("b", 50), ("a", 2)]));
        assert!(!best.is_met(), "{best:?}");
        best.improve(round(&[("a", 3), ("b", 70), ("a", 50)]));
        assert!(best.is_met(), "{best:?}");
        assert_eq!(best.0[0], ("a".to_owned(), LIMIT));
    }
}
