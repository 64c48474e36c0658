//! Our scheduler's queue, as a driver turns it: time passes, pods are tried one after the other and stay until they
//! have a node, and who waits for an event is told. It has no clock: it is told how much time passes.

use std::time::Duration;

use pilotage_sched::{Attempt, SeededTies};

use super::{Outcome, Subject, unplaced};
use crate::side::SideError;

/// A pod that waits for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its namespace and name.
    pub pod: String,
    /// The plugins whose events bring it back.
    pub plugins: Vec<&'static str>,
}

impl Subject {
    /// So much time passes: backoff may be over.
    pub fn pass(&mut self, span: Duration) -> Result<(), SideError> {
        self.now = self.now.after(span);
        let now = self.now;
        let scheduler = self.scheduler()?;
        while scheduler.flush(now).more {}
        Ok(())
    }

    /// Tries the next pod of the queue, by namespace and name: ties are decided by the seed. `None` if nobody is to be
    /// tried now. A pod without a node is back in the queue then, and no watch has shown yet what became of it.
    pub fn turn(&mut self, seed: u64) -> Result<Option<(String, Outcome)>, SideError> {
        let now = self.now;
        let scheduler = self.scheduler()?;
        let refused = |text: String| SideError::refused("turn", &text);
        // What an event has left to be tried later comes first.
        while scheduler.flush(now).more {}
        let Some(attempt) = scheduler.schedule_next(now, &mut SeededTies::new(seed)) else {
            return Ok(None);
        };
        let pod = attempt.pod().key.to_string();
        let outcome = match attempt {
            Attempt::Assumed(assumed) => {
                let node = assumed.node().to_string();
                scheduler
                    .start_binding(assumed.uid())
                    .map_err(|status| refused(status.to_string()))?;
                scheduler.bound(*assumed, now);
                Outcome::Placed(node)
            }
            Attempt::Failed(failure) => Outcome::Failed(unplaced(scheduler, &failure, now)),
            Attempt::Skipped(skipped) => {
                return Err(refused(format!("{pod} was skipped: {:?}", skipped.why)));
            }
            Attempt::Asks(_) => return Err(refused(format!("{pod} asks extenders"))),
        };
        Ok(Some((pod, outcome)))
    }

    /// The pods that wait for an event, by namespace and name. Neither gated ones, nor those that time brings back.
    pub fn waiting(&mut self) -> Result<Vec<Waiting>, SideError> {
        let queued = self.scheduler()?.unschedulable_pods();
        let queued = queued.filter(|queued| queued.gate().is_none());
        let mut waiting: Vec<Waiting> = queued
            .map(|queued| Waiting {
                pod: queued.pod.key.to_string(),
                plugins: queued
                    .rejected_by
                    .union(&queued.pending_by)
                    .copied()
                    .collect(),
            })
            .collect();
        waiting.sort_by(|one, other| one.pod.cmp(&other.pod));
        Ok(waiting)
    }

    /// Has all pods that wait for an event tried without one, as happens after five minutes.
    pub fn wake(&mut self) -> Result<(), SideError> {
        let scheduler = self.scheduler()?;
        let queued = scheduler.unschedulable_pods();
        let queued = queued.filter(|queued| queued.gate().is_none());
        let uids: Vec<_> = queued.map(|queued| queued.pod.uid.clone()).collect();
        for uid in uids {
            scheduler.activate(&uid);
        }
        Ok(())
    }
}
