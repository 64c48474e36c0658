//! The clock of an edge: it stands still while this process doesn't run.
//!
//! A process that was stopped has heard nothing of anybody. If that time counted, it would take its own silence for its
//! targets' as soon as it goes on, before any of them can be asked.

use std::time::Duration;

use tokio::time::Instant;

use crate::pulse;

/// Whoever waits looks at the clock this often.
const BEAT: Duration = Duration::from_secs(1);

/// Counts the time in which the process ran, from zero.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    looked: Instant,
    /// How long the process had stood still when this clock was started.
    before: Duration,
    stood_still: Duration,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self::starting(Instant::now(), pulse::stood_still())
    }

    fn starting(now: Instant, before: Duration) -> Self {
        Self {
            origin: now,
            looked: now,
            before,
            stood_still: Duration::ZERO,
        }
    }

    /// The time on it.
    pub(crate) fn now(&mut self) -> Duration {
        self.look(Instant::now(), pulse::stood_still())
    }

    fn look(&mut self, now: Instant, stood_still: Duration) -> Duration {
        self.stood_still = stood_still.saturating_sub(self.before);
        self.looked = now;
        now.saturating_duration_since(self.origin)
            .saturating_sub(self.stood_still)
    }

    /// The moment to wake up at, to do something at this time on it: a little earlier if that is far away, since the
    /// clock may stand still meanwhile.
    pub(crate) fn wake_at(&self, at: Option<Duration>) -> Instant {
        let beat = self.looked.checked_add(BEAT).unwrap_or(self.looked);
        let due = at.and_then(|at| self.origin.checked_add(self.stood_still.checked_add(at)?));
        due.map_or(beat, |due| due.min(beat))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        io::{BufRead, BufReader, Write, stdin},
        process::{Child, Command, Stdio},
        thread::sleep,
    };

    use super::*;
    use crate::pulse::LONGEST_PAUSE;

    /// Longer than a look of the pulse may take.
    const LONG: Duration = LONGEST_PAUSE.saturating_add(pulse::BEAT.saturating_mul(2));
    /// Has the helper do something.
    const HELP: &str = "CLOCK_IS_STOPPED";

    #[test]
    fn a_long_turn_of_whoever_looks_at_it_is_no_standstill() {
        let mut clock = Clock::start();
        let before = clock.now();
        // One that is blocked, or works all the while: others run meanwhile.
        sleep(LONG);
        assert!(clock.now() >= before + LONG, "{clock:?}");
    }

    /// Not a test: the process that the test below stops. It tells the time at each line that it reads.
    #[test]
    #[ignore = "it is started by another test, which stops it"]
    fn teller() {
        if env::var(HELP).is_err() {
            return;
        }
        let mut clock = Clock::start();
        println!("at {}", clock.now().as_millis());
        for _line in stdin().lines() {
            println!("at {}", clock.now().as_millis());
        }
    }

    /// The next time that a teller tells.
    fn told(out: &mut impl BufRead) -> Duration {
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 {
            if let Some((_, at)) = line.trim_end().rsplit_once("at ")
                && let Ok(at) = at.parse()
            {
                return Duration::from_millis(at);
            }
            line.clear();
        }
        panic!("it ended");
    }

    fn signal(child: &Child, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.args(["-s", name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success(), "{name}");
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_pass() {
        let begun = Instant::now();
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "clock::tests::teller",
            ])
            .env(HELP, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ask = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        told(&mut out);
        signal(&child, "STOP");
        sleep(LONG);
        signal(&child, "CONT");
        writeln!(ask).unwrap();
        let at = told(&mut out);
        let passed = begun.elapsed();
        assert!(at + LONGEST_PAUSE < passed, "{at:?} of {passed:?}");
        drop(ask);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn time_in_which_nobody_ran_does_not_pass() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let before = 7 * second;
        let mut clock = Clock::starting(start, before);
        assert_eq!(clock.look(start + second, before), second);
        assert_eq!(clock.look(start + 9 * second, before), 9 * second, "busy");
        // Stopped for a minute, with a timer set for second 10.
        assert_eq!(
            clock.wake_at(Some(10 * second)),
            start + 10 * second,
            "near"
        );
        let stood_still = before + 60 * second;
        assert_eq!(clock.look(start + 69 * second, stood_still), 9 * second);
        assert_eq!(clock.wake_at(Some(10 * second)), start + 70 * second);
        assert_eq!(clock.look(start + 70 * second, stood_still), 10 * second);
    }

    #[test]
    fn somebody_looks_often_however_far_the_next_timer_is() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let clock = Clock::starting(start, Duration::ZERO);
        for far in [None, Some(60 * second), Some(Duration::MAX)] {
            assert_eq!(clock.wake_at(far), start + BEAT, "{far:?}");
        }
        assert_eq!(clock.wake_at(Some(second / 2)), start + second / 2);
    }
}
