//! What one scheduling cycle costs, beside the real scheduler's framework and plugins in one process (the oracle of
//! `e2e/tools`) where that is given. It owns the clusters and pods; it knows the code only by its public face.
//!
//! `make bench-sched` runs it. CPU time of this thread, from a pod as the watch brings it (parsed, compared with others, and
//! queued) to its node being assumed, as the oracle's is from the object to the assumed pod; of both the mean of all pods
//! after some that warm up. The profile is that of `pilotage scheduler`. Ratios are those of the same run. Arguments:
//! `--oracle PATH`, and words that choose among the lines.

// What can't be set up ends the bench.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_sched::plugins::{Binder, stock_profile};
use pilotage_sched::{
    Attempt, Moment, NodeName, Object, PodInfo, Scheduler, SchedulerConfig, SeededTies,
};
use serde_json::{Value, json};

/// Shapes of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Equal pods.
    Plain,
    /// Fifty sorts of pods in turn.
    Classes,
    /// More sorts than there is room for, of large clusters.
    Rotation,
    /// Each pod is the first of its class.
    Miss,
    /// Pods that fit nowhere, in turn with pods that do.
    Unschedulable,
    /// Equal pods of a Service, which are spread by default.
    Service,
    /// Equal pods that are spread over zones, and if possible over nodes.
    Spread,
    /// Pods each of which wants a node without the others.
    Anti,
    /// Pods of a hundred namespaces that want the zone of the others, which a namespace selector finds.
    NamespaceAffinity,
}

