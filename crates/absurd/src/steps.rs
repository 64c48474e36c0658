//! How long single steps take, beside what one may take: a bench prints it, and fails. Whoever waits for another thing
//! of the same thread waits as long.

use std::future::poll_fn;
use std::hint::black_box;
use std::pin::pin;
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

    /// Waits for some work, each poll of which is a step.
    pub async fn polls<T>(&mut self, name: &str, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.step(name, || work.as_mut().poll(context))).await
    }

    /// Waits for some work, while all that its thread does between two polls is a step: what other tasks do, too. It
    /// asks for being polled all the time.
    pub async fn waits<T>(&mut self, name: &str, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut begin = worked();
        poll_fn(|context| {
            let now = worked();
            self.took(name, now.saturating_sub(begin));
            begin = now;
            let polled = work.as_mut().poll(context);
            if polled.is_ready() {
                self.took(name, worked().saturating_sub(begin));
            } else {
                context.waker().wake_by_ref();
            }
            polled
        })
        .await
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
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Works for that long.
    fn work(millis: u64) {
        let end = worked().saturating_add(Duration::from_millis(millis));
        while worked() < end {}
    }

    #[test]
    fn what_is_done_in_a_poll_or_between_two_is_one_step() {
        let mut context = Context::from_waker(Waker::noop());
        let mut polled = 0;
        let twice = poll_fn(|_| {
            polled += 1;
            work(3);
            if polled < 2 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        });
        let mut times = Times::default();
        {
            let mut polls = pin!(times.polls("polls", twice));
            assert!(polls.as_mut().poll(&mut context).is_pending());
            work(10);
            assert!(polls.as_mut().poll(&mut context).is_ready());
        }
        {
            let mut idle = 0;
            let thrice = poll_fn(|_| {
                idle += 1;
                if idle < 3 {
                    work(1);
                    Poll::Pending
                } else {
                    work(15);
                    Poll::Ready(())
                }
            });
            let mut waits = pin!(times.waits("waits", thrice));
            for _ in 0..2 {
                assert!(waits.as_mut().poll(&mut context).is_pending());
                work(10);
            }
            assert!(waits.as_mut().poll(&mut context).is_ready());
        }
        let within = |place: usize, from, to| {
            let millis = times.0[place].1.as_millis();
            (from..to).contains(&millis)
        };
        assert!(within(0, 3, 9) && within(1, 15, 20), "{times:?}");
    }

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
