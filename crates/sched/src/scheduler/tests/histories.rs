//! Any history: whoever could be scheduled is tried. After each event, when the queue has come to rest, no pod that waits for
//! another event would fit on any node, by a scheduler that is made anew of what is there. What only time brings back is
//! left out: backoff is over, and nobody has waited long enough to be tried anyway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use proptest::prelude::*;
use proptest::sample::select;

use super::at;
use crate::names::NodeName;
use crate::objects::Object;
use crate::plugins::stock_profile;
use crate::queue::QueueConfig;
use crate::scheduler::{Attempt, Scheduler, SchedulerConfig};
use crate::test_objects::{
    NeverBinds, NodeBuilder, PodBuilder, namespace, node, pod, pods_with, selecting, uid,
};
use crate::tie::FirstOfEquals;

const PODS: u8 = 8;
const NODES: u8 = 4;

/// What a node is like.
#[derive(Clone, Debug)]
struct Look {
    zone: Option<&'static str>,
    disk: Option<&'static str>,
    cpu: u8,
    is_tainted: bool,
    is_cordoned: bool,
}

/// What a pod is like.
#[derive(Clone, Debug)]
struct Wish {
    namespace: &'static str,
    app: &'static str,
    cpu: u8,
    wants: Vec<(u8, &'static str)>,
}

/// What happens.
#[derive(Clone, Debug)]
enum Op {
    Node(u8, Look),
    NoNode(u8),
    Pod(u8, Wish),
    NoPod(u8),
    Relabel(u8, &'static str),
    Namespace(&'static str, bool),
}

fn look() -> impl Strategy<Value = Look> {
    let zone = proptest::option::of(select(&["a", "b"][..]));
    let disk = proptest::option::of(select(&["ssd", "hdd"][..]));
    let flags = (
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.15),
    );
    let all = (zone, disk, 1..4_u8, flags);
    all.prop_map(|(zone, disk, cpu, (is_tainted, is_cordoned))| Look {
        zone,
        disk,
        cpu,
        is_tainted,
        is_cordoned,
    })
}

fn wish() -> impl Strategy<Value = Wish> {
    let app = || select(&["web", "db"][..]);
    let wants = proptest::collection::vec((0..9_u8, app()), 0..3);
    let all = (select(&["m", "n"][..]), app(), 0..3_u8, wants);
    all.prop_map(|(namespace, app, cpu, wants)| Wish {
        namespace,
        app,
        cpu,
        wants,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let app = select(&["web", "db"][..]);
    prop_oneof![
        4 => (0..NODES, look()).prop_map(|(number, look)| Op::Node(number, look)),
        1 => (0..NODES).prop_map(Op::NoNode),
        6 => (0..PODS, wish()).prop_map(|(number, wish)| Op::Pod(number, wish)),
        3 => (0..PODS).prop_map(Op::NoPod),
        2 => (0..PODS, app).prop_map(|(number, app)| Op::Relabel(number, app)),
        1 => (select(&["m", "n"][..]), any::<bool>()).prop_map(|(name, team)| Op::Namespace(name, team)),
    ]
}

fn made_node(number: u8, look: &Look) -> NodeBuilder {
    let name = format!("n{number}");
    let node = node(&name)
        .label("kubernetes.io/hostname", &name)
        .allocatable("cpu", &look.cpu.to_string())
        .allocatable("pods", "3");
    let labels = [("zone", look.zone), ("disk", look.disk)];
    let labels = labels
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let node = labels.fold(node, |node, (key, value)| node.label(key, value));
    let node = if look.is_tainted {
        node.taint("dock", "", "NoSchedule")
    } else {
        node
    };
    if look.is_cordoned {
        node.unschedulable()
    } else {
        node
    }
}

fn in_team(app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        namespace_selector: Some(selecting(&[("team", "a")])),
        ..pods_with("zone", &[("app", app)])
    }
}

fn spread(pod: PodBuilder, key: &str, app: &str, honors_taints: bool) -> PodBuilder {
    let constraint = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(selecting(&[("app", app)])),
        node_taints_policy: honors_taints.then(|| "Honor".to_owned()),
        ..TopologySpreadConstraint::default()
    };
    pod.edit(|pod| {
        let spec = pod.spec.get_or_insert_default();
        let constraints = spec.topology_spread_constraints.get_or_insert_default();
        constraints.push(constraint);
    })
}

fn made_pod(number: u8, wish: &Wish) -> PodBuilder {
    let pod = pod(&format!("p{number}"))
        .scheduler("test")
        .namespace(wish.namespace)
        .label("app", wish.app)
        .request("cpu", &wish.cpu.to_string());
    wish.wants.iter().fold(pod, |pod, (kind, app)| match kind {
        0 => pod.near(pods_with("zone", &[("app", app)])),
        1 => pod.near(in_team(app)),
        2 => pod.away_from(pods_with("kubernetes.io/hostname", &[("app", app)])),
        3 => pod.away_from(in_team(app)),
        4 => spread(pod, "zone", app, false),
        5 => spread(pod, "kubernetes.io/hostname", app, true),
        6 => pod.host_port("", "TCP", 80),
        7 => pod.node_selector("disk", if *app == "web" { "ssd" } else { "hdd" }),
        _ => pod.tolerate("dock", "Exists", "", ""),
    })
}

/// All that there is.
#[derive(Default)]
struct World {
    nodes: BTreeMap<u8, Look>,
    pods: BTreeMap<u8, (Wish, Option<String>)>,
    teams: BTreeMap<&'static str, bool>,
}

impl World {
    fn namespace(name: &str, in_team: bool) -> Object {
        let labels: &[_] = if in_team { &[("team", "a")] } else { &[] };
        namespace(name, labels)
    }

