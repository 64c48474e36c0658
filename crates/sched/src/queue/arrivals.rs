//! Owns the counts of how pods came to their places (`scheduler_queue_incoming_pods_total`). Knows nothing of
//! metrics libraries.

use std::collections::BTreeMap;

use super::Place;

/// A new pod came.
pub(super) const ADDED: &str = "UnscheduledPodAdd";
/// An attempt failed.
pub(super) const ATTEMPT_FAILED: &str = "ScheduleAttemptFailure";
/// A backoff ended.
pub(super) const BACKOFF_OVER: &str = "BackoffComplete";
/// Somebody asked for the pod to be tried.
pub(super) const ACTIVATED: &str = "ForceActivate";
/// A pod waited too long for an event.
pub(super) const WAITED_TOO_LONG: &str = "UnschedulableTimeout";

/// The evictions for a pod are over.
pub(super) const EVICTED: &str = "PreemptionFinished";

/// How many pods came to each place, by the event that brought them there, since the start.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(BTreeMap<Place, BTreeMap<String, u64>>);

impl Arrivals {
    pub(super) fn count(&mut self, place: Place, event: &str) {
        let events = self.0.entry(place).or_default();
        match events.get_mut(event) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                events.insert(event.to_owned(), 1);
            }
        }
    }

    /// Place, event, count.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &str, u64)> {
        self.0.iter().flat_map(|(place, events)| {
            events
                .iter()
                .map(|(event, count)| (*place, event.as_str(), *count))
        })
    }
}
