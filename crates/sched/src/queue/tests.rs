use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::{Outcome, Place, Queue, QueueConfig, QueuedPod};
use crate::event::{Actions, Event, EventKind, EventResource, Hint};
use crate::moment::Moment;
use crate::plugin::HintReads;
use crate::pod_info::PodInfo;
use crate::profile::Profiles;
use crate::status::{PluginName, Status};
use crate::test_objects::{pod, uid};
use crate::test_plugins::{Fake, profile};

const NODE_ADDED: EventKind = EventKind::new(EventResource::Node, Actions::ADD);

pub(super) fn at(millis: u64) -> Moment {
    Moment::after_epoch(Duration::from_millis(millis))
}

/// A queue whose filters `Nodes` and `Boards` wait for new nodes and for the board, and `Deaf` for nothing; to `Alike`
/// new nodes help all pods of a kind or none.
pub(super) fn queue_with(config: QueueConfig, gate: Option<Fake>) -> Queue {
    let nodes = Fake::new("Nodes").set(|fake| fake.events = vec![NODE_ADDED]);
    let alike = Fake::new("Alike").set(|fake| {
        fake.events = vec![NODE_ADDED];
        fake.hint_reads = HintReads::Needs;
    });
    let board = EventKind::new(EventResource::Custom("Board"), Actions::ALL);
    let boards = Fake::new("Boards").set(|fake| fake.events = vec![board]);
    let skips = Fake::new("Skips").set(|fake| {
        fake.events = vec![NODE_ADDED];
        fake.hint = Hint::Skip;
    });
    let mut builder = profile()
        .filter(Arc::new(nodes))
        .filter(Arc::new(alike))
        .filter(Arc::new(boards))
        .filter(Arc::new(skips))
        .filter(Arc::new(Fake::new("Deaf")));
    if let Some(gate) = gate {
        builder = builder.pre_enqueue(Arc::new(gate));
    }
    Queue::new(&Profiles::new([builder.build().unwrap()]).unwrap(), config).unwrap()
}

fn queue() -> Queue {
    queue_with(QueueConfig::default(), None)
}

pub(super) fn rejected(by: &[PluginName]) -> Outcome {
    Outcome::Rejected {
        by: by.iter().copied().collect(),
        pending: BTreeSet::new(),
    }
}

pub(super) fn node_added() -> Event {
    Event::node(Actions::ADD, None, None)
}

pub(super) fn named(popped: Option<QueuedPod>) -> Option<String> {
    popped.map(|queued| queued.pod.key.name.to_string())
}

fn add(queue: &mut Queue, name: &str, millis: u64) -> Place {
    queue.add(pod(name).info(), at(millis))
}

#[test]
fn priority_then_age() {
    let mut queue = queue();
    for (name, priority, millis) in [("old", 0, 0), ("new", 0, 9), ("high", 7, 20)] {
        queue.add(pod(name).priority(priority).info(), at(millis));
    }
    let order = std::iter::from_fn(|| named(queue.pop(at(30)))).collect::<Vec<_>>();
    assert_eq!(order, ["high", "old", "new"]);
}

#[test]
fn a_rejected_pod_waits_for_its_plugin_s_event() {
    let mut queue = queue();
    add(&mut queue, "a", 0);
    let popped = queue.pop(at(0)).unwrap();
    assert_eq!(
        queue.requeue(popped, rejected(&["Nodes"]), at(0)),
        Place::Unschedulable
    );
    let other = Event::pod(EventResource::AssignedPod, Actions::DELETE, None, None);
    assert_eq!(queue.on_event(&other, at(5000)), 0);
    assert_eq!(queue.on_event(&Event::custom("Board", None), at(5000)), 0);
    assert_eq!(queue.on_event(&node_added(), at(5000)), 1);
    assert_eq!(
        queue.place(&uid("a")),
        Some(Place::Active),
        "its backoff ran out while it waited"
    );
}

#[test]
fn hints_and_missing_registrations() {
    for (by, event, place) in [
        (vec!["Skips"], node_added(), Place::Unschedulable),
        (vec!["Skips", "Nodes"], node_added(), Place::Backoff),
        (vec!["Deaf"], node_added(), Place::Unschedulable),
        (vec!["Deaf"], Event::wildcard(), Place::Backoff),
        (vec!["Not in the profile"], node_added(), Place::Backoff),
    ] {
        let mut queue = queue();
        add(&mut queue, "a", 0);
        let popped = queue.pop(at(0)).unwrap();
        queue.requeue(popped, rejected(&by), at(0));
        queue.on_event(&event, at(10));
        assert_eq!(queue.place(&uid("a")), Some(place), "{by:?} {event}");
    }
}

