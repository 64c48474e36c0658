//! How long this process was stopped or suspended, by a thread that does nothing but look.
//!
//! A thread that only sleeps gets its turn within milliseconds, however much the others have to do. When it doesn't for
//! seconds, nobody in this process had one.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The thread looks this often.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// Between two looks nobody needs longer than this, unless nobody runs.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What the thread has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    looked: Instant,
    stood_still: Duration,
}

impl Seen {
    /// All the time that nobody ran until now; the thread itself may still have to wake up.
    fn look(&mut self, now: Instant) -> Duration {
        let pause = now.saturating_duration_since(self.looked);
        self.looked = now;
        if pause > LONGEST_PAUSE {
            tracing::warn!(
                ?pause,
                "this process didn't run for a while, which counts for nobody's silence"
            );
            self.stood_still = self.stood_still.saturating_add(pause);
        }
        self.stood_still
    }
}

/// How long this process has stood still since this was first asked.
pub(crate) fn stood_still() -> Duration {
    static SEEN: OnceLock<Mutex<Seen>> = OnceLock::new();
    let seen = SEEN.get_or_init(|| {
        // Without that thread whoever asks is the only one who looks: a busy process may count as a stopped one.
        let beat = || {
            loop {
                thread::sleep(BEAT);
                stood_still();
            }
        };
        let thread = thread::Builder::new().name("pulse".to_owned());
        if let Err(error) = thread.spawn(beat) {
            tracing::warn!(%error, "can't start a thread that tells a stopped process from a busy one");
        }
        Mutex::new(Seen {
            looked: Instant::now(),
            stood_still: Duration::ZERO,
        })
    });
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.look(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pause_in_which_nobody_looked_counts() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut seen = Seen {
            looked: start,
            stood_still: Duration::ZERO,
        };
        assert_eq!(seen.look(start + second), Duration::ZERO);
        assert_eq!(seen.look(start + 4 * second), Duration::ZERO, "busy");
        assert_eq!(seen.look(start + 64 * second), 60 * second);
        assert_eq!(seen.look(start + 65 * second), 60 * second);
    }

    #[test]
    fn a_busy_machine_is_no_stopped_process() {
        let before = stood_still();
        let end = Instant::now() + LONGEST_PAUSE + BEAT;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..4 * cores {
                scope.spawn(|| {
                    while Instant::now() < end {
                        std::hint::spin_loop();
                    }
                });
            }
        });
        assert_eq!(stood_still(), before);
    }
}
