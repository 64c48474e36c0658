//! What the passing of time does to the queue. It has no clock: whoever has one calls.

use std::time::Duration;

use super::hints::Worth;
use super::kindred::Help;
use super::{Place, Queue, arrivals};
use crate::moment::Moment;
use crate::names::PodUid;

/// How often pods that waited too long are looked for.
pub(super) const UNSCHEDULABLE_FLUSH: Duration = Duration::from_secs(30);

/// So many pods at most are moved by one [`Queue::flush`]: a pod with many rules takes tens of microseconds, and others
/// wait for the lock.
pub(super) const SLICE: usize = 256;

/// So many at most are moved by one event, since events come in bursts.
pub(super) const BY_EVENT: usize = 32;

/// What a flush did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// How many pods it moved.
    pub moved: usize,
    /// Whether more pods are due: flush again before the next pod is tried, since one of them may come first.
    pub more: bool,
}

impl Queue {
    /// Moves some of the pods whose time has come.
    pub fn flush(&mut self, now: Moment) -> Flushed {
        let mut flushed = Flushed::default();
        for _ in 0..SLICE {
            let Some(moved) = self.flush_one(now) else {
                return flushed;
            };
            flushed.moved = flushed.moved.saturating_add(usize::from(moved));
        }
        flushed.more = self.next_deadline().is_some_and(|deadline| deadline <= now);
        flushed
    }

    /// An event helps a pod, which is brought back later, and once, however many events help it until then.
    pub(super) fn help_later(&mut self, uid: PodUid, mut help: Help) {
        if let Some(before) = self.helped.get(&uid)
            && let Some(queued) = self.pool.get(&uid)
            && before.is_for(queued.waits_since)
        {
            help.worth = help.worth.max(before.worth);
        }
        self.helped.insert(uid, help);
    }

    /// The next pod that an event has helped, if there is one, with the best that any has done for it; `None` of that
    /// if it has been tried since.
    pub(super) fn next_helped(&mut self) -> Option<(PodUid, Option<Help>)> {
        if self.helped.is_empty() {
            for (uid, help) in self.pool.tell_helped(SLICE) {
                self.help_later(uid, help);
            }
        }
        let (uid, help) = self.helped.pop_first()?;
        let Some(queued) = self.pool.get(&uid) else {
            return Some((uid, None));
        };
        // As one of many it may be helped more than alone.
        let as_one_of_many = self.pool.help_for(queued);
        let own = Some(&help).filter(|help| help.is_for(queued.waits_since));
        let each = own.into_iter().chain(as_one_of_many);
        let best = each.max_by_key(|help| help.worth).cloned();
        Some((uid, best))
    }

    /// Brings back one pod that an event has helped, if there is one: whether it has moved.
    pub(super) fn bring_back_helped(&mut self, now: Moment) -> Option<bool> {
        let (uid, help) = self.next_helped()?;
        let taken = help.and_then(|help| Some((self.take_waiting(&uid)?, help)));
        let place = taken.map(|(queued, help)| self.bring_back(queued, help.worth, &help.why, now));
        Some(place.is_some_and(|place| place != Place::Gated))
    }

    /// Looks at one pod that is due, if there is one: whether it has moved.
    fn flush_one(&mut self, now: Moment) -> Option<bool> {
        for heap in [&mut self.rejected_backoff, &mut self.failed_backoff] {
            let first = heap.peek();
            if first.is_some_and(|first| !self.config.is_backing_off(first, now))
                && let Some(queued) = heap.pop()
            {
                // PreEnqueue ran when the pod entered the backoff queue.
                self.arrivals.count(Place::Active, arrivals::BACKOFF_OVER);
                self.active.push(queued);
                return Some(true);
            }
        }
        if let Some(moved) = self.bring_back_helped(now) {
            return Some(moved);
        }
        if self.tired.is_empty() && now >= self.next_unschedulable_flush {
            self.next_unschedulable_flush = now.after(UNSCHEDULABLE_FLUSH);
            let waited = self.pool.iter();
            let tired = waited.filter(|queued| self.config.is_tired(queued, now));
            self.tired = tired.map(|queued| queued.pod.uid.clone()).collect();
        }
        let uid = self.tired.pop_front()?;
        // It may have been brought back meanwhile, and rejected again.
        let waiting = self.pool.get(&uid);
        let is_tired = waiting.is_some_and(|queued| self.config.is_tired(queued, now));
        let taken = is_tired.then(|| self.take_waiting(&uid)).flatten();
        let Some(queued) = taken else {
            return Some(false);
        };
        let why = arrivals::WAITED_TOO_LONG;
        let place = self.bring_back(queued, Worth::AfterBackoff, why, now);
        Some(place != Place::Gated)
    }

    /// When [`Queue::flush`] has something to do next.
    pub fn next_deadline(&self) -> Option<Moment> {
        let backoff = [&self.rejected_backoff, &self.failed_backoff]
            .into_iter()
            .filter_map(|heap| heap.peek().map(|first| self.config.backoff_end(first)))
            .min();
        let is_helped = !self.helped.is_empty() || self.pool.is_helped();
        let is_due = is_helped || !self.tired.is_empty();
        let at_once = is_due.then_some(Moment::ZERO);
        let waiting = !self.pool.is_empty();
        let unschedulable = waiting.then_some(self.next_unschedulable_flush);
        backoff
            .into_iter()
            .chain(at_once)
            .chain(unschedulable)
            .min()
    }
}

#[cfg(test)]
mod tests;