#[test]
fn a_pending_plugin_s_event_skips_backoff() {
    let mut queue = queue();
    add(&mut queue, "a", 0);
    let popped = queue.pop(at(0)).unwrap();
    let outcome = Outcome::Rejected {
        by: BTreeSet::from(["Nodes"]),
        pending: BTreeSet::from(["Boards"]),
    };
    assert_eq!(queue.requeue(popped, outcome, at(0)), Place::Unschedulable);
    queue.on_event(&Event::custom("Board", None), at(1));
    assert_eq!(queue.place(&uid("a")), Some(Place::Active));
}

#[test]
fn events_during_the_try_are_not_missed() {
    for (events, place) in [
        (vec![], Place::Unschedulable),
        (vec![Event::custom("Board", None)], Place::Unschedulable),
        (
            vec![Event::custom("Board", None), node_added()],
            Place::Backoff,
        ),
    ] {
        let mut queue = queue();
        add(&mut queue, "a", 0);
        queue.on_event(&node_added(), at(0));
        let popped = queue.pop(at(0)).unwrap();
        for event in &events {
            queue.on_event(event, at(1));
        }
        assert_eq!(queue.requeue(popped, rejected(&["Nodes"]), at(2)), place);
        assert_eq!(queue.size().in_flight_events, 0);
    }
}

#[test]
fn after_done_a_rejection_waits_for_nothing() {
    let mut queue = queue();
    add(&mut queue, "a", 0);
    let popped = queue.pop(at(0)).unwrap();
    queue.done(&uid("a"));
    assert_eq!(queue.place(&uid("a")), None);
    assert_eq!(
        queue.requeue(popped, rejected(&["Nodes"]), at(0)),
        Place::Backoff
    );
    assert!(
        queue.pop(at(500)).is_none(),
        "not even by an idle scheduler before its time"
    );
    queue.flush(at(2000));
    assert_eq!(queue.place(&uid("a")), Some(Place::Active));
}

#[test]
fn backoff_doubles_up_to_its_limit() {
    // An idle scheduler would take the pod at once, so look at the config without that.
    let config = QueueConfig {
        pop_from_backoff: false,
        ..QueueConfig::default()
    };
    let mut queue = queue_with(config, None);
    add(&mut queue, "a", 0);
    let mut now = 0;
    for seconds in [1, 2, 4, 8, 10, 10] {
        let popped = queue.pop(at(now)).unwrap();
        assert_eq!(
            queue.requeue(popped, Outcome::Failed, at(now)),
            Place::Backoff
        );
        let end = now + seconds * 1000;
        assert_eq!(queue.next_deadline(), Some(at(end)));
        assert_eq!(queue.flush(at(end - 1)).moved, 0);
        assert_eq!(queue.flush(at(end)).moved, 1);
        now = end;
    }
    // A rejection ends the row of errors; rejections have their own count.
    let popped = queue.pop(at(now)).unwrap();
    queue.requeue(popped, rejected(&["Nodes"]), at(now));
    queue.on_event(&node_added(), at(now));
    assert_eq!(queue.next_deadline(), Some(at(now + 1000)));
}

#[test]
fn zero_switches_backoff_off() {
    let mut queue = queue_with(
        QueueConfig {
            max_backoff: Duration::ZERO,
            ..QueueConfig::default()
        },
        None,
    );
    add(&mut queue, "a", 0);
    let popped = queue.pop(at(0)).unwrap();
    assert_eq!(queue.requeue(popped, Outcome::Failed, at(0)), Place::Active);
}

#[test]
fn seconds_are_whole_when_idle_schedulers_pop_early() {
    let mut queue = queue();
    add(&mut queue, "a", 300);
    let popped = queue.pop(at(300)).unwrap();
    queue.requeue(popped, Outcome::Failed, at(300));
    // 300 ms + 1 s ends within second 1, so the pod stays back until second 2.
    assert_eq!(queue.next_deadline(), Some(at(2000)));
    assert_eq!(queue.flush(at(1999)).moved, 0);
    assert_eq!(queue.flush(at(2000)).moved, 1);
}

