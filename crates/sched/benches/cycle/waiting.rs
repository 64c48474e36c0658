//! What an event costs that helps none of 10,000 pods that wait, of one sort or of as many: a millisecond at most. One
//! that helps all of them is to cost no more, which is an aim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_sched::{Attempt, Moment, Object, PodUid, Scheduler, SeededTies, Stored as _};
use serde_json::{Value, json};

use crate::ALL;
use crate::cluster::{cluster, node, node_name};
use crate::measure::{cpu, micros};
use crate::shape::{HOSTNAME, Shape};

/// Pods that wait when an event comes.
const WAITING: usize = 10_000;
/// What such an event may cost.
const MOST: Duration = Duration::from_millis(1);

/// Of how many sorts they are where an event helps all of them.
const HELPED_SORTS: [usize; 2] = [50, WAITING];

/// Why they wait.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// They ask for so many different amounts, all of them too large.
    ForRoom(usize),
    /// No kubelet declares what they need.
    ForFeature,
    /// Each wants to be near pods of its own sort, of which there are none.
    Lonely,
    /// Each wants to be away from a pod that is on each node, or of its own sort.
    Crowded,
    /// Each is spread with pods of its own sort over a label that no node has.
    Spread,
    /// As many for each of the last four reasons.
    Mixed,
    /// Each wants nodes with a label of its own.
    ForLabel,
    /// Each tolerates another taint than the nodes have.
    ForTaint,
    /// As [`Refused::Spread`], and a node changes.
    SpreadByNode,
    /// They aren't to be tried yet.
    Gated,
    /// As [`Refused::Lonely`], and something of a Namespace changes that nobody asks for.
    LonelyByNamespace,
}

/// All of them.
const ALL_REFUSED: [Refused; 12] = [
    Refused::ForRoom(50),
    Refused::ForRoom(WAITING),
    Refused::ForFeature,
    Refused::Lonely,
    Refused::Crowded,
    Refused::Spread,
    Refused::Mixed,
    Refused::ForLabel,
    Refused::ForTaint,
    Refused::SpreadByNode,
    Refused::Gated,
    Refused::LonelyByNamespace,
];

impl Refused {
    fn name(self) -> String {
        match self {
            Self::ForRoom(sorts) => format!("refused-event {sorts}"),
            Self::ForFeature => "refused-event feature".to_owned(),
            Self::Lonely => "refused-event lonely".to_owned(),
            Self::Crowded => "refused-event crowded".to_owned(),
            Self::Spread => "refused-event spread".to_owned(),
            Self::Mixed => "refused-event mixed".to_owned(),
            Self::ForLabel => "refused-event label".to_owned(),
            Self::ForTaint => "refused-event taint".to_owned(),
            Self::SpreadByNode => "refused-event spread label".to_owned(),
            Self::Gated => "refused-event gated".to_owned(),
            Self::LonelyByNamespace => "refused-event namespace".to_owned(),
        }
    }

    /// What happens.
    const fn happens(self) -> Happens {
        match self {
            Self::ForRoom(_)
            | Self::ForFeature
            | Self::ForLabel
            | Self::ForTaint
            | Self::SpreadByNode
            | Self::Gated => Happens::Node,
            Self::Lonely | Self::Crowded | Self::Spread | Self::Mixed => Happens::Pods,
            Self::LonelyByNamespace => Happens::Namespace,
        }
    }

