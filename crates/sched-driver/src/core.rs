//! The scheduler behind its lock: every access ends with the wake-ups that it made necessary.
//!
//! Owns the lock, the clock, and who waits for what. The lock is never held across an await. After a panic the
//! scheduler's books agree again before anybody else looks into them.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotage_runtime::caught::{caught, words};
use pilotage_runtime::moment::{after, from_now};
use pilotage_sched::{
    Assumed, Attempt, Mishap, Moment, Orders, Paused, PodUid, Scheduler, SeededTies,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// After a mistake in the queue itself the loop looks again then.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Is told what went wrong in plugins beside attempts.
pub(crate) type Tell = Box<dyn Fn(Mishap) + Send + Sync>;

/// Takes what has to be done to other pods.
pub(crate) type Take = Box<dyn Fn(Orders) + Send + Sync>;

/// The scheduler, shared.
pub(crate) struct Core {
    state: Mutex<State>,
    epoch: Instant,
    changed: Notify,
    /// When the turn that is under way began, in milliseconds since the epoch plus one; 0 if none is.
    turning_since: AtomicU64,
    tell: Tell,
    take: Take,
}

struct State {
    scheduler: Scheduler,
    ties: SeededTies,
    /// Binding tasks of pods held at Permit.
    held: HashMap<PodUid, oneshot::Sender<()>>,
}

/// What to do after one turn of the loop.
pub(crate) enum Turn {
    /// A pod has a node; `held` completes when its wait at Permit is over.
    Bind {
        assumed: Box<Assumed>,
        held: Option<oneshot::Receiver<()>>,
    },
    /// Extenders have a say.
    Ask(Box<Paused>),
    /// It has none, or needs none.
    Publish(Attempt),
    /// No pod was tried: more of them are due, and one that is not in the queue yet may come first.
    Again,
    /// Nothing to try before this moment, unless something changes.
    Idle(Option<Instant>),
}

impl Core {
    pub(crate) fn new(scheduler: Scheduler, seed: u64, tell: Tell, take: Take) -> Self {
        Self {
            state: Mutex::new(State {
                scheduler,
                ties: SeededTies::new(seed),
                held: HashMap::new(),
            }),
            epoch: Instant::now(),
            changed: Notify::new(),
            turning_since: AtomicU64::new(0),
            tell,
            take,
        }
    }

    /// Does something with the scheduler, then wakes whoever it concerns. A panic goes on to whoever calls.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Scheduler, Moment) -> R) -> R {
        let result = self.locked(|state| work(&mut state.scheduler, self.now()));
        self.changed.notify_one();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Asks the scheduler something that changes nothing. A panic goes on to whoever calls.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&mut Scheduler) -> R) -> R {
        let answer = self.locked(|state| question(&mut state.scheduler));
        answer.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn locked<R>(&self, work: impl FnOnce(&mut State) -> R) -> Result<R, Box<dyn Any + Send>> {
        let mut state = self.lock();
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut state)));
        if result.is_err()
            && let Err(panic) = caught(|| state.scheduler.mend(self.now()))
        {
            tracing::error!(panic, "the scheduler can't be mended");
        }
        state.wake_resolved();
        let mishaps = state.scheduler.take_mishaps();
        let orders = state.scheduler.take_orders();
        drop(state);
        if !orders.is_empty() {
            (self.take)(orders);
        }
        for mishap in mishaps {
            (self.tell)(mishap);
        }
        result
    }

    /// Tries the next pod.
    pub(crate) fn turn(&self) -> Turn {
        self.turning_since
            .store(self.millis().saturating_add(1), Ordering::Relaxed);
        let turn = self.take_turn();
        self.turning_since.store(0, Ordering::Relaxed);
        turn
    }

    /// How long the turn that is under way has taken. Takes no lock, so that it answers even if a plugin
    /// hangs in one.
    pub(crate) fn turning_for(&self) -> Option<Duration> {
        let since = self.turning_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.millis().saturating_sub(since)))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn take_turn(&self) -> Turn {
        // Without it pods come back later than they should, or not at all, but others can be tried.
        let flushed = self.locked(|state| state.scheduler.flush(self.now()));
        let turn = self.locked(|state| {
            let State {
                scheduler,
                ties,
                held,
            } = state;
            // More are due than one flush moves, or an event came between: one of these may come first.
            if flushed.is_ok() && scheduler.is_due(self.now()) {
                return Turn::Again;
            }
            match scheduler.schedule_next(self.now(), ties) {
                Some(attempt) => next_step(attempt, held),
                None => Turn::Idle(
                    scheduler
                        .next_deadline()
                        .map(|moment| after(self.epoch, moment.since_epoch())),
                ),
            }
        });
        let (turn, panic) = match (turn, flushed) {
            (Ok(turn), Ok(_)) => return turn,
            (Ok(Turn::Idle(_)), Err(panic)) | (Err(panic), _) => {
                (Turn::Idle(Some(from_now(AFTER_PANIC))), panic)
            }
            (Ok(turn), Err(panic)) => (turn, panic),
        };
        tracing::error!(panic = words(&*panic), "the scheduler's queue panicked");
        turn
    }

    /// Goes on with an attempt whose extenders have answered; `None` if the scheduler's books are broken.
    pub(crate) fn resume(&self, paused: Paused) -> Option<Turn> {
        let turn = self.locked(|state| {
            let State {
                scheduler,
                ties,
                held,
            } = state;
            next_step(scheduler.resume(paused, self.now(), ties), held)
        });
        self.changed.notify_one();
        match turn {
            Ok(turn) => Some(turn),
            Err(panic) => {
                tracing::error!(panic = words(&*panic), "the scheduler panicked");
                None
            }
        }
    }

    /// Completes when something has changed since the last time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Time since `earlier`.
    pub(crate) fn since(&self, earlier: Moment) -> Duration {
        self.now().since(earlier)
    }

    /// The time on the scheduler's clock.
    pub(crate) fn now(&self) -> Moment {
        Moment::after_epoch(self.epoch.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic it was mended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next_step(attempt: Attempt, held: &mut HashMap<PodUid, oneshot::Sender<()>>) -> Turn {
    match attempt {
        Attempt::Assumed(assumed) => {
            let held = assumed.waits().then(|| {
                let (sender, receiver) = oneshot::channel();
                held.insert(assumed.uid().clone(), sender);
                receiver
            });
            Turn::Bind { assumed, held }
        }
        Attempt::Asks(paused) => Turn::Ask(paused),
        attempt => Turn::Publish(attempt),
    }
}

impl State {
    fn wake_resolved(&mut self) {
        for uid in self.scheduler.take_resolved() {
            if let Some(held) = self.held.remove(&uid) {
                // Nobody listens if the driver is ending.
                let _ = held.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
