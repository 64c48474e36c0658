//! Holds who is found by what is asked of few against what each waiting pod would be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{Queue, Worth};
use crate::event::{Actions, Event, EventResource};
use crate::moment::Moment;
use crate::names::PodUid;
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::profile::Profiles;
use crate::queue::{Outcome, QueueConfig, QueuedPod};
use crate::status::PluginName;
use crate::test_objects::{NeverBinds, PodBuilder, node, pod, pods_with, selecting};

/// Pods, each with what events are worth to it.
type Helped = BTreeMap<PodUid, Worth>;

/// All that is remembered, and isn't from now on.
fn remembered(queue: &mut Queue) -> Helped {
    let mut helped = Helped::new();
    while let Some((uid, help)) = queue.next_helped() {
        if let Some(help) = help {
            // It has gone by then, whatever is told of it later.
            helped.entry(uid).or_insert(help.worth);
        }
    }
    assert!(!queue.pool.is_helped());
    helped
}

/// A waiting pod is tried once more, and rejected for the same reasons.
fn try_again(queue: &mut Queue, uid: &PodUid) {
    let waiting = queue.pool.get(uid).unwrap();
    let (by, pending) = (waiting.rejected_by.clone(), waiting.pending_by.clone());
    queue.activate(uid);
    let popped = queue.pop(Moment::ZERO).unwrap();
    assert_eq!(popped.pod.uid, *uid);
    queue.requeue(popped, Outcome::Rejected { by, pending }, Moment::ZERO);
}

/// Whom each waiting pod says it is, asked one by one.
fn one_by_one(queue: &Queue, event: &Event, not: Option<&PodUid>) -> Helped {
    let worth = |queued: &QueuedPod| (queued.pod.uid.clone(), queue.hints.worth(queued, event));
    let all = queue.pool.iter().map(worth);
    let helped = all.filter(|(uid, worth)| *worth != Worth::Nothing && Some(uid) != not);
    helped.collect()
}

const APPS: [&str; 3] = ["web", "db", "cache"];
const NAMESPACES: [&str; 2] = ["default", "other"];

/// What a pod asks for beside its labels.
fn wishes() -> impl Strategy<Value = Vec<(u8, &'static str)>> {
    proptest::collection::vec((0..7_u8, select(&APPS[..])), 0..3)
}

/// Pods with a label, or with any, in some team's namespaces.
fn anywhere(app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: (app != "cache")
            .then(|| selecting(&[("app", app)]))
            .or_else(|| Some(selecting(&[]))),
        namespace_selector: Some(selecting(&[("team", "a")])),
        ..pods_with("zone", &[])
    }
}

fn wishing(pod: PodBuilder, wishes: &[(u8, &'static str)]) -> PodBuilder {
    wishes.iter().fold(pod, |pod, (kind, app)| match kind {
        0 => pod.near(pods_with("zone", &[("app", app)])),
        1 => pod.near(anywhere(app)),
        2 => pod.away_from(pods_with("zone", &[("app", app)])),
        3 => pod.away_from(anywhere(app)),
        4 => pod.edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            let constraint = TopologySpreadConstraint {
                max_skew: 1,
                topology_key: if *app == "web" { "zone" } else { "rack" }.to_owned(),
                when_unsatisfiable: "DoNotSchedule".to_owned(),
                label_selector: Some(selecting(&[("app", app)])),
                ..TopologySpreadConstraint::default()
            };
            spec.topology_spread_constraints = Some(vec![constraint]);
        }),
        5 => pod.request("cpu", if *app == "web" { "1" } else { "2" }),
        _ if *app == "web" => pod.node_selector("zone", "b"),
        _ => pod.node_selector("disk", app),
    })
}

const PLUGINS: [PluginName; 4] = [
    "InterPodAffinity",
    "PodTopologySpread",
    "NodeResourcesFit",
    "NodeAffinity",
];

