//! Any history: no pod is lost, none is in two places, nothing is left behind.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::{add_node, at, scheduler, waiting};
use crate::guard::Panicked;
use crate::names::{NodeName, PodUid};
use crate::plugins::stock_profile;
use crate::scheduler::{Assumed, Attempt, EvictionOrder};
use crate::status::Status;
use crate::test_objects::{NeverBinds, pod};
use crate::tie::FirstOfEquals;

/// Something that happens to a scheduler.
#[derive(Clone, Debug)]
enum Op {
    Apply(u8),
    Recreate(u8),
    BindElsewhere(u8),
    Delete(u8),
    Next,
    Bound(u8),
    BindFails(u8),
    BindPanics(u8),
    Mend,
    Reject(u8),
    Allow(u8),
    Evict(u8, Evicted),
    Node(bool),
    Sleep(u8),
}

/// How an eviction that was asked for goes.
#[derive(Clone, Copy, Debug)]
enum Evicted {
    /// The pod goes, then that is told.
    Gone,
    /// It is told, and the pod stays a while.
    Going,
    Failed,
}

fn op() -> impl Strategy<Value = Op> {
    let pod = 0u8..6;
    prop_oneof![
        3 => pod.clone().prop_map(Op::Apply),
        1 => pod.clone().prop_map(Op::Recreate),
        1 => pod.clone().prop_map(Op::BindElsewhere),
        1 => pod.clone().prop_map(Op::Delete),
        4 => Just(Op::Next),
        2 => pod.clone().prop_map(Op::Bound),
        2 => pod.clone().prop_map(Op::BindFails),
        1 => pod.clone().prop_map(Op::BindPanics),
        1 => Just(Op::Mend),
        1 => pod.clone().prop_map(Op::Reject),
        2 => pod.clone().prop_map(Op::Allow),
        2 => (pod, select(&[Evicted::Gone, Evicted::Going, Evicted::Failed][..]))
            .prop_map(|(pod, how)| Op::Evict(pod, how)),
        1 => any::<bool>().prop_map(Op::Node),
        1 => (0u8..40).prop_map(Op::Sleep),
    ]
}

