//! Owns the pods that look for a node: which is tried next, which stay back and how long, which wait for an
//! event, which may not be tried at all. No clock, no tasks: the caller pops, reports events, and flushes at
//! [`Queue::next_deadline`]. Knows nothing of nodes.
//!
//! A pod is in exactly one place: *active* (a heap by `QueueSort`), *backoff* (two heaps by expiry: one for pods
//! that plugins rejected, one for pods that failed by error), *unschedulable*, *gated*, or *in flight* (popped and
//! not done). Places, numbers and hints are those of kube-scheduler 1.36.

mod arrivals;
mod backoff;
mod circle;
mod flush;
mod heap;
mod helped;
mod hints;
mod in_flight;
mod kindred;
mod place;
mod pool;
mod queued;
mod reads;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use self::arrivals::Arrivals;
pub use self::backoff::QueueConfig;
pub use self::flush::Flushed;
use self::flush::{BY_EVENT, UNSCHEDULABLE_FLUSH};
use self::heap::Heap;
use self::hints::{Hints, Worth};
use self::in_flight::{Happened, InFlight};
use self::kindred::Help;
pub use self::place::{Outcome, Place, QueueSize};
use self::pool::Pool;
pub use self::queued::{Gate, QueuedPod};
use crate::event::Event;
use crate::guard::{Mishaps, caught, guarded};
use crate::moment::Moment;
use crate::names::PodUid;
use crate::plugin::{PreEnqueue, QueueSort};
use crate::pod_info::PodInfo;
use crate::profile::{ProfileError, Profiles};
use crate::status::Status;

/// The scheduling queue.
pub struct Queue {
    config: QueueConfig,
    active: Heap,
    rejected_backoff: Heap,
    failed_backoff: Heap,
    pool: Pool,
    in_flight: InFlight,
    pre_enqueue: BTreeMap<Arc<str>, Vec<Arc<dyn PreEnqueue>>>,
    hints: Hints,
    arrivals: Arrivals,
    sequence: u64,
    next_unschedulable_flush: Moment,
    // Those that an event helps, and that haven't been brought back yet; the pool keeps it for those who are alike.
    helped: BTreeMap<PodUid, Help>,
    // Those that had waited too long when they were looked for last, and haven't been brought back yet.
    tired: VecDeque<PodUid>,
    mishaps: Arc<Mishaps>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// An empty queue for pods of these profiles.
    pub fn new(profiles: &Profiles, config: QueueConfig) -> Result<Self, ProfileError> {
        let sort = profiles
            .queue_sort()
            .ok_or(ProfileError::NoProfile)?
            .clone();
        let active = by_sort(sort.clone());
        let expiry = move |pod: &QueuedPod| config.expiry(pod);
        let rejected = move |a: &QueuedPod, b: &QueuedPod| {
            let by_expiry = expiry(a).cmp(&expiry(b));
            by_expiry.then_with(|| compare(&*sort, a, b))
        };
        let failed = move |a: &QueuedPod, b: &QueuedPod| expiry(a).cmp(&expiry(b));
        let mishaps = Arc::<Mishaps>::default();
        Ok(Self {
            config,
            active: Heap::new(active),
            rejected_backoff: Heap::new(Arc::new(rejected)),
            failed_backoff: Heap::new(Arc::new(failed)),
            pool: Pool::default(),
            in_flight: InFlight::default(),
            pre_enqueue: profiles
                .iter()
                .map(|profile| (profile.name().clone(), profile.pre_enqueues().to_vec()))
                .collect(),
            hints: Hints::new(profiles, mishaps.clone()),
            arrivals: Arrivals::default(),
            sequence: 0,
            next_unschedulable_flush: Moment::after_epoch(UNSCHEDULABLE_FLUSH),
            helped: BTreeMap::new(),
            tired: VecDeque::new(),
            mishaps,
        })
    }

    /// Adds a pod, or takes its newer version. A pod in flight stays there; see [`Queue::requeue`].
    pub fn add(&mut self, pod: Arc<PodInfo>, now: Moment) -> Place {
        if let Some(place) = self.place(&pod.uid) {
            self.replace(pod);
            return place;
        }
        self.sequence = self.sequence.saturating_add(1);
        let queued = QueuedPod::new(pod, now, self.sequence);
        self.activate_or_gate(queued, arrivals::ADDED)
    }