    fn pod(self, number: usize) -> Arc<Pod> {
        let mut pod = Shape::Plain.pod(number);
        let spec = Arc::make_mut(&mut pod).spec.get_or_insert_default();
        let sort = format!("sort-{number}");
        let own = json!({"matchLabels": {"app": sort}});
        match self {
            Self::ForRoom(sorts) => {
                let milli = 64_000 + number % sorts;
                let resources = spec.containers[0].resources.get_or_insert_default();
                let requests = resources.requests.get_or_insert_default();
                requests.insert("cpu".to_owned(), Quantity(format!("{milli}m")));
            }
            Self::ForFeature => (spec.host_network, spec.host_users) = (Some(true), Some(false)),
            Self::Lonely => {
                let term = json!({"labelSelector": own, "topologyKey": HOSTNAME});
                spec.affinity = Some(read(affinity("podAffinity", &term)));
            }
            Self::Crowded => {
                let either = json!({"key": "app", "operator": "In", "values": ["blocker", sort]});
                let term = json!({"labelSelector": {"matchExpressions": [either]}, "topologyKey": HOSTNAME});
                spec.affinity = Some(read(affinity("podAntiAffinity", &term)));
            }
            Self::Spread => {
                let rule = json!([{
                    "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own,
                }]);
                spec.topology_spread_constraints = Some(read(rule));
            }
            Self::Mixed => {
                let each = [Self::Lonely, Self::Crowded, Self::Spread, Self::ForFeature];
                return each[number % each.len()].pod(number);
            }
            Self::ForLabel => {
                let selector = spec.node_selector.get_or_insert_default();
                selector.insert("sort".to_owned(), sort);
            }
            Self::ForTaint => {
                spec.tolerations = Some(read(json!([{"key": sort, "operator": "Exists"}])));
            }
            Self::SpreadByNode => return Self::Spread.pod(number),
            Self::LonelyByNamespace => return Self::Lonely.pod(number),
            Self::Gated => spec.scheduling_gates = Some(read(json!([{"name": "later"}]))),
        }
        pod
    }

    /// A node gets more room, but not enough, or something else of it changes that nobody asks for.
    fn change(self, node: &mut Node, round: usize) {
        let cpu_now = match self {
            Self::ForRoom(_) => format!("{}", 33 + round % 30),
            _ => "32".to_owned(),
        };
        let status = node.status.get_or_insert_default();
        let allocatable = [
            ("cpu", cpu_now.as_str()),
            ("memory", "128Gi"),
            ("pods", "110"),
            ("ephemeral-storage", "100Gi"),
        ];
        let allocatable =
            allocatable.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
        status.allocatable = Some(allocatable.into());
        match self {
            Self::ForFeature => status.declared_features = Some(vec![format!("Other{round}")]),
            Self::ForTaint => {
                let taint =
                    json!([{"key": "owner", "value": round.to_string(), "effect": "NoSchedule"}]);
                node.spec.get_or_insert_default().taints = Some(read(taint));
            }
            Self::ForLabel | Self::SpreadByNode | Self::Gated => {
                let labels = node.metadata.labels.get_or_insert_default();
                labels.insert("note".to_owned(), round.to_string());
            }
            _ => {}
        }
    }
}

fn read<T: k8s_openapi::serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a part of a pod")
}

fn affinity(kind: &str, term: &Value) -> Value {
    let rules = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    json!({ kind: rules })
}

/// What helps nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    /// A node changes.
    Node,
    /// A pod comes to a node, or goes; half of them keep others away.
    Pods,
    /// A Namespace is annotated.
    Namespace,
}

/// All lines' names.
pub(crate) fn lines() -> impl Iterator<Item = String> {
    let helping = HELPED_SORTS.into_iter().map(helping);
    ALL_REFUSED.into_iter().map(Refused::name).chain(helping)
}

fn helping(sorts: usize) -> String {
    format!("helping-event {sorts}")
}

/// Prints the chosen lines; whether none is over the bound.
pub(crate) fn print(chosen: impl Fn(&str) -> bool) -> bool {
    let mut within = true;
    for refused in ALL_REFUSED {
        let line = refused.name();
        if chosen(&line) {
            let each = refused_event(refused);
            let is_within = each <= MOST;
            let verdict = if is_within { "" } else { ": TOO MUCH" };
            let (each, most) = (micros(each), micros(MOST));
            println!(
                "{line:22} {each:13.1} µs an event, with {WAITING} pods waiting; at most {most:.0}{verdict}"
            );
            within &= is_within;
        }
    }
    within
}

/// Prints the chosen lines of events that help all; those that cost more than they are to, one a text.
pub(crate) fn print_helping(chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missed = Vec::new();
    for sorts in HELPED_SORTS {
        let line = helping(sorts);
        if chosen(&line) {
            let each = helping_event(sorts);
            let (took, most) = (micros(each), micros(MOST));
            println!("{line:22} {took:13.1} µs an event that helps all of {WAITING} pods waiting");
            if each > MOST {
                missed.push(format!(
                    "{line}: {took:.0} µs an event; {most:.0} is the most"
                ));
            }
        }
    }
    missed
}

