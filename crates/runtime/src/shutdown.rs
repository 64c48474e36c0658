//! The end of a process: the first signal drains, the second aborts, and a deadline is hard.
//!
//! Owns signals and the deadline. Never ends the process itself: `main` does, with the outcome.

use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time to drain in: below Kubernetes' default terminationGracePeriodSeconds of 30.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(25);

/// Why work was left unfinished.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Unfinished {
    /// A second signal came while the work drained.
    #[error("aborted by a second signal while draining")]
    Aborted,
    /// The work didn't drain in time.
    #[error("work was still unfinished {0:?} after the end was asked for")]
    DeadlinePassed(Duration),
}

/// A source of requests to end.
pub trait Signals: Send {
    /// Completes when the next request arrives.
    fn next(&mut self) -> impl Future<Output = ()> + Send;
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub struct UnixSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl UnixSignals {
    /// Begins to listen; from now on the signals don't end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

impl Signals for UnixSignals {
    async fn next(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "signal received");
    }
}

/// Runs `work` to its end. The first signal cancels `token`, on which `work` is to finish what it
/// has begun; a second signal, or `limit` after the cancellation, gives up on it. If somebody else
/// cancels the token (a lost lease, a failed task), the same deadline runs.
pub async fn drain<T>(
    work: impl Future<Output = T>,
    token: &CancellationToken,
    mut signals: impl Signals,
    limit: Duration,
) -> Result<T, Unfinished> {
    tokio::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = token.cancelled() => {}
        () = signals.next() => token.cancel(),
    }
    tokio::select! {
        biased;
        done = &mut work => Ok(done),
        () = signals.next() => Err(Unfinished::Aborted),
        () = tokio::time::sleep(limit) => Err(Unfinished::DeadlinePassed(limit)),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    struct Scripted(mpsc::Receiver<()>);

    impl Signals for Scripted {
        async fn next(&mut self) {
            if self.0.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn signals(count: usize) -> Scripted {
        let (sender, receiver) = mpsc::channel(4);
        for _ in 0..count {
            sender.try_send(()).unwrap();
        }
        Scripted(receiver)
    }

    const LIMIT: Duration = Duration::from_secs(25);

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_lets_work_finish() {
        let token = CancellationToken::new();
        let work = async {
            token.cancelled().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            7
        };
        assert_eq!(drain(work, &token, signals(1), LIMIT).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_signal_aborts() {
        let token = CancellationToken::new();
        let work = std::future::pending::<()>();
        assert_eq!(
            drain(work, &token, signals(2), LIMIT).await,
            Err(Unfinished::Aborted)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_runs_from_any_cancellation() {
        let token = CancellationToken::new();
        let began = Instant::now();
        token.cancel();
        let ended = drain(std::future::pending::<()>(), &token, signals(0), LIMIT).await;
        assert_eq!(ended, Err(Unfinished::DeadlinePassed(LIMIT)));
        assert_eq!(began.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_by_itself_needs_no_signal() {
        let token = CancellationToken::new();
        assert_eq!(drain(async { 3 }, &token, signals(0), LIMIT).await, Ok(3));
        assert!(!token.is_cancelled());
    }
}
