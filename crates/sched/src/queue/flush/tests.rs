use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BY_EVENT, Flushed, SLICE};
use crate::event::Event;
use crate::queue::tests::{at, gate, named, node_added, queue_with, rejected};
use crate::queue::{Place, Queue, QueueConfig};
use crate::test_objects::{pod, uid};

/// More than two slices, and a rest.
const PODS: usize = 2 * SLICE + 20;

fn name(number: usize) -> String {
    format!("p{number:05}")
}

/// A queue of pods that were all rejected by this plugin at 0; each comes before those that were added before it.
fn waiting(by: &'static str, open: &Arc<AtomicBool>) -> Queue {
    let mut queue = queue_with(QueueConfig::default(), Some(gate(open)));
    for number in 0..PODS {
        let priority = i32::try_from(number).unwrap();
        queue.add(pod(&name(number)).priority(priority).info(), at(0));
    }
    let popped = std::iter::from_fn(|| queue.pop(at(0))).collect::<Vec<_>>();
    for queued in popped {
        let place = queue.requeue(queued, rejected(&[by]), at(0));
        assert_eq!(place, Place::Unschedulable);
    }
    queue
}

fn open() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

#[test]
fn many_backoffs_that_end_at_once_are_flushed_in_slices() {
    let mut queue = waiting("Nodes", &open());
    assert_eq!(queue.on_event(&node_added(), at(0)), PODS);
    while queue.flush(at(0)).more {}
    let due = queue.next_deadline().unwrap();
    for (moved, more) in [(SLICE, true), (SLICE, true), (20, false), (0, false)] {
        assert!(queue.next_deadline().is_none_or(|at| at <= due));
        assert_eq!(queue.flush(due), Flushed { moved, more });
    }
    assert_eq!(queue.next_deadline(), None);
    let order = std::iter::from_fn(|| named(queue.pop(due)));
    assert!(order.eq((0..PODS).rev().map(name)));
}

#[test]
fn a_full_slice_need_not_leave_more() {
    let mut queue = waiting("Nodes", &open());
    for number in SLICE..PODS {
        queue.delete(&uid(&name(number)));
    }
    assert_eq!(queue.on_event(&node_added(), at(0)), SLICE);
    while queue.flush(at(0)).more {}
    let due = queue.next_deadline().unwrap();
    let (moved, more) = (SLICE, false);
    assert_eq!(queue.flush(due), Flushed { moved, more });
}

#[test]
fn many_that_waited_too_long_are_flushed_in_slices() {
    let open = open();
    let mut queue = waiting("Deaf", &open);
    let (moved, more) = (SLICE, true);
    assert_eq!(queue.flush(at(330_000)), Flushed { moved, more });
    let now = at(330_001);
    assert!(queue.next_deadline().unwrap() <= now);
    // Meanwhile one goes, one is tried and rejected again, and the gate of the others closes.
    let [gone, tried] = [PODS - 1, PODS - 2].map(|number| uid(&name(number)));
    queue.delete(&gone);
    queue.activate(&tried);
    let queued = queue.pop(now).unwrap();
    assert_eq!(queued.pod.uid, tried);
    queue.requeue(queued, rejected(&["Deaf"]), now);
    open.store(false, Ordering::SeqCst);
    for (moved, more) in [(0, true), (0, false)] {
        assert_eq!(queue.flush(now), Flushed { moved, more });
    }
    assert_eq!(queue.place(&gone), None);
    assert_eq!(queue.place(&tried), Some(Place::Unschedulable));
    let size = queue.size();
    let places = [size.active, size.unschedulable, size.gated];
    assert_eq!(places, [SLICE, 1, PODS - SLICE - 2]);
    assert_eq!(queue.next_deadline(), Some(at(360_000)), "not at once");
}

#[test]
fn of_a_burst_of_events_each_pod_is_kept_once() {
    let mut queue = waiting("Nodes", &open());
    for events in 1..=3 {
        queue.on_event(&node_added(), at(0));
        assert_eq!(queue.helped.len(), PODS - events * BY_EVENT);
    }
    let mut slices = 1;
    while queue.flush(at(0)).more {
        slices += 1;
    }
    assert_eq!((queue.size().backoff, slices), (PODS, 2));
}

#[test]
fn many_that_an_event_helps_come_back_in_slices() {
    let mut queue = waiting("Nodes", &open());
    assert_eq!(queue.on_event(&node_added(), at(0)), PODS);
    assert_eq!(queue.size().backoff, BY_EVENT);
    assert_eq!(queue.next_deadline(), Some(at(0)));
    // Meanwhile one goes, one is tried and rejected again, and one is helped by another event.
    let [gone, tried, helped] = [1, 2, 3].map(|last| uid(&name(PODS - last)));
    queue.delete(&gone);
    queue.activate(&tried);
    let queued = queue.pop(at(0)).unwrap();
    assert_eq!(queued.pod.uid, tried);
    queue.requeue(queued, rejected(&["Nodes"]), at(0));
    queue.update(
        pod(&name(PODS - 3)).priority(0).info(),
        &[Event::wildcard()],
        at(0),
    );
    assert_eq!(queue.place(&helped), Some(Place::Backoff));
    for (moved, more) in [(SLICE, true), (PODS - BY_EVENT - SLICE - 3, false)] {
        assert_eq!(queue.flush(at(0)), Flushed { moved, more });
    }
    assert_eq!(queue.place(&gone), None);
    assert_eq!(queue.place(&tried), Some(Place::Unschedulable));
    let size = queue.size();
    assert_eq!([size.backoff, size.unschedulable], [PODS - 2, 1]);
}

#[test]
fn many_of_one_kind_come_back_in_slices_and_each_is_told_once() {
    let open = open();
    let mut queue = queue_with(QueueConfig::default(), Some(gate(&open)));
    let one = pod("one").info();
    let named = |number: usize| {
        let mut info = (*one).clone();
        info.uid = uid(&name(number));
        Arc::new(info)
    };
    for number in 0..PODS {
        queue.add(named(number), at(0));
    }
    let popped = std::iter::from_fn(|| queue.pop(at(0))).collect::<Vec<_>>();
    for queued in popped {
        queue.requeue(queued, rejected(&["Alike"]), at(0));
    }
    assert_eq!(queue.on_event(&node_added(), at(0)), PODS);
    assert_eq!(queue.size().backoff, BY_EVENT);
    assert!(queue.helped.len() < SLICE, "the others are kept as one");
    // The gate closes for the others: held back, they are no news any more.
    open.store(false, Ordering::SeqCst);
    for more in [true, false] {
        assert_eq!(queue.flush(at(0)), Flushed { moved: 0, more });
    }
    let size = queue.size();
    assert_eq!([size.backoff, size.gated], [BY_EVENT, PODS - BY_EVENT]);
    assert_eq!(queue.flush(at(0)), Flushed::default());
}
