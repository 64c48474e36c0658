//! Owns the events that happen while pods are being tried, so that a pod which comes back rejected doesn't miss
//! what might have helped it. Knows nothing of what the events mean.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::event::Event;
use crate::names::PodUid;

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    Event(Event),
    /// Somebody asked for this pod to be tried at once.
    Activated(PodUid),
}

/// Pods being tried, each with its place in the list of events.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    events: VecDeque<Happened>,
    // The number of the first event in the list.
    first: u64,
    since: HashMap<PodUid, u64>,
    oldest: BTreeSet<(u64, PodUid)>,
}

impl InFlight {
    /// The number of the next event.
    fn next(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }

    pub(super) fn start(&mut self, uid: PodUid) {
        self.finish(&uid);
        let next = self.next();
        self.oldest.insert((next, uid.clone()));
        self.since.insert(uid, next);
    }

    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.since.contains_key(uid)
    }

    /// The pods being tried, in no particular order.
    pub(super) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.since.keys()
    }

    pub(super) fn record(&mut self, happened: Happened) {
        if !self.since.is_empty() {
            self.events.push_back(happened);
        }
    }

    /// What happened since the pod's try began; `None` if it isn't being tried.
    pub(super) fn since(&self, uid: &PodUid) -> Option<impl Iterator<Item = &Happened>> {
        let since = *self.since.get(uid)?;
        let before = since.saturating_sub(self.first);
        Some(self.events.range(before as usize..))
    }

    /// Ends the pod's try, and drops the events that no other pod needs.
    pub(super) fn finish(&mut self, uid: &PodUid) {
        let Some(since) = self.since.remove(uid) else {
            return;
        };
        self.oldest.remove(&(since, uid.clone()));
        let needed = match self.oldest.first() {
            Some((oldest, _)) => *oldest,
            None => self.next(),
        };
        let unneeded = needed.saturating_sub(self.first) as usize;
        self.events.drain(..unneeded);
        self.first = needed;
    }

    /// How many events are kept, for metrics.
    pub(super) fn events(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Happened, InFlight};
    use crate::event::Event;
    use crate::names::PodUid;

    fn event(name: &'static str) -> Happened {
        Happened::Event(Event::custom(name, None))
    }

    fn names(flights: &mut InFlight, uid: &PodUid) -> Vec<String> {
        let name = |h: &Happened| match h {
            Happened::Event(event) => event.to_string(),
            Happened::Activated(uid) => uid.to_string(),
        };
        let names = flights.since(uid).unwrap().map(name).collect();
        flights.finish(uid);
        names
    }

    #[test]
    fn each_pod_sees_what_came_after_it_and_the_list_is_trimmed() {
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let mut flights = InFlight::default();
        flights.record(event("nobody flies"));
        flights.start(a.clone());
        flights.record(event("1"));
        flights.start(b.clone());
        flights.record(event("2"));
        assert_eq!(names(&mut flights, &a), ["1", "2"]);
        assert_eq!(flights.events(), 1, "b needs only the second");
        flights.record(Happened::Activated(b.clone()));
        assert_eq!(names(&mut flights, &b), ["2", "b"]);
        assert_eq!(flights.events(), 0);
        assert!(flights.since(&b).is_none());
    }
}
