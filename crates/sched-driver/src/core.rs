//! The scheduler behind its lock: every access ends with the wake-ups that it made necessary.
//!
//! Owns the lock, the clock, and who waits for what. The lock is never held across an await.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotage_runtime::moment::after;
use pilotage_sched::{Assumed, Attempt, Moment, PodUid, Scheduler, SeededTies};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// The scheduler, shared.
pub(crate) struct Core {
    state: Mutex<State>,
    epoch: Instant,
    changed: Notify,
    /// When the turn that is under way began, in milliseconds since the epoch plus one; 0 if none is.
    turning_since: AtomicU64,
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
    /// It has none, or needs none.
    Publish(Attempt),
    /// Nothing to try before this moment, unless something changes.
    Idle(Option<Instant>),
}

impl Core {
    pub(crate) fn new(scheduler: Scheduler, seed: u64) -> Self {
        Self {
            state: Mutex::new(State {
                scheduler,
                ties: SeededTies::new(seed),
                held: HashMap::new(),
            }),
            epoch: Instant::now(),
            changed: Notify::new(),
            turning_since: AtomicU64::new(0),
        }
    }

    /// Does something with the scheduler, then wakes whoever it concerns.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Scheduler, Moment) -> R) -> R {
        let mut state = self.lock();
        let result = work(&mut state.scheduler, self.now());
        state.wake_resolved();
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Asks the scheduler something that changes nothing.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&mut Scheduler) -> R) -> R {
        question(&mut self.lock().scheduler)
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
        let mut state = self.lock();
        let now = self.now();
        let State {
            scheduler,
            ties,
            held,
        } = &mut *state;
        scheduler.flush(now);
        let turn = match scheduler.schedule_next(now, ties) {
            Some(Attempt::Assumed(assumed)) => {
                let held = assumed.waits().then(|| {
                    let (sender, receiver) = oneshot::channel();
                    held.insert(assumed.uid().clone(), sender);
                    receiver
                });
                Turn::Bind { assumed, held }
            }
            Some(attempt) => Turn::Publish(attempt),
            None => Turn::Idle(
                scheduler
                    .next_deadline()
                    .map(|moment| after(self.epoch, moment.since_epoch())),
            ),
        };
        state.wake_resolved();
        turn
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
        // A panic inside ends the driver's loop, and with it the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