/// All of them.
const SHAPES: [Shape; 9] = [
    Shape::Plain,
    Shape::Classes,
    Shape::Rotation,
    Shape::Miss,
    Shape::Unschedulable,
    Shape::Service,
    Shape::Spread,
    Shape::Anti,
    Shape::NamespaceAffinity,
];

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Classes => "classes",
            Self::Rotation => "rotation",
            Self::Miss => "miss",
            Self::Unschedulable => "unschedulable",
            Self::Service => "service",
            Self::Spread => "spread",
            Self::Anti => "anti",
            Self::NamespaceAffinity => "nsaff",
        }
    }

    /// What the oracle calls it; to that each pod is as good as new.
    const fn of_oracle(self) -> &'static str {
        match self {
            Self::Miss => "plain",
            Self::Rotation => "classes",
            other => other.name(),
        }
    }

    /// How many sorts of pods there are, as far as any comes twice.
    const fn sorts(self) -> usize {
        match self {
            Self::Unschedulable => 2,
            Self::Classes => 50,
            Self::Rotation => 200,
            _ => 1,
        }
    }

    /// Requests of the pod of this number.
    fn requests(self, number: usize) -> Value {
        let pod = |milli: usize| json!({"cpu": format!("{milli}m"), "memory": "200Mi"});
        match self {
            Self::Classes | Self::Rotation => pod(100 + number % self.sorts()),
            // So little more that all fit.
            Self::Miss => json!({"cpu": "100m", "memory": format!("{}Ki", 204_800 + number)}),
            Self::Unschedulable if number.is_multiple_of(2) => pod(64_000),
            _ => pod(100),
        }
    }

    /// What the pod of this number has beside its requests.
    fn dress(self, number: usize, pod: &mut Value) {
        let others = json!({"matchLabels": {"app": "web"}});
        match self {
            Self::Spread => {
                pod["spec"]["topologySpreadConstraints"] = json!([
                    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": others},
                    {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": others},
                ]);
            }
            Self::Anti => {
                let term = json!({"labelSelector": others, "topologyKey": HOSTNAME});
                pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
            }
            Self::NamespaceAffinity => {
                pod["metadata"]["namespace"] = json!(format!("ns{}", number % 100));
                let term = json!({
                    "labelSelector": others, "topologyKey": ZONE, "namespaceSelector": {"matchLabels": {"team": "a"}},
                });
                pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
            }
            _ => {}
        }
    }

    /// Objects beside nodes and pods.
    fn objects(self) -> Vec<Object> {
        match self {
            Self::Service => {
                let service = json!({
                    "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}},
                });
                vec![Object::Service(Arc::new(
                    serde_json::from_value(service).expect("a service"),
                ))]
            }
            Self::NamespaceAffinity => {
                let namespace = |number: usize| {
                    let namespace = json!({"metadata": {"name": format!("ns{number}"), "labels": {"team": "a"}}});
                    Object::Namespace(Arc::new(
                        serde_json::from_value(namespace).expect("a namespace"),
                    ))
                };
                (0..100).map(namespace).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many pods of all those a cluster takes.
    const fn most(self, nodes: usize) -> usize {
        match self {
            Self::Anti => nodes * 8 / 10,
            _ => usize::MAX / 10,
        }
    }
}

fn main() -> ExitCode {
    let mut words = Vec::new();
    let mut oracle = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--oracle" => oracle = arguments.next(),
            // Cargo's own.
            "--bench" => {}
            _ => words.push(argument),
        }
    }
    let heads = ["ours", "ours, share", "theirs", "", "theirs, share", "", ""];
    println!("CPU µs a pod, with all nodes or with kube-scheduler's stock share of them:");
    println!(
        "{:22} {}",
        "",
        heads.map(|head| format!("{head:>13}")).concat()
    );
    let chosen = |line: &str| words.iter().all(|word| line.contains(word.as_str()));
    let mut failed = false;
    for shape in SHAPES {
        for nodes in [1_000, 5_000, 50_000] {
            let line = format!("{} {nodes}", shape.name());
            if !chosen(&line) {
                continue;
            }
            let ours = micros(measure(shape, nodes, ALL));
            let share = micros(measure(shape, nodes, SHARE));
            print!("{line:22} {ours:13.1}{share:13.1}");
            if let Some(oracle) = &oracle {
                let theirs = [ALL, SHARE].map(|percentage| ask(oracle, shape, nodes, percentage));
                match theirs {
                    [Ok(all), Ok(theirs)] => {
                        print!("{all:13.1}{:12.1}x", all / ours);
                        print!(
                            "{theirs:13.1}{:12.1}x{:12.1}x",
                            theirs / ours,
                            theirs / share
                        );
                    }
                    [all, theirs] => {
                        failed = true;
                        print!(" {all:?} {theirs:?}");
                    }
                }
            }
            println!();
        }
    }
    println!("Ratios are theirs to ours with all nodes, and the last one to ours with the share.");
    for refused in [
        Refused::ForRoom(50),
        Refused::ForRoom(WAITING),
        Refused::ForFeature,
    ] {
        let line = refused.name();
        if chosen(&line) {
            let each = micros(refused_event(refused));
            println!("{line:22} {each:13.1} µs an event, with {WAITING} pods waiting");
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Percentages of the nodes that are looked at.
const ALL: u8 = 100;
/// As kube-scheduler does it, from some size of the cluster on.
const SHARE: u8 = 0;

/// Pods that wait when an event comes that helps none of them.
const WAITING: usize = 10_000;

/// Why they wait.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// They ask for so many different amounts, all of them too large.
    ForRoom(usize),
    /// No kubelet declares what they need.
    ForFeature,
}

impl Refused {
    fn name(self) -> String {
        match self {
            Self::ForRoom(sorts) => format!("refused-event {sorts}"),
            Self::ForFeature => "refused-event feature".to_owned(),
        }
    }

    fn pod(self, number: usize) -> Arc<Pod> {
        let mut pod = pod(Shape::Plain, number);
        let spec = Arc::make_mut(&mut pod).spec.get_or_insert_default();
        match self {
            Self::ForRoom(sorts) => {
                let milli = 64_000 + number % sorts;
                let resources = spec.containers[0].resources.get_or_insert_default();
                let requests = resources.requests.get_or_insert_default();
                requests.insert("cpu".to_owned(), Quantity(format!("{milli}m")));
            }
            Self::ForFeature => (spec.host_network, spec.host_users) = (Some(true), Some(false)),
        }
        pod
    }

    /// A node gets more room, but not enough, or declares something else.
    fn change(self, node: &mut Node, round: usize) {
        let cpu_now = match self {
            Self::ForRoom(_) => format!("{}", 33 + round % 30),
            Self::ForFeature => "32".to_owned(),
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
        if let Self::ForFeature = self {
            status.declared_features = Some(vec![format!("Other{round}")]);
        }
    }
}

/// The mean of many events that help none of those that wait: as many as take so long that the clock's grain is nothing.
fn refused_event(refused: Refused) -> Duration {
    const LONG: Duration = Duration::from_millis(400);
    let mut scheduler = cluster(10, ALL);
    for number in 0..WAITING {
        let applied = scheduler.pod_applied(refused.pod(number), Moment::ZERO);
        applied.expect("an identity");
    }
    let mut ties = SeededTies::new(7);
    while let Some(attempt) = scheduler.schedule_next(Moment::ZERO, &mut ties) {
        assert!(matches!(attempt, Attempt::Failed(_)));
    }
    let mut changed = node(0);
    let start = cpu();
    let mut rounds = 0_u32;
    let mut spent = Duration::ZERO;
    while spent < LONG {
        refused.change(&mut changed, rounds as usize);
        let applied = scheduler.node_applied(&changed, Moment::ZERO);
        applied.expect("a name");
        rounds += 1;
        spent = cpu().saturating_sub(start);
    }
    assert_eq!(scheduler.unschedulable_pods().count(), WAITING);
    spent / rounds.max(1)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The oracle's CPU time a pod, in microseconds.
fn ask(oracle: &str, shape: Shape, nodes: usize, percentage: u8) -> Result<f64, String> {
    // It is slow where it looks at many nodes.
    let pods = (2_000_000 / nodes)
        .clamp(50, 2_000)
        .min(shape.most(nodes) * 9 / 10);
    let mut command = Command::new(oracle);
    command.args(["-bench", &nodes.to_string(), "-shape", shape.of_oracle()]);
    command.args(["-pods", &pods.to_string(), "-pct", &percentage.to_string()]);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answers = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut cpu = answers.filter_map(|it| it["bench"]["cpu_us_per_pod"].as_f64());
    let cpu = cpu.next_back();
    cpu.ok_or_else(|| format!("the oracle said {text:?}"))
}

/// Nothing is bound here.
struct Never;

impl Binder for Never {
    fn bind<'a>(
        &'a self,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async { Err("nothing is bound here".into()) })
    }
}

fn cluster(nodes: usize, percentage: u8) -> Scheduler {
    let profile = stock_profile("bench", Arc::new(Never))
        .refusing_unknown_constraints("this scheduler")
        .build();
    let config = SchedulerConfig {
        percentage_of_nodes_to_score: percentage,
        ..SchedulerConfig::default()
    };
    let mut scheduler = Scheduler::new([profile.expect("a profile")], config).expect("a scheduler");
    for number in 0..nodes {
        let applied = scheduler.node_applied(&node(number), Moment::ZERO);
        applied.expect("a name");
    }
    scheduler
}

fn node(number: usize) -> Node {
    let name = format!("node-{number:05}");
    let zone = format!("z{}", number % 3);
    let node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r",
        }},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}},
    });
    serde_json::from_value(node).expect("a node")
}