    /// Takes a newer version of a pod and the events that tell how it differs; adds it if it isn't here.
    pub fn update(&mut self, pod: Arc<PodInfo>, changes: &[Event], now: Moment) -> Place {
        let uid = pod.uid.clone();
        match self.place(&uid) {
            None => return self.add(pod, now),
            Some(Place::InFlight) => {
                for change in changes {
                    self.remember(change);
                }
                return Place::InFlight;
            }
            Some(place @ (Place::Active | Place::Backoff)) => {
                self.replace(pod);
                return place;
            }
            Some(Place::Unschedulable | Place::Gated) => self.replace(pod),
        }
        for change in changes {
            let worth = self
                .waiting(&uid)
                .map(|queued| self.hints.worth(queued, change));
            if let Some(worth @ (Worth::AfterBackoff | Worth::AtOnce)) = worth {
                return match self.take_waiting(&uid) {
                    Some(queued) => self.bring_back(queued, worth, &change.to_string(), now),
                    None => Place::Unschedulable,
                };
            }
        }
        self.place(&uid).unwrap_or(Place::Unschedulable)
    }

    /// Drops a pod. A pod in flight stays there until it is done; it must not be requeued then.
    pub fn delete(&mut self, uid: &PodUid) {
        let _ = self
            .active
            .remove(uid)
            .or_else(|| self.rejected_backoff.remove(uid))
            .or_else(|| self.failed_backoff.remove(uid))
            .or_else(|| self.take_waiting(uid));
    }

    /// The next pod to try; it is in flight until [`Queue::done`] or [`Queue::requeue`].
    pub fn pop(&mut self, now: Moment) -> Option<QueuedPod> {
        let mut queued = self.active.pop().or_else(|| {
            // Nothing better to do. Pods that failed by error stay back: trying them costs somebody.
            if self.config.pop_from_backoff {
                self.rejected_backoff.pop()
            } else {
                None
            }
        })?;
        queued.attempts = queued.attempts.saturating_add(1);
        queued.first_tried_at.get_or_insert(now);
        queued.rejected_by.clear();
        queued.pending_by.clear();
        self.in_flight.start(queued.pod.uid.clone());
        Some(queued)
    }

    /// Says that a popped pod doesn't come back as *rejected*: it was placed, dropped, or is being bound.
    pub fn done(&mut self, uid: &PodUid) {
        self.in_flight.finish(uid);
    }

    /// Takes a pod that a mistake has lost; it is tried after a backoff, lest the mistake is made again at once.
    pub(crate) fn recover(&mut self, pod: Arc<PodInfo>, now: Moment) {
        self.sequence = self.sequence.saturating_add(1);
        let queued = QueuedPod::new(pod, now, self.sequence);
        self.requeue(queued, Outcome::Failed, now);
    }