    /// A scheduler that has seen nothing but what is there now, apart from pods without a node.
    fn scheduler(&self) -> Scheduler {
        let mut scheduler = empty();
        for (name, in_team) in &self.teams {
            scheduler
                .apply(Self::namespace(name, *in_team), at(0))
                .unwrap();
        }
        for (number, look) in &self.nodes {
            let node = made_node(*number, look);
            scheduler.node_applied(&node.build(), at(0)).unwrap();
        }
        for (number, (wish, on)) in &self.pods {
            if let Some(on) = on {
                let pod = made_pod(*number, wish).on(on);
                scheduler.pod_applied(pod.object(), at(0)).unwrap();
            }
        }
        scheduler
    }
}

fn empty() -> Scheduler {
    let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
    let config = SchedulerConfig {
        queue: QueueConfig {
            max_unschedulable: Duration::from_secs(1 << 40),
            ..QueueConfig::default()
        },
        ..SchedulerConfig::default()
    };
    Scheduler::new([profile], config).unwrap()
}

/// Tries pods until none is left to be tried, and binds those that find a node.
fn settle(scheduler: &mut Scheduler, world: &mut World, seconds: u64) {
    while let Some(attempt) = scheduler.schedule_next(at(seconds), &mut FirstOfEquals) {
        let Attempt::Assumed(assumed) = attempt else {
            continue;
        };
        let (on, bound) = (assumed.node().to_string(), assumed.uid().clone());
        scheduler.start_binding(&bound).unwrap();
        scheduler.bound(*assumed, at(seconds));
        let mut pods = world.pods.iter_mut();
        let (number, (wish, node)) = pods
            .find(|(number, _)| uid(&format!("p{number}")) == bound)
            .unwrap();
        *node = Some(on.clone());
        let pod = made_pod(*number, wish).on(&on);
        scheduler.pod_applied(pod.object(), at(seconds)).unwrap();
    }
}

fn happen(op: Op, scheduler: &mut Scheduler, world: &mut World, seconds: u64) {
    let now = at(seconds);
    let gone = |number: u8, scheduler: &mut Scheduler, world: &mut World| {
        if world.pods.remove(&number).is_some() {
            scheduler.pod_deleted(&uid(&format!("p{number}")), now);
        }
    };
    match op {
        Op::Node(number, look) => {
            let node = made_node(number, &look);
            scheduler.node_applied(&node.build(), now).unwrap();
            world.nodes.insert(number, look);
        }
        Op::NoNode(number) => {
            let name = format!("n{number}");
            if world.nodes.remove(&number).is_some() {
                scheduler.node_deleted(&NodeName::from(&*name), now);
            }
            // Its pods go with it.
            let on = world
                .pods
                .iter()
                .filter(|(_, (_, on))| on.as_ref() == Some(&name));
            for pod in on.map(|(pod, _)| *pod).collect::<Vec<_>>() {
                gone(pod, scheduler, world);
            }
        }
        Op::Pod(number, wish) => {
            gone(number, scheduler, world);
            let pod = made_pod(number, &wish);
            scheduler.pod_applied(pod.object(), now).unwrap();
            world.pods.insert(number, (wish, None));
        }
        Op::NoPod(number) => gone(number, scheduler, world),
        Op::Relabel(number, app) => {
            if let Some((wish, on)) = world.pods.get_mut(&number) {
                wish.app = app;
                let pod = made_pod(number, wish);
                let pod = match on {
                    Some(on) => pod.on(on),
                    None => pod,
                };
                scheduler.pod_applied(pod.object(), now).unwrap();
            }
        }
        Op::Namespace(name, in_team) => {
            world.teams.insert(name, in_team);
            scheduler
                .apply(World::namespace(name, in_team), now)
                .unwrap();
        }
    }
}

proptest! {
    #[test]
    fn who_waits_could_go_nowhere(ops in proptest::collection::vec(op(), 1..32)) {
        let mut world = World::default();
        let mut scheduler = empty();
        for (number, op) in ops.into_iter().enumerate() {
            let seconds = 60 * number as u64;
            scheduler.flush(at(seconds));
            let told = format!("{op:?}");
            happen(op, &mut scheduler, &mut world, seconds);
            settle(&mut scheduler, &mut world, seconds);
            let waiting = world.pods.iter().filter(|(_, (_, on))| on.is_none());
            for (number, (wish, _)) in waiting {
                let uid = uid(&format!("p{number}"));
                prop_assert!(scheduler.place(&uid).is_some(), "it waits somewhere");
                let mut naive = world.scheduler();
                naive.pod_applied(made_pod(*number, wish).object(), at(0)).unwrap();
                let attempt = naive.schedule_next(at(0), &mut FirstOfEquals);
                prop_assert!(
                    matches!(attempt, Some(Attempt::Failed(_))),
                    "after {told}: {wish:?} finds {attempt:?} of {:?}", world.nodes
                );
            }
        }
    }
}