proptest! {
    /// Whatever happens in whatever order: a pod is queued, in a binding task, or on a node, and only one of
    /// these; a node's room is the sum of what is on it; when all is quiet nothing is left behind.
    #[test]
    fn no_pod_is_lost(ops in proptest::collection::vec(op(), 0..120)) {
        let mut scheduler = scheduler(
            stock_profile("test", Arc::new(NeverBinds)).permit(waiting("Tug", 20)),
        );
        add_node(&mut scheduler, "n", "3");
        // A pod that is made again under its name has another UID.
        let mut lives = [0u8; 6];
        let name = |n: u8| format!("p{n}");
        let id = |lives: &[u8; 6], n: u8| PodUid::from(format!("{n}-{}", lives[usize::from(n)]));
        let make = |lives: &[u8; 6], n: u8| {
            let pod = pod(&name(n)).uid(id(lives, n).as_str());
            pod.request("cpu", "1").priority(i32::from(n % 3))
        };
        let mut now = 0u64;
        let mut pending = HashSet::new();
        let mut on_node = HashSet::new();
        let mut tasks: BTreeMap<PodUid, Assumed> = BTreeMap::new();
        let mut orders: Vec<EvictionOrder> = Vec::new();
        for op in ops {
            let time = at(now);
            match op {
                Op::Recreate(n) => {
                    // The deletion of the last life is missed.
                    lives[usize::from(n)] += 1;
                    on_node.remove(&n);
                    scheduler.pod_applied(make(&lives, n).object(), time).unwrap();
                    pending.insert(n);
                }
                // The API server never takes a node from a pod.
                Op::Apply(n) if !on_node.contains(&n) => {
                    scheduler.pod_applied(make(&lives, n).object(), time).unwrap();
                    pending.insert(n);
                }
                Op::BindElsewhere(n) => {
                    scheduler.pod_applied(make(&lives, n).on("n").object(), time).unwrap();
                    pending.remove(&n);
                    on_node.insert(n);
                }
                Op::Delete(n) => {
                    scheduler.pod_deleted(&id(&lives, n), time);
                    lives[usize::from(n)] += 1;
                    pending.remove(&n);
                    on_node.remove(&n);
                }
                Op::Next => {
                    let attempt = scheduler.schedule_next(time, &mut FirstOfEquals);
                    if let Some(Attempt::Assumed(placed)) = attempt {
                        let twice = tasks.insert(placed.uid().clone(), *placed);
                        prop_assert!(twice.is_none(), "bound twice at once");
                    }
                }
                Op::Bound(n) => {
                    let task = tasks.keys().nth(usize::from(n)).cloned();
                    if let Some((uid, placed)) = task.and_then(|uid| tasks.remove_entry(&uid)) {
                        match scheduler.start_binding(&uid) {
                            Ok(()) => match placed.cancellation.begin_bind() {
                                Ok(()) => scheduler.bound(placed, time),
                                Err(status) => {
                                    scheduler.binding_failed(placed, status, time);
                                }
                            },
                            Err(status) if status.to_string().contains("still held") => {
                                tasks.insert(uid, placed);
                            }
                            Err(status) => {
                                scheduler.binding_failed(placed, status, time);
                            }
                        }
                    }
                }
                Op::BindFails(n) => {
                    let task = tasks.keys().nth(usize::from(n)).cloned();
                    if let Some(placed) = task.and_then(|uid| tasks.remove(&uid)) {
                        scheduler.binding_failed(placed, Status::error("cut off"), time);
                    }
                }
                Op::BindPanics(n) => {
                    let task = tasks.keys().nth(usize::from(n)).cloned();
                    if let Some(placed) = task.and_then(|uid| tasks.remove(&uid)) {
                        let (queued, node) = (placed.queued().clone(), placed.node().clone());
                        let panic = Panicked::new("on purpose");
                        prop_assert!(scheduler.abandon(queued, node, panic, time).is_some());
                    }
                }
                Op::Mend => scheduler.mend(time),
                Op::Reject(n) => { scheduler.reject(&id(&lives, n), "Tug", "no"); }
                Op::Allow(n) => { scheduler.allow(&id(&lives, n), "Tug"); }
                Op::Evict(n, how) if usize::from(n) < orders.len() => {
                    let order = orders.swap_remove(n.into());
                    if let (true, Evicted::Gone) = (scheduler.is_wanted(&order.id), how) {
                        let victim = &order.preempted.pod.uid;
                        scheduler.pod_deleted(victim, time);
                        if let Some(n) = (0..6).find(|n| id(&lives, *n) == *victim) {
                            lives[usize::from(n)] += 1;
                            pending.remove(&n);
                            on_node.remove(&n);
                        }
                    }
                    scheduler.evicted(&order.id, !matches!(how, Evicted::Failed), time);
                }
                Op::Node(true) => add_node(&mut scheduler, "n", "3"),
                Op::Node(false) => scheduler.node_deleted(&NodeName::from("n"), time),
                Op::Sleep(seconds) => {
                    now += u64::from(seconds);
                    scheduler.flush(at(now));
                }
                Op::Apply(_) | Op::Evict(..) => {}
            }
            orders.append(&mut scheduler.take_orders().evictions);
            for n in 0..6 {
                let uid = id(&lives, n);
                let queued = scheduler.place(&uid).is_some() && !tasks.contains_key(&uid);
                let assumed = scheduler.is_assumed(&uid);
                if on_node.contains(&n) {
                    prop_assert!(!queued && !assumed, "p{} is on its node alone", n);
                } else if pending.contains(&n) {
                    prop_assert!(queued != assumed, "p{} is queued or assumed", n);
                } else {
                    prop_assert!(!queued && !assumed, "p{} is gone", n);
                }
            }
            for node in scheduler.nodes().iter() {
                prop_assert_eq!(node.requested().milli_cpu, 1000 * node.pods().len() as i128);
            }
        }
        for placed in tasks.into_values() {
            scheduler.binding_failed(placed, Status::error("cut off"), at(now));
        }
        for n in 0..6 {
            scheduler.pod_deleted(&id(&lives, n), at(now));
        }
        orders.append(&mut scheduler.take_orders().evictions);
        for order in orders {
            prop_assert!(!scheduler.is_wanted(&order.id), "nobody needs the room");
            scheduler.evicted(&order.id, true, at(now));
        }
        prop_assert!(scheduler.take_orders().is_empty());
        prop_assert!(scheduler.preemptions.is_empty());
        let size = scheduler.queue_size();
        prop_assert_eq!(size.active + size.backoff + size.unschedulable + size.gated, 0);
        prop_assert_eq!(size.in_flight_events, 0);
        prop_assert_eq!(scheduler.cache_size().pods, 0);
        prop_assert_eq!(scheduler.waiting_pods().iter().count(), 0);
    }
}