    /// The pods that are being tried or bound.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &PodUid> {
        self.in_flight.uids()
    }

    /// What went wrong in plugins that nobody else tells.
    pub(crate) fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// Brings a popped pod back. `queued.pod` must be its newest version.
    pub fn requeue(&mut self, mut queued: QueuedPod, outcome: Outcome, now: Moment) -> Place {
        let uid = queued.pod.uid.clone();
        self.delete(&uid);
        queued.queued_at = now;
        let (by, pending) = match outcome {
            Outcome::Rejected { by, pending } => (by, pending),
            Outcome::Failed => (BTreeSet::new(), BTreeSet::new()),
        };
        // A pod that was done can't wait for an event, since it may have missed it; and it must not be taken
        // early by an idle scheduler, which would try it again and again without a pause.
        let done = !self.in_flight.contains(&uid);
        if done || (by.is_empty() && pending.is_empty()) {
            queued.consecutive_errors = queued.consecutive_errors.saturating_add(1);
        } else {
            queued.consecutive_errors = 0;
            queued.rejections = queued.rejections.saturating_add(1);
        }
        queued.rejected_by = by;
        queued.pending_by = pending;
        let (worth, activated) = self.meanwhile(&queued);
        self.in_flight.finish(&uid);
        if activated {
            return self.activate_or_gate(queued, arrivals::ACTIVATED);
        }
        if worth == Worth::Nothing {
            self.arrivals
                .count(Place::Unschedulable, arrivals::ATTEMPT_FAILED);
            self.pool.insert(queued, &self.hints);
            return Place::Unschedulable;
        }
        self.bring_back(queued, worth, arrivals::ATTEMPT_FAILED, now)
    }

    /// What the events during a pod's try are worth to it, and whether somebody activated it.
    fn meanwhile(&self, queued: &QueuedPod) -> (Worth, bool) {
        let uid = &queued.pod.uid;
        let Some(missed) = self.in_flight.since(uid) else {
            return (Worth::AfterBackoff, false);
        };
        let mut best = if queued.failed_by_error() {
            Worth::AfterBackoff
        } else {
            Worth::Nothing
        };
        let mut activated = false;
        for happened in missed {
            match happened {
                Happened::Event(event) if best < Worth::AtOnce => {
                    best = best.max(self.hints.worth(queued, event));
                }
                Happened::Event(_) => {}
                Happened::Activated(other) => activated |= other == uid,
            }
        }
        (best, activated)
    }

    /// Keeps an event for the pods in flight.
    fn remember(&mut self, event: &Event) {
        if self.hints.concerns_anybody(event) {
            self.in_flight.record(Happened::Event(event.clone()));
        }
    }

    /// Brings back the waiting pods that the event may help, some of them with the next [`Queue::flush`] if they are
    /// many; how many it may help, though a gate may hold some of them.
    pub fn on_event(&mut self, event: &Event, now: Moment) -> usize {
        self.on_event_but(event, None, now)
    }

    /// As [`Queue::on_event`], for an event that one pod caused itself and that can't help it.
    pub(crate) fn on_event_but(
        &mut self,
        event: &Event,
        not: Option<&PodUid>,
        now: Moment,
    ) -> usize {
        if !self.hints.concerns_anybody(event) {
            return 0;
        }
        self.remember(event);
        let helped = self.help(event, not);
        for _ in 0..BY_EVENT {
            if self.bring_back_helped(now).is_none() {
                break;
            }
        }
        helped
    }

    /// Tries a pod as soon as possible: runs `PreEnqueue`, and skips backoff. Where it is now; `None` if it
    /// isn't here. A pod in flight goes to the active queue when it comes back.
    pub fn activate(&mut self, uid: &PodUid) -> Option<Place> {
        if self.in_flight.contains(uid) {
            self.in_flight.record(Happened::Activated(uid.clone()));
            return Some(Place::InFlight);
        }
        if self.active.contains(uid) {
            return Some(Place::Active);
        }
        let queued = self
            .rejected_backoff
            .remove(uid)
            .or_else(|| self.failed_backoff.remove(uid))
            .or_else(|| self.take_waiting(uid))?;
        Some(self.activate_or_gate(queued, arrivals::ACTIVATED))
    }

    /// All that were evicted for a pod have gone: it is worth a try, whatever hints made of their end.
    pub(crate) fn room_made(&mut self, uid: &PodUid, now: Moment) {
        if self.in_flight.contains(uid) {
            self.in_flight.record(Happened::Activated(uid.clone()));
        } else if let Some(queued) = self.take_waiting(uid) {
            self.bring_back(queued, Worth::AfterBackoff, arrivals::EVICTED, now);
        }
    }

    /// Others couldn't be evicted for a pod. It is tried again as if its try had failed by error, since no event may
    /// ever bring it back, and after pauses that grow, since whoever refuses may do so again.
    pub(crate) fn eviction_failed(&mut self, uid: &PodUid, now: Moment) {
        if self.in_flight.contains(uid) {
            self.in_flight.record(Happened::Activated(uid.clone()));
            return;
        }
        let queued = self
            .rejected_backoff
            .remove(uid)
            .or_else(|| self.failed_backoff.remove(uid))
            .or_else(|| self.take_waiting(uid));
        if let Some(mut queued) = queued {
            queued.queued_at = now;
            queued.failed_evictions = queued.failed_evictions.saturating_add(1);
            // Each try that found whom to evict was a rejection, which ends the errors in a row.
            let in_a_row = queued.consecutive_errors.saturating_add(1);
            queued.consecutive_errors = in_a_row.max(queued.failed_evictions);
            self.bring_back(queued, Worth::AfterBackoff, arrivals::EVICTED, now);
        }
    }

    /// Where a pod is; `None` if it isn't here.
    pub fn place(&self, uid: &PodUid) -> Option<Place> {
        if self.active.contains(uid) {
            Some(Place::Active)
        } else if self.rejected_backoff.contains(uid) || self.failed_backoff.contains(uid) {
            Some(Place::Backoff)
        } else if self.pool.is_gated(uid) {
            Some(Place::Gated)
        } else if self.pool.get(uid).is_some() {
            Some(Place::Unschedulable)
        } else if self.in_flight.contains(uid) {
            Some(Place::InFlight)
        } else {
            None
        }
    }

    /// A pod that waits for an event, gated ones included.
    pub fn waiting(&self, uid: &PodUid) -> Option<&QueuedPod> {
        self.pool.get(uid)
    }

    /// The pods that wait for an event, then the gated ones, each by UID.
    pub fn unschedulable(&self) -> impl Iterator<Item = &QueuedPod> {
        self.pool.iter()
    }

    /// How many pods are where.
    pub fn size(&self) -> QueueSize {
        let rejected = self.rejected_backoff.len();
        let (unschedulable, gated) = self.pool.len();
        QueueSize {
            active: self.active.len(),
            backoff: rejected.saturating_add(self.failed_backoff.len()),
            unschedulable,
            gated,
            in_flight_events: self.in_flight.events(),
        }
    }

    /// How pods came to their places, for metrics.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn take_waiting(&mut self, uid: &PodUid) -> Option<QueuedPod> {
        self.helped.remove(uid);
        self.pool.remove(uid, &self.hints)
    }

    /// Puts a newer version in place, wherever the pod is (not in flight).
    fn replace(&mut self, pod: Arc<PodInfo>) {
        // Its kindred may be others from now on.
        let waiting = self.pool.get(&pod.uid);
        if let Some(help) = waiting.and_then(|queued| self.pool.help_for(queued)) {
            self.help_later(pod.uid.clone(), help.clone());
        }
        for heap in [
            &mut self.active,
            &mut self.rejected_backoff,
            &mut self.failed_backoff,
        ] {
            if let Some(mut queued) = heap.remove(&pod.uid) {
                queued.pod = pod;
                heap.push(queued);
                return;
            }
        }
        if let Some(mut queued) = self.pool.remove(&pod.uid, &self.hints) {
            queued.pod = pod;
            self.pool.put_back(queued, &self.hints);
        }
    }

    /// Moves a pod to the active queue if it may and needn't stay back.
    fn bring_back(&mut self, queued: QueuedPod, worth: Worth, why: &str, now: Moment) -> Place {
        let stays_back = worth != Worth::AtOnce && self.config.is_backing_off(&queued, now);
        let place = if stays_back {
            Place::Backoff
        } else {
            Place::Active
        };
        self.put(queued, place, why)
    }

    fn activate_or_gate(&mut self, queued: QueuedPod, why: &str) -> Place {
        self.put(queued, Place::Active, why)
    }

    /// Puts a pod into the active or the backoff queue, unless a gate holds it.
    fn put(&mut self, mut queued: QueuedPod, place: Place, why: &str) -> Place {
        queued.gate = self.gate(&queued);
        if let Some(Gate {
            status: Status::Error(error),
            ..
        }) = &queued.gate
        {
            self.mishaps.note(&queued.pod, error.clone());
        }
        let place = if queued.gate.is_some() {
            Place::Gated
        } else {
            place
        };
        self.arrivals.count(place, why);
        match place {
            Place::Gated => self.pool.insert(queued, &self.hints),
            Place::Backoff if queued.failed_by_error() => self.failed_backoff.push(queued),
            Place::Backoff => self.rejected_backoff.push(queued),
            _ => self.active.push(queued),
        }
        place
    }

    /// Runs `PreEnqueue`, the plugin that gated the pod last time first, up to the first that says no.
    fn gate(&self, queued: &QueuedPod) -> Option<Gate> {
        let last = queued.gate.as_ref().map(|gate| gate.plugin);
        let plugins = self.pre_enqueue.get(&queued.pod.scheduler_name);
        let plugins = plugins.map(Vec::as_slice).unwrap_or_default();
        let (first, others): (Vec<_>, Vec<_>) = plugins
            .iter()
            .partition(|plugin| Some(plugin.name()) == last);
        first.into_iter().chain(others).find_map(|plugin| {
            let name = plugin.name();
            let verdict = guarded(name, || plugin.pre_enqueue(&queued.pod));
            verdict.err().map(|status| Gate {
                plugin: name,
                status: status.by(name),
            })
        })
    }
}

fn by_sort(sort: Arc<dyn QueueSort>) -> heap::Order {
    Arc::new(move |a, b| compare(&*sort, a, b))
}

/// The order of two pods. Without an answer they are equals, and the one that came first goes first.
fn compare(sort: &dyn QueueSort, a: &QueuedPod, b: &QueuedPod) -> Ordering {
    caught(|| sort.compare(a, b)).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests;