fn pod(shape: Shape, number: usize) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}"),
            "labels": {"app": "web"},
        },
        "spec": {
            "schedulerName": "bench",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": shape.requests(number)}}],
        },
    });
    shape.dress(number, &mut pod);
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// The mean of all pods after those that warm up.
fn measure(shape: Shape, nodes: usize, percentage: u8) -> Duration {
    let all = (60_000_000 / nodes)
        .clamp(600, 15_000)
        .min(shape.most(nodes));
    // Each sort comes twice, so that what can be known is.
    let warm = (all / 30).max(shape.sorts() * 2);
    let mut scheduler = cluster(nodes, percentage);
    for object in shape.objects() {
        let applied = scheduler.apply(object, Moment::ZERO);
        applied.expect("a name");
    }
    let mut ties = SeededTies::new(7);
    let mut number = 0;
    let (mut spent, mut tried) = (Duration::ZERO, 0_u32);
    for (pods, counts) in [
        (warm, false),
        (all / 3, true),
        (all / 3, true),
        (all / 3, true),
    ] {
        let told = (number..number + pods).map(|number| pod(shape, number));
        let told = told.collect::<Vec<_>>();
        number += pods;
        let mut bound = BTreeMap::new();
        let start = cpu();
        for pod in told {
            let applied = scheduler.pod_applied(pod, Moment::ZERO);
            applied.expect("an identity");
        }
        let mut attempts = 0;
        while let Some(attempt) = scheduler.schedule_next(Moment::ZERO, &mut ties) {
            attempts += 1;
            if let Attempt::Assumed(assumed) = attempt {
                bound.insert(assumed.uid().clone(), assumed);
            }
        }
        let round = cpu().saturating_sub(start);
        if counts {
            spent += round;
            tried += attempts;
        }
        for (_, assumed) in bound {
            scheduler.start_binding(assumed.uid()).expect("no wait");
            scheduler.bound(*assumed, Moment::ZERO);
        }
    }
    spent / tried.max(1)
}

/// CPU time of this thread; where that can't be known, the time on the clock.
fn cpu() -> Duration {
    thread_local!(static START: Instant = Instant::now());
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = known.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.with(Instant::elapsed), Duration::from_nanos)
}
