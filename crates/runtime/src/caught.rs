//! A panic about one object, which must stop nobody else's. It must not know what steps do.
//!
//! What a step was changing may be half changed: whoever catches a panic makes sure that it agrees again, or that
//! nothing hangs on it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::FutureExt;

use crate::{
    backoff::Backoff,
    moment::from_now,
    turns::{AFTER_PANIC, Next},
};

/// Reason of the event that its author gets.
pub const PANICKED: &str = "InternalError";

/// Pauses after panics about one object in a row, where nothing is held for it.
pub const PAUSES: Backoff = Backoff::new(AFTER_PANIC, Duration::from_mins(5));

/// How much of a panic's words is told, in bytes: they may quote anybody.
const TOLD: usize = 512;

/// Of this process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many panics were caught here since the start.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// What the author is told.
pub fn note(panic: &str) -> String {
    format!("a mistake in Pilotage, please report it: {panic}; it tries again after a pause")
}

/// Runs a step; the panic's own words if there was one.
pub fn caught<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| counted(&*panic))
}

/// Waits for the end of some work; the panic's own words if there was one.
pub async fn caught_async<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.map_err(|panic| counted(&*panic))
}

fn counted(panic: &(dyn Any + Send)) -> String {
    COUNT.fetch_add(1, Ordering::Relaxed);
    words(panic)
}

/// Takes one key's turn; if it panics, tells the panic's words, and asks for another turn after a pause.
pub async fn caught_turn(turn: impl Future<Output = Next>, tell: impl FnOnce(&str)) -> Next {
    match caught_async(turn).await {
        Ok(next) => next,
        Err(panic) => {
            tell(&panic);
            Next::At(from_now(AFTER_PANIC))
        }
    }
}

/// Does some work, and again after a pause each time that it panics; the panics' words are told.
pub async fn retried<W: Future>(
    mut work: impl FnMut() -> W,
    mut tell: impl FnMut(&str),
) -> W::Output {
    let mut failures = 0_u32;
    loop {
        // Even to begin may panic.
        match caught_async(async { work().await }).await {
            Ok(done) => return done,
            Err(panic) => tell(&panic),
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(PAUSES.delay(failures, 0.0)).await;
    }
}

/// What a panic says.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no words");
    text[..text.floor_char_boundary(TOLD)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::turns::Turns;

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_one_turn_is_told_at_each_try_and_stops_no_other_name() {
        let (turns, waker) = Turns::new(1);
        let start = tokio::time::Instant::now();
        let log: Arc<Mutex<Vec<(&str, u64)>>> = Arc::default();
        let stop = CancellationToken::new();
        let turn = {
            let log = log.clone();
            move |name: &'static str| {
                let log = log.clone();
                let note = move |what| log.lock().unwrap().push((what, start.elapsed().as_secs()));
                async move {
                    let told = note.clone();
                    let turn = async move {
                        assert_ne!(name, "bad", "on purpose");
                        note(name);
                        Next::Rest
                    };
                    caught_turn(turn, |panic| {
                        assert!(panic.contains("on purpose"), "{panic}");
                        told("told");
                    })
                    .await
                }
                .boxed()
            }
        };
        let task = tokio::spawn(turns.run(turn, stop.clone()));
        waker.wake("bad");
        waker.wake("good");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(
            *log.lock().unwrap(),
            [("told", 0), ("good", 0), ("told", 10)]
        );
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_is_done_again_after_pauses() {
        let start = tokio::time::Instant::now();
        let (mut tries, mut told) = (0, Vec::new());
        let work = || {
            tries += 1;
            assert_ne!(tries, 1, "to begin");
            let tried = tries;
            async move {
                assert_ne!(tried, 2, "to go on");
                tried
            }
        };
        let tell = |panic: &str| told.push((start.elapsed().as_secs(), panic.to_owned()));
        assert_eq!(retried(work, tell).await, 3);
        assert_eq!(told.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 10]);
        assert!(
            told[0].1.contains("to begin") && told[1].1.contains("to go on"),
            "{told:?}"
        );
        assert_eq!(start.elapsed().as_secs(), 30);
    }

    #[test]
    fn a_panic_ends_its_step_and_tells_why() {
        assert_eq!(caught(|| 7), Ok(7));
        let number = std::hint::black_box(0_u8);
        let panics = caught(|| {
            std::hint::black_box([1][usize::from(number) + 1]);
        });
        assert!(panics.unwrap_err().contains("out of bounds"));
        let before = count();
        assert_eq!(caught::<()>(|| panic!("fixed")), Err("fixed".to_owned()));
        assert!(count() > before);
    }

    #[test]
    fn words_of_any_length_are_cut_between_characters() {
        let told = caught::<()>(|| panic!("{}", "é".repeat(TOLD))).unwrap_err();
        assert!(told.len() <= TOLD && told.ends_with('é'), "{told}");
    }
}