/// A pod: its namespace, its label, what it wishes.
type Drawn = (&'static str, Option<&'static str>, Vec<(u8, &'static str)>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let app = proptest::option::of(select(&APPS[..]));
    (select(&NAMESPACES[..]), app, wishes())
}

fn made(name: &str, (namespace, app, wishes): &Drawn) -> PodBuilder {
    let pod = pod(name).namespace(namespace);
    let pod = match app {
        Some(app) => pod.label("app", app),
        None => pod,
    };
    wishing(pod, wishes)
}

fn event(number: u8, old: Arc<PodInfo>, new: Arc<PodInfo>) -> Event {
    let assigned = EventResource::AssignedPod;
    let scaled = Actions::UPDATE_POD_SCALE_DOWN;
    match number {
        0 => Event::pod(assigned, Actions::ADD, None, Some(new)),
        1 => Event::pod(assigned, Actions::DELETE, Some(old), None),
        2 => Event::pod(assigned, Actions::UPDATE_POD_LABEL, Some(old), Some(new)),
        3 => Event::pod(assigned, scaled, Some(old), Some(new)),
        4 => Event::pod(EventResource::UnscheduledPod, Actions::ADD, None, Some(new)),
        5 => Event::pod(
            EventResource::TargetPod,
            Actions::UPDATE_POD_LABEL,
            Some(old),
            Some(new),
        ),
        6 => Event::wildcard(),
        7 => Event::custom("Board", None),
        11 => Event::expected_no_more(old),
        8 => Event::node(
            Actions::ADD,
            None,
            Some(node("n").label("zone", "a").object()),
        ),
        _ => {
            let before = node("n").label("zone", "a").allocatable("cpu", "1");
            let after = node("n").label("zone", "b").allocatable("cpu", "4");
            let action = if number == 9 {
                Actions::UPDATE_NODE_LABEL
            } else {
                Actions::UPDATE_NODE_ALLOCATABLE
            };
            Event::node(action, Some(before.object()), Some(after.object()))
        }
    }
}

proptest! {
    #[test]
    fn who_is_found_is_who_would_say_so(
        sorts in proptest::collection::vec(drawn(), 1..6),
        waiting in proptest::collection::vec(
            (any::<usize>(), subsequence(PLUGINS.to_vec(), 0..3), any::<bool>(), any::<bool>()), 0..16,
        ),
        happens in proptest::collection::vec(
            (0..12_u8, drawn(), drawn(), proptest::option::of(0..16_usize), any::<bool>()), 1..8,
        ),
        meanwhile in proptest::collection::vec(proptest::option::of((0..16_usize, any::<bool>())), 8),
    ) {
        let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
        let mut queue = Queue::new(&Profiles::new([profile]).unwrap(), QueueConfig::default()).unwrap();
        let sorts: Vec<_> = sorts.iter().map(|drawn| made("sort", drawn).info()).collect();
        let mut uids = Vec::new();
        for (number, (sort, by, own_label, pending)) in waiting.into_iter().enumerate() {
            // Equal parts are one, as a scheduler keeps them.
            let mut info = (*sorts[sort % sorts.len()]).clone();
            let other = pod(&format!("p{number}")).label("app", "cache").info();
            (info.uid, info.key.name) = (other.uid.clone(), other.key.name.clone());
            if own_label {
                info.priority = 1;
                info.labels = other.labels.clone();
            }
            uids.push(info.uid.clone());
            queue.add(Arc::new(info), Moment::ZERO);
            let popped = queue.pop(Moment::ZERO).unwrap();
            let by: BTreeSet<_> = by.into_iter().collect();
            let outcome = if pending {
                Outcome::Rejected { by: BTreeSet::new(), pending: by }
            } else {
                Outcome::Rejected { by, pending: BTreeSet::new() }
            };
            queue.requeue(popped, outcome, Moment::ZERO);
        }
        let mut expected = Helped::new();
        for ((number, old, new, own, is_told), meanwhile) in happens.into_iter().zip(meanwhile) {
            let own = own.and_then(|own| uids.get(own));
            // Whoever waits has no node: of itself it hears only as one without.
            let itself = own.filter(|_| number == 5 || number == 11);
            let itself = itself.and_then(|uid| queue.pool.get(uid)).map(|queued| queued.pod.clone());
            let named = |drawn: &Drawn| {
                let made = made("another", drawn).on("n");
                match &itself {
                    Some(pod) => made.uid(pod.uid.as_str()).namespace(&pod.key.namespace).info(),
                    None => made.info(),
                }
            };
            let event = event(number, named(&old), named(&new));
            let by_this = one_by_one(&queue, &event, own);
            prop_assert_eq!(queue.help(&event, own), by_this.len(), "{:?}", event);
            for (uid, worth) in by_this {
                let known = expected.entry(uid).or_insert(worth);
                *known = worth.max(*known);
            }
            if is_told {
                let expected = std::mem::take(&mut expected);
                prop_assert_eq!(remembered(&mut queue), expected, "{:?}", event);
            }
            let Some((uid, is_tried)) = meanwhile.and_then(|(at, it)| Some((uids.get(at)?, it))) else {
                continue;
            };
            if is_tried && queue.pool.get(uid).is_some() {
                try_again(&mut queue, uid);
                expected.remove(uid);
            } else if let Some(queued) = queue.pool.get(uid) {
                let mut info = (*queued.pod).clone();
                info.labels = pod("p").label("app", "db").info().labels.clone();
                queue.replace(Arc::new(info));
            }
        }
        prop_assert_eq!(remembered(&mut queue), expected);
        for uid in &uids {
            queue.delete(uid);
        }
        prop_assert!(queue.pool.is_empty() && queue.pool.circles_mut().next().is_none());
    }
}