#[test]
fn an_idle_scheduler_takes_rejected_pods_early_but_not_failed_ones() {
    let mut queue = queue();
    for (name, priority) in [("failed", 9), ("low", 0), ("high", 5)] {
        queue.add(pod(name).priority(priority).info(), at(0));
    }
    for _ in 0..3 {
        let popped = queue.pop(at(0)).unwrap();
        let failed = &*popped.pod.key.name == "failed";
        let outcome = if failed {
            Outcome::Failed
        } else {
            rejected(&["Nodes"])
        };
        queue.requeue(popped, outcome, at(0));
    }
    queue.on_event(&node_added(), at(0));
    assert_eq!(queue.size().backoff, 3);
    let order = [
        named(queue.pop(at(1))),
        named(queue.pop(at(1))),
        named(queue.pop(at(1))),
    ];
    assert_eq!(order, [Some("high".into()), Some("low".into()), None]);
}

#[test]
fn five_minutes_without_an_event_are_enough() {
    let mut queue = queue();
    add(&mut queue, "a", 0);
    let popped = queue.pop(at(0)).unwrap();
    queue.requeue(popped, rejected(&["Deaf"]), at(0));
    let (mut now, mut moved) = (0, 0);
    while moved == 0 {
        let deadline = queue
            .next_deadline()
            .expect("a pod waits")
            .since_epoch()
            .as_millis() as u64;
        assert!(deadline > now, "the next deadline lies ahead");
        now = deadline;
        moved = queue.flush(at(now)).moved;
    }
    assert_eq!(now, 330_000, "the first look after five minutes");
    assert_eq!(queue.place(&uid("a")), Some(Place::Active));
}

pub(super) fn gate(open: &Arc<AtomicBool>) -> Fake {
    let open = open.clone();
    Fake::new("Gate").set(|fake| {
        fake.events = vec![EventKind::new(EventResource::Custom("Tide"), Actions::ALL)];
        fake.pre_enqueue = Box::new(move |_| {
            if open.load(Ordering::SeqCst) {
                Ok(())
            } else {
                Err(Status::unresolvable("low tide"))
            }
        });
    })
}

#[test]
fn gated_pods_wait_for_their_gate() {
    let open = Arc::new(AtomicBool::new(false));
    let mut queue = queue_with(QueueConfig::default(), Some(gate(&open)));
    assert_eq!(add(&mut queue, "a", 0), Place::Gated);
    assert!(queue.pop(at(0)).is_none());
    let held = queue.waiting(&uid("a")).and_then(QueuedPod::gate).unwrap();
    assert_eq!(
        (held.plugin, held.status.to_string().as_str()),
        ("Gate", "low tide")
    );
    assert_eq!(queue.on_event(&Event::custom("Tide", None), at(1)), 1);
    assert_eq!(queue.place(&uid("a")), Some(Place::Gated), "still closed");
    assert_eq!(queue.activate(&uid("a")), Some(Place::Gated));
    open.store(true, Ordering::SeqCst);
    assert_eq!(
        queue.on_event(&node_added(), at(1)),
        0,
        "not the gate's event"
    );
    assert_eq!(queue.on_event(&Event::custom("Tide", None), at(1)), 1);
    assert_eq!(queue.place(&uid("a")), Some(Place::Active));

    // Tried and rejected, the pod is gated again when it would come back.
    let popped = queue.pop(at(2)).unwrap();
    open.store(false, Ordering::SeqCst);
    assert_eq!(queue.requeue(popped, Outcome::Failed, at(2)), Place::Gated);
    assert_eq!(queue.size().gated, 1);
}

#[test]
fn activation_skips_backoff_from_everywhere() {
    let mut queue = queue();
    assert_eq!(queue.activate(&uid("a")), None);
    add(&mut queue, "a", 0);
    assert_eq!(queue.activate(&uid("a")), Some(Place::Active));
    for outcome in [Outcome::Failed, rejected(&["Nodes"])] {
        let popped = queue.pop(at(0)).unwrap();
        queue.requeue(popped, outcome, at(0));
        assert_eq!(queue.activate(&uid("a")), Some(Place::Active));
    }
    let popped = queue.pop(at(0)).unwrap();
    assert_eq!(queue.activate(&uid("a")), Some(Place::InFlight));
    assert_eq!(
        queue.requeue(popped, rejected(&["Nodes"]), at(0)),
        Place::Active
    );
}

