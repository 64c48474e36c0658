//! How long single steps take, beside what one may take: a bench prints it, and fails. Whoever waits for another thing
//! of the same thread waits as long.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use crate::cases::worked;

/// No step may take longer.
pub const LIMIT: Duration = Duration::from_millis(50);

/// The longest time of each step, in the order in which they came. It is processor time: steps wait for nothing, and
/// what else runs on the machine isn't theirs.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    /// Does a step's work.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let begin = worked();
        let outcome = black_box(work());
        self.took(name, worked().saturating_sub(begin));
        outcome
    }

    fn took(&mut self, name: &str, time: Duration) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, longest)) => *longest = time.max(*longest),
            None => self.0.push((name.to_owned(), time)),
        }
    }

    fn is_met(&self) -> bool {
        self.0.iter().all(|(_, time)| *time <= LIMIT)
    }
}

/// Plays scenes so many times, and prints the longest time of each step in all rounds. Fails if one took too long.
pub fn measure(rounds: usize, mut scenes: impl FnMut(&mut Times)) -> ExitCode {
    let mut times = Times::default();
    for _ in 0..rounds {
        scenes(&mut times);
    }
    println!("{} ms are allowed.\n", LIMIT.as_millis());
    for (name, time) in &times.0 {
        let aim = if *time <= LIMIT { "met" } else { "missed" };
        println!("{name:64} {:>9.3} ms  aim {aim}", time.as_secs_f64() * 1e3);
    }
    if times.is_met() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_of_each_step_counts() {
        let mut times = Times::default();
        let took = [("a", 1), ("b", 50), ("a", 50), ("b", 3)];
        for (name, millis) in took {
            times.took(name, Duration::from_millis(millis));
        }
        assert!(times.is_met(), "{times:?}");
        assert_eq!(times.0, [("a".to_owned(), LIMIT), ("b".to_owned(), LIMIT)]);
        times.took("a", Duration::from_millis(51));
        assert!(!times.is_met());
    }
}