/// A pod on the node of this number.
fn placed(name: &str, app: &str, on: usize, is_alone: bool) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"nodeName": node_name(on), "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    });
    if is_alone {
        let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME});
        pod["spec"]["affinity"] = affinity("podAntiAffinity", &term);
    }
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// A Namespace that was annotated so often.
fn annotated(times: u32) -> Object {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("default".to_owned());
    let note = ("note".to_owned(), times.to_string());
    namespace.metadata.annotations = Some([note].into());
    Arc::new(namespace).object()
}

/// The mean of many events that help none of those that wait: as many as take so long that the clock's grain is
/// nothing.
fn refused_event(refused: Refused) -> Duration {
    const LONG: Duration = Duration::from_millis(400);
    let mut scheduler = crowd(refused);
    let mut changed = node(0);
    let start = cpu();
    let (mut rounds, mut events) = (0_u32, 0_u32);
    let mut spent = Duration::ZERO;
    while spent < LONG {
        match refused.happens() {
            Happens::Node => {
                refused.change(&mut changed, rounds as usize);
                let applied = scheduler.node_applied(&changed, Moment::ZERO);
                applied.expect("a name");
                events += 1;
            }
            Happens::Pods => {
                let pod = placed("passer-by", "other", 3, rounds.is_multiple_of(2));
                let applied = scheduler.pod_applied(pod, Moment::ZERO);
                applied.expect("an identity");
                scheduler.pod_deleted(&PodUid::from("passer-by"), Moment::ZERO);
                events += 2;
            }
            Happens::Namespace => {
                let applied = scheduler.apply(annotated(rounds), Moment::ZERO);
                applied.expect("a name");
                events += 1;
            }
        }
        rounds += 1;
        spent = cpu().saturating_sub(start);
    }
    assert_eq!(scheduler.unschedulable_pods().count(), WAITING);
    spent / events.max(1)
}

/// The median of some events that help all who wait for room, each of whom is tried in vain after each.
fn helping_event(sorts: usize) -> Duration {
    const ROUNDS: u64 = 9;
    let mut scheduler = crowd(Refused::ForRoom(sorts));
    let mut each = Vec::new();
    for round in 1..=ROUNDS {
        // Nobody's back-off lasts so long.
        let now = Moment::after_epoch(Duration::from_mins(round));
        let begun = Instant::now();
        scheduler.pod_deleted(&PodUid::from("blocker-0"), now);
        each.push(begun.elapsed());
        let blocker = placed("blocker-0", "blocker", 0, false);
        let applied = scheduler.pod_applied(blocker, now);
        applied.expect("an identity");
        try_all(&mut scheduler, now);
        assert_eq!(scheduler.unschedulable_pods().count(), WAITING);
    }
    each.sort_unstable();
    each.get(each.len() / 2).copied().unwrap_or_default()
}

/// A few nodes and those who wait.
fn crowd(refused: Refused) -> Scheduler {
    const NODES: usize = 10;
    let mut scheduler = cluster(NODES, ALL);
    let applied = scheduler.apply(annotated(0), Moment::ZERO);
    applied.expect("a name");
    for on in 0..NODES {
        let blocker = placed(&format!("blocker-{on}"), "blocker", on, false);
        let applied = scheduler.pod_applied(blocker, Moment::ZERO);
        applied.expect("an identity");
        let mut changed = node(on);
        refused.change(&mut changed, 0);
        let applied = scheduler.node_applied(&changed, Moment::ZERO);
        applied.expect("a name");
    }
    for number in 0..WAITING {
        let applied = scheduler.pod_applied(refused.pod(number), Moment::ZERO);
        applied.expect("an identity");
    }
    try_all(&mut scheduler, Moment::ZERO);
    scheduler
}

/// Tries all who are to be tried now, in vain.
fn try_all(scheduler: &mut Scheduler, now: Moment) {
    let mut ties = SeededTies::new(7);
    loop {
        let more = scheduler.flush(now).more;
        while let Some(attempt) = scheduler.schedule_next(now, &mut ties) {
            assert!(matches!(attempt, Attempt::Failed(_)), "{attempt:?}");
        }
        if !more {
            return;
        }
    }
}
