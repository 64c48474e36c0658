//! Any history: whoever could be scheduled is tried. Some pods are more important than others, which are evicted for
//! them. After each event, when the queue has come to rest, no pod that waits for another event would fit on any node,
//! by a scheduler that is made anew of what is there. What only time brings back is left out: backoff is over but for a
//! binding that has just failed, and nobody has waited long enough to be tried anyway. So is what a pod that begins to
//! end changes, which is no event, as in kube-scheduler: its going is one. And so is whether others could be evicted
//! for a pod that waits: hints say when it may fit, here as there. `pilotage-sched-diff` asks the real kube-scheduler's
//! plugins after each event of wider histories; here each case is small, and there are many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

use super::at;
use crate::names::NodeName;
use crate::objects::Object;
use crate::plugins::stock_profile;
use crate::queue::{Place, QueueConfig};
use crate::scheduler::{Assumed, Attempt, Scheduler, SchedulerConfig};
use crate::status::Status;
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
    priority: i32,
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
    Resize(u8, u8),
    /// It begins to end, if it is on a node.
    Ends(u8),
    /// All that are ending are gone.
    Over,
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
    let wants = proptest::collection::vec((0..10_u8, app()), 0..3);
    let priority = prop_oneof![2 => Just(0), 1 => Just(10)];
    let all = (select(&["m", "n"][..]), app(), 0..3_u8, priority, wants);
    all.prop_map(|(namespace, app, cpu, priority, wants)| Wish {
        namespace,
        app,
        cpu,
        priority,
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
        2 => (0..PODS, 0..3_u8).prop_map(|(number, cpu)| Op::Resize(number, cpu)),
        1 => (0..PODS).prop_map(Op::Ends),
        1 => Just(Op::Over),
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

fn disk(app: &str) -> &'static str {
    if app == "web" { "ssd" } else { "hdd" }
}

fn made_pod(number: u8, wish: &Wish) -> PodBuilder {
    let pod = pod(&format!("p{number}"))
        .scheduler("test")
        .namespace(wish.namespace)
        .label("app", wish.app)
        .priority(wish.priority)
        .request("cpu", &wish.cpu.to_string());
    wish.wants.iter().fold(pod, |pod, (kind, app)| match kind {
        0 => pod.near(pods_with("zone", &[("app", app)])),
        1 => pod.near(in_team(app)),
        2 => pod.away_from(pods_with("kubernetes.io/hostname", &[("app", app)])),
        3 => pod.away_from(in_team(app)),
        4 => spread(pod, "zone", app, false),
        5 => spread(pod, "kubernetes.io/hostname", app, true),
        6 => pod.host_port("", "TCP", 80),
        7 => pod.node_selector("disk", disk(app)),
        // Other nodes don't count.
        8 => spread(pod.node_selector("disk", disk(app)), "zone", app, false),
        _ => pod.tolerate("dock", "Exists", "", ""),
    })
}

/// A pod that is there.
struct Known {
    wish: Wish,
    on: Option<String>,
    ends: bool,
}

impl Known {
    fn pod(&self, number: u8) -> PodBuilder {
        let pod = made_pod(number, &self.wish);
        let pod = match &self.on {
            Some(on) => pod.on(on),
            None => pod,
        };
        if self.ends { pod.deleting() } else { pod }
    }
}

/// All that there is.
#[derive(Default)]
struct World {
    nodes: BTreeMap<u8, Look>,
    pods: BTreeMap<u8, Known>,
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
        for (number, known) in &self.pods {
            if known.on.is_some() {
                let pod = known.pod(*number).object();
                scheduler.pod_applied(pod, at(0)).unwrap();
            }
        }
        scheduler
    }

    fn is_anybody_ending(&self) -> bool {
        self.pods.values().any(|known| known.ends)
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

/// Tries pods until none is left to be tried, binds those that find a node, and evicts those that have to go; `fails`:
/// but the first one, which is forgotten when all others have been tried beside it.
fn settle(scheduler: &mut Scheduler, world: &mut World, seconds: u64, mut fails: bool) {
    let mut held: Option<Box<Assumed>> = None;
    loop {
        match scheduler.schedule_next(at(seconds), &mut FirstOfEquals) {
            Some(Attempt::Assumed(assumed)) if std::mem::take(&mut fails) => held = Some(assumed),
            Some(Attempt::Assumed(assumed)) => bind(scheduler, world, *assumed, seconds),
            Some(_) => evict(scheduler, world, seconds),
            None => {
                let Some(assumed) = held.take() else { return };
                scheduler.start_binding(assumed.uid()).unwrap();
                let why = Status::error("cut off");
                scheduler.binding_failed(*assumed, why, at(seconds));
            }
        }
    }
}

/// Those that have to go for others go at once, as far as they are bound. Their end is seen before the eviction is
/// told, or after it.
fn evict(scheduler: &mut Scheduler, world: &mut World, seconds: u64) {
    let now = at(seconds);
    loop {
        let orders = scheduler.take_orders().evictions;
        if orders.is_empty() {
            return;
        }
        for order in orders {
            let pod = &order.preempted.pod;
            let number: u8 = pod.key.name[1..].parse().unwrap();
            assert!(world.pods.remove(&number).is_some(), "it is there");
            let is_told_first = number.is_multiple_of(2);
            if is_told_first {
                scheduler.evicted(&order.id, true, now);
            }
            scheduler.pod_deleted(&pod.uid, now);
            if !is_told_first {
                scheduler.evicted(&order.id, true, now);
            }
        }
    }
}

fn bind(scheduler: &mut Scheduler, world: &mut World, assumed: Assumed, seconds: u64) {
    let (on, bound) = (assumed.node().to_string(), assumed.uid().clone());
    scheduler.start_binding(&bound).unwrap();
    scheduler.bound(assumed, at(seconds));
    let mut pods = world.pods.iter_mut();
    let (number, known) = pods
        .find(|(number, _)| uid(&format!("p{number}")) == bound)
        .unwrap();
    known.on = Some(on);
    let pod = known.pod(*number).object();
    scheduler.pod_applied(pod, at(seconds)).unwrap();
}

fn happen(op: Op, scheduler: &mut Scheduler, world: &mut World, seconds: u64) {
    let now = at(seconds);
    let change =
        |number: u8, scheduler: &mut Scheduler, world: &mut World, with: &dyn Fn(&mut Known)| {
            if let Some(known) = world.pods.get_mut(&number) {
                with(known);
                let pod = known.pod(number).object();
                scheduler.pod_applied(pod, now).unwrap();
            }
        };
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
                .filter(|(_, known)| known.on.as_ref() == Some(&name));
            for pod in on.map(|(pod, _)| *pod).collect::<Vec<_>>() {
                gone(pod, scheduler, world);
            }
        }
        Op::Pod(number, wish) => {
            gone(number, scheduler, world);
            let pod = made_pod(number, &wish);
            scheduler.pod_applied(pod.object(), now).unwrap();
            let known = Known {
                wish,
                on: None,
                ends: false,
            };
            world.pods.insert(number, known);
        }
        Op::NoPod(number) => gone(number, scheduler, world),
        Op::Relabel(number, app) => {
            change(number, scheduler, world, &|known| known.wish.app = app);
        }
        Op::Resize(number, cpu) => {
            change(number, scheduler, world, &|known| known.wish.cpu = cpu);
        }
        Op::Ends(number) => change(number, scheduler, world, &|known| {
            known.ends = known.on.is_some();
        }),
        Op::Over => {
            let ending = world.pods.iter().filter(|(_, known)| known.ends);
            for pod in ending.map(|(pod, _)| *pod).collect::<Vec<_>>() {
                gone(pod, scheduler, world);
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

/// Plays what happens, each with whether the first binding after it fails. How many pods wait in the end.
fn play(ops: impl IntoIterator<Item = (Op, bool)>) -> Result<usize, TestCaseError> {
    let mut world = World::default();
    let mut scheduler = empty();
    for (number, (op, fails)) in ops.into_iter().enumerate() {
        let seconds = 60 * number as u64;
        scheduler.flush(at(seconds));
        let told = format!("{op:?}");
        happen(op, &mut scheduler, &mut world, seconds);
        settle(&mut scheduler, &mut world, seconds, fails);
        if world.is_anybody_ending() {
            continue;
        }
        let waiting = world.pods.iter().filter(|(_, known)| known.on.is_none());
        for (number, Known { wish, .. }) in waiting {
            let place = scheduler.place(&uid(&format!("p{number}")));
            prop_assert!(place.is_some(), "it waits somewhere");
            if place == Some(Place::Backoff) {
                prop_assert!(fails || world.nodes.is_empty(), "others are tried");
                continue;
            }
            let mut naive = world.scheduler();
            let pod = made_pod(*number, wish).object();
            naive.pod_applied(pod, at(0)).unwrap();
            let attempt = naive.schedule_next(at(0), &mut FirstOfEquals);
            prop_assert!(
                matches!(attempt, Some(Attempt::Failed(_))),
                "after {told}: {wish:?} finds {attempt:?} of {:?}",
                world.nodes
            );
        }
    }
    let waiting = world.pods.values().filter(|known| known.on.is_none());
    Ok(waiting.count())
}

/// A dock in zone a that only who tolerates it may use, and one of the kind that a pod wants to be near is there: with
/// him gone, or of another kind, the pod may be the first of them anywhere.
#[test]
fn the_first_of_a_kind_follows_the_last() {
    let look = |zone, is_tainted| Look {
        zone: Some(zone),
        disk: None,
        cpu: 3,
        is_tainted,
        is_cordoned: false,
    };
    let web = |wants: &[(u8, &'static str)]| Wish {
        namespace: "m",
        app: "web",
        cpu: 1,
        priority: 0,
        wants: wants.to_vec(),
    };
    let before = [
        Op::Node(0, look("a", true)),
        Op::Pod(0, web(&[(9, "web")])),
        Op::Node(1, look("b", false)),
        Op::Pod(1, web(&[(0, "web")])),
    ];
    let waiting = |then: Option<Op>| {
        let ops = before.iter().cloned().chain(then);
        play(ops.map(|op| (op, false))).unwrap()
    };
    assert_eq!(waiting(None), 1, "it waits beside the other one");
    assert_eq!(waiting(Some(Op::NoPod(0))), 0);
    assert_eq!(waiting(Some(Op::Relabel(0, "db"))), 0);
}

proptest! {
    #[test]
    fn who_waits_could_go_nowhere(
        ops in proptest::collection::vec((op(), proptest::bool::weighted(0.15)), 1..32),
    ) {
        play(ops)?;
    }
}