#[test]
fn updates_reach_the_pod_wherever_it_is() {
    let labelled = || pod("a").label("new", "yes").info();
    let change = || {
        Event::pod(
            EventResource::TargetPod,
            Actions::UPDATE_POD_LABEL,
            None,
            Some(labelled()),
        )
    };
    let is_new = |queued: QueuedPod| queued.pod.labels().contains_key("new");

    let mut active = queue();
    add(&mut active, "a", 0);
    assert_eq!(active.update(labelled(), &[change()], at(0)), Place::Active);
    assert!(is_new(active.pop(at(0)).unwrap()));

    let wants = Fake::new("Labels").set(|fake| {
        fake.events = vec![EventKind::new(
            EventResource::TargetPod,
            Actions::UPDATE_POD_LABEL,
        )];
    });
    let profile = profile().filter(Arc::new(wants)).build().unwrap();
    let mut waiting =
        Queue::new(&Profiles::new([profile]).unwrap(), QueueConfig::default()).unwrap();
    add(&mut waiting, "a", 0);
    let popped = waiting.pop(at(0)).unwrap();
    waiting.requeue(popped, rejected(&["Labels"]), at(0));
    assert_eq!(waiting.update(labelled(), &[], at(0)), Place::Unschedulable);
    assert_eq!(
        waiting.update(labelled(), &[change()], at(9000)),
        Place::Active
    );
    let popped = waiting.pop(at(9000)).unwrap();
    assert!(is_new(popped.clone()));

    assert_eq!(
        waiting.update(labelled(), &[change()], at(9000)),
        Place::InFlight
    );
    assert_eq!(
        waiting.requeue(popped, rejected(&["Labels"]), at(9000)),
        Place::Backoff,
        "replayed"
    );
    assert_eq!(
        waiting.update(labelled(), &[change()], at(9000)),
        Place::Backoff
    );
    waiting.delete(&uid("a"));
    assert_eq!(waiting.place(&uid("a")), None);
    assert_eq!(
        waiting.update(labelled(), &[], at(9000)),
        Place::Active,
        "unknown: added"
    );
}

#[test]
fn what_a_pod_changes_in_itself_is_nothing_to_others() {
    let wants = Fake::new("Labels").set(|fake| {
        fake.events = vec![EventKind::new(
            EventResource::Pod,
            Actions::UPDATE_POD_LABEL,
        )];
    });
    let profile = profile().filter(Arc::new(wants)).build().unwrap();
    let mut queue = Queue::new(&Profiles::new([profile]).unwrap(), QueueConfig::default()).unwrap();
    for name in ["a", "b"] {
        add(&mut queue, name, 0);
    }
    let (a, b) = (queue.pop(at(0)).unwrap(), queue.pop(at(0)).unwrap());
    let change = Actions::UPDATE_POD_LABEL;
    let event = Event::pod(EventResource::TargetPod, change, None, Some(a.pod.clone()));
    queue.update(a.pod.clone(), &[event], at(0));
    assert_eq!(
        queue.requeue(a, rejected(&["Labels"]), at(0)),
        Place::Backoff
    );
    assert_eq!(
        queue.requeue(b, rejected(&["Labels"]), at(0)),
        Place::Unschedulable
    );
}

#[test]
fn arrivals_are_counted_by_place_and_event() {
    let mut queue = queue();
    add(&mut queue, "a", 0);
    for _ in 0..2 {
        let popped = queue.pop(at(0)).unwrap();
        queue.requeue(popped, rejected(&["Nodes"]), at(0));
        queue.on_event(&node_added(), at(0));
    }
    queue.flush(at(60_000));
    queue.activate(&uid("a"));
    let counts = queue
        .arrivals()
        .iter()
        .map(|(place, event, count)| format!("{place:?} {event} {count}"));
    let expected = [
        "Active BackoffComplete 1",
        "Active UnscheduledPodAdd 1",
        "Backoff NodeAdd 2",
        "Unschedulable ScheduleAttemptFailure 2",
    ];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}

/// Something that happens to a queue.
#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    Update(u8),
    Delete(u8),
    Pop,
    Done(u8),
    Reject(u8, u8),
    Fail(u8),
    Event(u8),
    Activate(u8),
    Tide(bool),
    Sleep(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let pod = 0u8..5;
    prop_oneof![
        1 => pod.clone().prop_map(Op::Add),
        1 => pod.clone().prop_map(Op::Update),
        1 => pod.clone().prop_map(Op::Delete),
        3 => Just(Op::Pop),
        1 => pod.clone().prop_map(Op::Done),
        3 => (pod.clone(), 0u8..4).prop_map(|(pod, by)| Op::Reject(pod, by)),
        1 => pod.clone().prop_map(Op::Fail),
        1 => (0u8..4).prop_map(Op::Event),
        1 => pod.prop_map(Op::Activate),
        1 => any::<bool>().prop_map(Op::Tide),
        1 => (0u16..20_000).prop_map(Op::Sleep),
    ]
}

