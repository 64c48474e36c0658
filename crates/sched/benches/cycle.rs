//! What one scheduling cycle costs, beside the real scheduler's framework and plugins in one process (the oracle of
//! `e2e/tools`) where that is given. It owns the clusters and pods; it knows the code only by its public face.
//!
//! `make bench-sched` runs it. CPU time of this thread, from the pop of a pod to its node being assumed; ratios are those
//! of the same run. Arguments: `--oracle PATH`, and words that choose among the lines.

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
use pilotage_sched::{Attempt, Moment, NodeName, PodInfo, Scheduler, SchedulerConfig, SeededTies};
use serde_json::{Value, json};

/// Shapes of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Equal pods.
    Plain,
    /// Fifty sorts of pods in turn.
    Classes,
    /// Each pod is the first of its class.
    Miss,
    /// Pods that fit nowhere, in turn with pods that do.
    Unschedulable,
}

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Classes => "classes",
            Self::Miss => "miss",
            Self::Unschedulable => "unschedulable",
        }
    }

    /// What the oracle calls it; to that each pod is as good as new.
    const fn of_oracle(self) -> &'static str {
        match self {
            Self::Plain | Self::Miss => "plain",
            Self::Classes => "classes",
            Self::Unschedulable => "unschedulable",
        }
    }

    /// Requests of the pod of this number.
    fn requests(self, number: usize) -> Value {
        let pod = |milli: usize| json!({"cpu": format!("{milli}m"), "memory": "200Mi"});
        match self {
            Self::Classes => pod(100 + number % 50),
            Self::Miss => pod(100 + number),
            Self::Unschedulable if number.is_multiple_of(2) => pod(64_000),
            Self::Plain | Self::Unschedulable => pod(100),
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
    println!(
        "CPU µs a pod: ours, the real framework's with all nodes and with its stock share, and the ratios."
    );
    let mut failed = false;
    for shape in [
        Shape::Plain,
        Shape::Classes,
        Shape::Miss,
        Shape::Unschedulable,
    ] {
        for nodes in [1_000, 5_000, 50_000] {
            let line = format!("{} {nodes}", shape.name());
            if !words.is_empty() && !words.iter().all(|word| line.contains(word.as_str())) {
                continue;
            }
            let ours = measure(shape, nodes);
            print!("{line:22} {:9.1}", micros(ours));
            if let Some(oracle) = &oracle {
                for percentage in [100, 0] {
                    match ask(oracle, shape, nodes, percentage) {
                        Ok(theirs) => print!(" {:10.1} {:7.0}x", theirs, theirs / micros(ours)),
                        Err(error) => {
                            failed = true;
                            print!(" {error}");
                        }
                    }
                }
            }
            println!();
        }
    }
    for classes in [50, WAITING] {
        let line = format!("refused-event {classes}");
        if words.is_empty() || words.iter().all(|word| line.contains(word.as_str())) {
            println!(
                "{line:22} {:9.1} µs, with {WAITING} pods waiting",
                micros(refused_event(classes))
            );
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Pods that wait when an event comes that helps none of them.
const WAITING: usize = 10_000;

/// The least of some rounds, an event: a node gets more room, but not enough for any of the pods that wait, which ask for
/// so many different amounts.
fn refused_event(classes: usize) -> Duration {
    let mut scheduler = cluster(10);
    for number in 0..WAITING {
        let mut pod = pod(Shape::Plain, number);
        let milli = 64_000 + number % classes;
        let spec = Arc::make_mut(&mut pod).spec.get_or_insert_default();
        let resources = spec.containers[0].resources.get_or_insert_default();
        let requests = resources.requests.get_or_insert_default();
        requests.insert("cpu".to_owned(), Quantity(format!("{milli}m")));
        scheduler
            .pod_applied(pod, Moment::ZERO)
            .expect("an identity");
    }
    let mut ties = SeededTies::new(7);
    while let Some(attempt) = scheduler.schedule_next(Moment::ZERO, &mut ties) {
        assert!(matches!(attempt, Attempt::Failed(_)));
    }
    let node = scheduler.nodes().iter().next().expect("a node");
    let mut changed = Node::default();
    changed.metadata.name = Some(node.name().to_string());
    let mut rounds = Vec::new();
    for round in 0..20 {
        let cpu_now = format!("{}", 33 + round);
        let status = changed.status.get_or_insert_default();
        let allocatable = [
            ("cpu", cpu_now.as_str()),
            ("memory", "128Gi"),
            ("pods", "110"),
        ];
        let allocatable =
            allocatable.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
        status.allocatable = Some(allocatable.into());
        let start = cpu();
        scheduler
            .node_applied(&changed, Moment::ZERO)
            .expect("a name");
        rounds.push(cpu().saturating_sub(start));
    }
    assert_eq!(scheduler.unschedulable_pods().count(), WAITING);
    rounds.into_iter().min().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The oracle's CPU time a pod, in microseconds.
fn ask(oracle: &str, shape: Shape, nodes: usize, percentage: u8) -> Result<f64, String> {
    // It is slow where it looks at many nodes.
    let pods = (2_000_000 / nodes).clamp(50, 2_000);
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

fn cluster(nodes: usize) -> Scheduler {
    let profile = stock_profile("bench", Arc::new(Never)).build();
    let config = SchedulerConfig::default();
    let mut scheduler = Scheduler::new([profile.expect("a profile")], config).expect("a scheduler");
    for number in 0..nodes {
        let name = format!("node-{number:05}");
        let zone = format!("z{}", number % 3);
        let node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r",
            }},
            "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}},
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        scheduler.node_applied(&node, Moment::ZERO).expect("a name");
    }
    scheduler
}

fn pod(shape: Shape, number: usize) -> Arc<Pod> {
    let pod = json!({
        "metadata": {
            "name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}"),
            "labels": {"app": "web"},
        },
        "spec": {
            "schedulerName": "bench",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": shape.requests(number)}}],
        },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// The least of some rounds, a pod.
fn measure(shape: Shape, nodes: usize) -> Duration {
    let pods = (20_000_000 / nodes).clamp(200, 5_000);
    let mut scheduler = cluster(nodes);
    let mut ties = SeededTies::new(7);
    let mut number = 0;
    let mut rounds = Vec::new();
    let mut bound = BTreeMap::new();
    for round in 0..4 {
        // The first one warms up.
        let pods = if round == 0 { pods / 10 } else { pods };
        for _ in 0..pods {
            let applied = scheduler.pod_applied(pod(shape, number), Moment::ZERO);
            applied.expect("an identity");
            number += 1;
        }
        let start = cpu();
        let mut tried = 0_u32;
        while let Some(attempt) = scheduler.schedule_next(Moment::ZERO, &mut ties) {
            tried += 1;
            if let Attempt::Assumed(assumed) = attempt {
                bound.insert(assumed.uid().clone(), assumed);
            }
        }
        let spent = cpu().saturating_sub(start);
        for (_, assumed) in std::mem::take(&mut bound) {
            scheduler.start_binding(assumed.uid()).expect("no wait");
            scheduler.bound(*assumed, Moment::ZERO);
        }
        if round > 0 {
            rounds.push(spent / tried.max(1));
        }
    }
    rounds.into_iter().min().unwrap_or_default()
}

/// CPU time of this thread; where that can't be known, the time on the clock.
fn cpu() -> Duration {
    thread_local!(static START: Instant = Instant::now());
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = known.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.with(Instant::elapsed), Duration::from_nanos)
}
