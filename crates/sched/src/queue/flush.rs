//! What the passing of time does to the queue. It has no clock: whoever has one calls.

use std::time::Duration;

use super::hints::Worth;
use super::{Place, Queue, arrivals};
use crate::moment::Moment;

/// How often pods that waited too long are looked for.
pub(super) const UNSCHEDULABLE_FLUSH: Duration = Duration::from_secs(30);

impl Queue {
    /// Moves the pods whose time has come; how many.
    pub fn flush(&mut self, now: Moment) -> usize {
        let mut moved = 0_usize;
        for rejected in [true, false] {
            loop {
                let heap = if rejected {
                    &mut self.rejected_backoff
                } else {
                    &mut self.failed_backoff
                };
                match heap.peek() {
                    Some(first) if !self.config.is_backing_off(first, now) => {}
                    _ => break,
                }
                // PreEnqueue ran when the pod entered the backoff queue.
                if let Some(queued) = heap.pop() {
                    self.arrivals.count(Place::Active, arrivals::BACKOFF_OVER);
                    self.active.push(queued);
                    moved = moved.saturating_add(1);
                }
            }
        }
        if now >= self.next_unschedulable_flush {
            self.next_unschedulable_flush = now.after(UNSCHEDULABLE_FLUSH);
            moved = moved.saturating_add(self.flush_unschedulable(now));
        }
        moved
    }

    fn flush_unschedulable(&mut self, now: Moment) -> usize {
        let tired = self
            .pool
            .iter()
            .filter(|queued| now.since(queued.queued_at) > self.config.max_unschedulable)
            .map(|queued| queued.pod.uid.clone())
            .collect::<Vec<_>>();
        let mut moved = 0_usize;
        for uid in tired {
            let Some(queued) = self.take_waiting(&uid) else {
                continue;
            };
            let why = arrivals::WAITED_TOO_LONG;
            let place = self.bring_back(queued, Worth::AfterBackoff, why, now);
            moved = moved.saturating_add(usize::from(place != Place::Gated));
        }
        moved
    }

    /// When [`Queue::flush`] has something to do next.
    pub fn next_deadline(&self) -> Option<Moment> {
        let backoff = [&self.rejected_backoff, &self.failed_backoff]
            .into_iter()
            .filter_map(|heap| heap.peek().map(|first| self.config.backoff_end(first)))
            .min();
        let waiting = !self.pool.is_empty();
        let unschedulable = waiting.then_some(self.next_unschedulable_flush);
        backoff.into_iter().chain(unschedulable).min()
    }
}