fn numbered(number: u8) -> Arc<PodInfo> {
    pod(&format!("p{number}"))
        .priority(i32::from(number % 2))
        .info()
}

fn places(queue: &Queue, number: u8) -> usize {
    let uid = uid(&format!("p{number}"));
    [
        queue.active.contains(&uid),
        queue.rejected_backoff.contains(&uid),
        queue.failed_backoff.contains(&uid),
        queue.pool.get(&uid).is_some() && !queue.pool.is_gated(&uid),
        queue.pool.is_gated(&uid),
        queue.in_flight.contains(&uid),
    ]
    .into_iter()
    .filter(|there| *there)
    .count()
}

proptest! {
    #[test]
    fn no_pod_is_lost_or_doubled(ops in proptest::collection::vec(op(), 0..80)) {
        let tide = Arc::new(AtomicBool::new(true));
        let mut queue = queue_with(QueueConfig::default(), Some(gate(&tide)));
        let mut now = 0u64;
        // Every pod that must be somewhere; those popped are also held here, as a driver holds them.
        let mut known: BTreeSet<u8> = BTreeSet::new();
        let mut held: BTreeMap<u8, QueuedPod> = BTreeMap::new();
        for op in ops {
            let time = at(now);
            match op {
                Op::Add(n) => {
                    queue.add(numbered(n), time);
                    known.insert(n);
                }
                Op::Update(n) => {
                    queue.update(numbered(n), &[], time);
                    known.insert(n);
                }
                Op::Delete(n) if !held.contains_key(&n) => {
                    queue.delete(&uid(&format!("p{n}")));
                    known.remove(&n);
                }
                Op::Pop => {
                    if let Some(queued) = queue.pop(time) {
                        let n = queued.pod.key.name[1..].parse().unwrap();
                        prop_assert!(held.insert(n, queued).is_none(), "popped twice");
                    }
                }
                Op::Done(n) => {
                    if held.remove(&n).is_some() {
                        queue.done(&uid(&format!("p{n}")));
                        known.remove(&n);
                    }
                }
                Op::Reject(n, by) => {
                    if let Some(queued) = held.remove(&n) {
                        let by = ["Nodes", "Boards", "Deaf", "Skips"][usize::from(by)];
                        queue.requeue(queued, rejected(&[by]), time);
                    }
                }
                Op::Fail(n) => {
                    if let Some(queued) = held.remove(&n) {
                        queue.requeue(queued, Outcome::Failed, time);
                    }
                }
                Op::Event(0) => { queue.on_event(&node_added(), time); }
                Op::Event(1) => { queue.on_event(&Event::custom("Board", None), time); }
                Op::Event(2) => { queue.on_event(&Event::custom("Tide", None), time); }
                Op::Event(_) => { queue.on_event(&Event::wildcard(), time); }
                Op::Activate(n) => { queue.activate(&uid(&format!("p{n}"))); }
                Op::Tide(open) => tide.store(open, Ordering::SeqCst),
                Op::Sleep(millis) => {
                    now += u64::from(millis);
                    queue.flush(at(now));
                    if let Some(deadline) = queue.next_deadline() {
                        prop_assert!(deadline > at(now), "a flush does all that is due");
                    }
                }
                Op::Delete(_) => {}
            }
            for n in 0..5 {
                prop_assert_eq!(places(&queue, n), usize::from(known.contains(&n)), "pod {}", n);
                let in_flight = queue.place(&uid(&format!("p{n}"))) == Some(Place::InFlight);
                prop_assert_eq!(in_flight, held.contains_key(&n));
            }
            if held.is_empty() {
                prop_assert_eq!(queue.size().in_flight_events, 0);
            }
        }
        // With the gates open and time enough, every pod that isn't held comes to be tried.
        tide.store(true, Ordering::SeqCst);
        for _ in 0..12 {
            now += 60_000;
            queue.flush(at(now));
        }
        let tried = std::iter::from_fn(|| queue.pop(at(now))).count();
        prop_assert_eq!(tried + held.len(), known.len());
    }
}
