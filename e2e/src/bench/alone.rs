//! `make bench-sched`, end to end: the real kube-scheduler and `pilotage scheduler`, one after the other, each alone
//! with a fresh API server and equal nodes. Nodes have no kubelet and pods no controllers, so that the schedulers and
//! the API server are all that works.
//!
//! Both clients have no limits. The second load comes at half the rate that the real one reached in its burst, to both.
//! Each shape of pods has clusters of its own.

mod aims;

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_testkit::pilotage::PilotageProcess;
use pilotage_testkit::{ControlPlane, Part};
use serde_json::json;
use tokio::sync::watch;

use super::aim;
use super::error::Error;
use super::load;
use super::quantiles::Quantiles;
use super::runs::Tempo;
use super::shape::{self, Shape};
use super::table::table;
use super::timeline::Timeline;
use super::usage::{self, Program, Sample};
use super::watch::Watches;
use crate::scheduler;

/// What pods ask for that say nothing.
const SCHEDULER_NAME: &str = "default-scheduler";
/// Requests at once: of nodes, of namespaces, and of a burst of pods.
const AT_ONCE: usize = 32;
/// Pods that warm everything up.
const WARM: usize = 200;
/// Nothing takes nearly as long.
const LIMIT: Duration = Duration::from_mins(10);
/// Events may be written that long after the last binding.
const SETTLE: Duration = Duration::from_secs(2);
/// Where the programs stand in [`Yard::programs`].
const SCHEDULER: usize = 0;
const API_SERVER: usize = 1;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the pods are like, one shape after the other.
    pub shapes: Vec<Shape>,
    /// Pods of each load, as far as the nodes take them.
    pub pods: usize,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Bursts of each scheduler; the best one counts.
    pub rounds: usize,
    /// Whether a missed aim is a failure.
    pub strict: bool,
}

/// The loads of one shape.
#[derive(Debug, Clone, Copy)]
struct Loads {
    shape: Shape,
    pods: usize,
    nodes: usize,
    rounds: usize,
}

impl Options {
    /// The loads of each shape, of no more pods than the nodes take.
    fn loads(&self) -> impl Iterator<Item = Loads> {
        self.shapes.iter().map(|shape| Loads {
            shape: *shape,
            pods: shape.pods(self.pods, self.nodes),
            nodes: self.nodes,
            rounds: self.rounds,
        })
    }
}

/// Who places the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Real,
    Ours,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::Real => "kube-scheduler",
            Self::Ours => "pilotage scheduler",
        }
    }
}

/// What a load showed.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Pods bound a second, from the first POST to the last binding.
    rate: f64,
    /// CPU seconds per 1,000 pods.
    scheduler: f64,
    api_server: f64,
    /// From POST until the pod is seen bound.
    bound: Quantiles,
    /// MiB, at most.
    memory: f64,
}

/// A cluster with a scheduler.
struct Yard {
    shape: Shape,
    plane: ControlPlane,
    ours: Option<PilotageProcess>,
    programs: Vec<Program>,
    watches: Watches,
}

/// Measures both with each shape of pods, and prints tables with the ratios, and all aims in the end.
pub async fn run(options: &Options) -> Result<(), Error> {
    let mut aims = Vec::new();
    for loads in options.loads() {
        let real = one(Who::Real, loads, None).await?;
        let ours = one(Who::Ours, loads, Some(real[0].rate)).await?;
        println!("{}\n", told(loads, &real, &ours));
        aims.extend(aims::aims(loads.shape, &real, &ours));
    }
    println!("aims\n{}", aim::text(&aims));
    if options.strict {
        aim::insist(&aims)?;
    }
    Ok(())
}

/// What both showed.
fn told(loads: Loads, real: &[Figures; 2], ours: &[Figures; 2]) -> String {
    let titles = [
        "",
        "PODS/S",
        "SCHEDULER CPU",
        "API SERVER CPU",
        "P50 MS",
        "P99 MS",
        "PEAK MIB",
    ];
    let mut rows = Vec::new();
    for (load, real, ours) in [("burst", real[0], ours[0]), ("half", real[1], ours[1])] {
        rows.push(row(format!("{load}, {}", Who::Real.name()), &real));
        rows.push(row(format!("{load}, {}", Who::Ours.name()), &ours));
        let times = |real: f64, ours: f64| format!("{:.2}x", real / ours);
        rows.push(vec![
            format!("{load}, how many times better"),
            times(ours.rate, real.rate),
            times(real.scheduler, ours.scheduler),
            times(real.api_server, ours.api_server),
            times(real.bound.p50_ms, ours.bound.p50_ms),
            times(real.bound.p99_ms, ours.bound.p99_ms),
            times(real.memory, ours.memory),
        ]);
    }
    let (pods, shape, nodes) = (loads.pods, loads.shape.name(), loads.nodes);
    let table = table(&titles, &rows);
    format!("{pods} pods, {shape}, on {nodes} nodes; CPU in seconds per 1,000 pods\n{table}")
}

fn row(name: String, figures: &Figures) -> Vec<String> {
    vec![
        name,
        format!("{:.1}", figures.rate),
        format!("{:.2}", figures.scheduler),
        format!("{:.2}", figures.api_server),
        format!("{:.0}", figures.bound.p50_ms),
        format!("{:.0}", figures.bound.p99_ms),
        format!("{:.0}", figures.memory),
    ]
}

/// One scheduler: its best burst, then a load of half the `yardstick`, or of half its own rate.
async fn one(who: Who, loads: Loads, yardstick: Option<f64>) -> Result<[Figures; 2], Error> {
    let shape = loads.shape.name();
    eprintln!("{}: {shape}, {} nodes", who.name(), loads.nodes);
    let mut yard = Yard::start(who, loads).await?;
    let measured = yard.measure_all(loads, yardstick).await;
    yard.stop().await;
    measured
}

impl Yard {
    async fn start(who: Who, loads: Loads) -> Result<Self, Error> {
        let mut builder = ControlPlane::builder(match who {
            Who::Real => "real",
            Who::Ours => "ours",
        });
        builder = builder.for_load();
        if who == Who::Real {
            builder = builder.scheduler();
        }
        let plane = builder.start().await?;
        stream::iter(loads.shape.namespaces())
            .map(|(name, labels)| {
                let plane = &plane;
                async move { plane.named_namespace(&name, labels).await }
            })
            .buffer_unordered(AT_ONCE)
            .map_ok(|namespace| drop(namespace.keep()))
            .try_collect::<()>()
            .await?;
        add_nodes(&plane, loads.nodes).await?;
        let ours = match who {
            Who::Real => None,
            Who::Ours => {
                scheduler::install(&plane).await?;
                let name = format!("--scheduler-name={SCHEDULER_NAME}");
                Some(scheduler::start(&plane, &[&name]).await?)
            }
        };
        let scheduler = match &ours {
            Some(process) => process.process().pids().await,
            None => plane.process(Part::Scheduler)?.pids().await,
        };
        let api_server = plane.process(Part::ApiServer)?.pids().await;
        let programs = [("scheduler", scheduler), ("kube-apiserver", api_server)];
        let programs = programs.into_iter().map(|(group, pids)| {
            let pids = pids.ok_or_else(|| Error::Ended(group.to_owned()))?;
            Ok(Program {
                group,
                name: group.to_owned(),
                pid: pids.child,
                is_ancestor: false,
            })
        });
        Ok(Self {
            shape: loads.shape,
            programs: programs.collect::<Result<_, Error>>()?,
            watches: Watches::start(std::iter::once(&plane), None).await?,
            plane,
            ours,
        })
    }

    async fn stop(self) {
        drop(self.ours);
        self.plane.stop().await;
    }

    async fn measure_all(
        &mut self,
        loads: Loads,
        yardstick: Option<f64>,
    ) -> Result<[Figures; 2], Error> {
        let burst = Tempo::Burst(AT_ONCE);
        let warm = loads.shape.pods(WARM, loads.nodes);
        self.measure("warm", warm, burst).await?;
        let mut best: Option<Figures> = None;
        for round in 0..loads.rounds {
            let figures = self
                .measure(&format!("burst{round}"), loads.pods, burst)
                .await?;
            if best.is_none_or(|best| figures.rate > best.rate) {
                best = Some(figures);
            }
        }
        let best = best.ok_or(Error::Empty("no burst was measured"))?;
        let rate = yardstick.unwrap_or(best.rate) / 2.0;
        let period = Duration::try_from_secs_f64(1.0 / rate).map_err(|_| Error::NoBound)?;
        let half = self
            .measure("half", loads.pods, Tempo::Every(period))
            .await?;
        Ok([best, half])
    }

    /// Creates pods in this tempo, waits until all are bound, and deletes them.
    async fn measure(&mut self, prefix: &str, pods: usize, tempo: Tempo) -> Result<Figures, Error> {
        let names = load::names(prefix, pods);
        let mut timeline = Timeline::new(names.iter().cloned());
        let client = self.plane.admin();
        let all = self.shape.build(&names);
        usage::reset_peaks(&self.programs)?;
        let start = Sample::take(&self.programs)?;
        let began = Instant::now();
        let (progress, _) = watch::channel(0);
        let creating = load::create(&client, all, tempo, &progress);
        let what = "not every pod is bound";
        let bound = |timeline: &Timeline| timeline.pods().all(|pod| pod.bound.is_some());
        let seeing = self.watches.until(&mut timeline, what, LIMIT, bound);
        let (created, ()) = tokio::try_join!(creating, seeing)?;
        tokio::time::sleep(SETTLE).await;
        let used = start.until(&Sample::take(&self.programs)?);
        let memory = usage::peaks(&self.programs)?;
        for sent in &created {
            timeline.sent(&sent.name, sent.at);
        }
        let last = timeline.pods().filter_map(|pod| pod.bound).max();
        let time = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
        let times = timeline
            .pods()
            .filter_map(|pod| pod.since_sent(pod.bound))
            .collect::<Vec<_>>();
        let cpu = |program: usize| {
            let used = used.cpu.get(program).copied().unwrap_or_default();
            used.as_secs_f64() * 1_000.0 / pods as f64
        };
        let figures = Figures {
            rate: pods as f64 / time.as_secs_f64(),
            scheduler: cpu(SCHEDULER),
            api_server: cpu(API_SERVER),
            bound: Quantiles::of(times).ok_or(Error::Empty("no pod was bound"))?,
            memory: memory.get(SCHEDULER).copied().unwrap_or_default() as f64 / 1_024.0,
        };
        eprintln!(
            "  {prefix}: {:.0} pods/s, {:.2} s CPU per 1,000, p99 {:.0} ms",
            figures.rate, figures.scheduler, figures.bound.p99_ms
        );
        // Nobody else would end them.
        let now = DeleteParams::default().grace_period(0);
        for (namespace, _) in self.shape.namespaces() {
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            api.delete_collection(&now, &ListParams::default())
                .await
                .map_err(Error::request("can't delete the pods"))?;
        }
        self.watches
            .until(&mut timeline, "pods are left", LIMIT, Timeline::is_empty)
            .await?;
        Ok(figures)
    }
}

/// Nodes that are ready. Nobody takes admission's taint off them but we.
async fn add_nodes(plane: &ControlPlane, count: usize) -> Result<(), Error> {
    let api: Api<Node> = Api::all(plane.admin());
    stream::iter(0..count)
        .map(|number| {
            let api = api.clone();
            async move {
                let node = shape::node(number).build();
                api.create(&PostParams::default(), &node).await?;
                let patch = Patch::Merge(json!({ "spec": { "taints": null } }));
                api.patch(&node.name_any(), &PatchParams::default(), &patch)
                    .await
            }
        })
        .buffer_unordered(AT_ONCE)
        .map_ok(drop)
        .try_collect::<()>()
        .await
        .map_err(Error::request("can't make a node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_loads_of_what_the_nodes_take() {
        let options = Options {
            shapes: vec![Shape::Spread, Shape::Anti],
            pods: 2_000,
            nodes: 1_000,
            rounds: 3,
            strict: false,
        };
        let loads: Vec<_> = options
            .loads()
            .map(|loads| (loads.shape, loads.pods, loads.nodes))
            .collect();
        let expected = [(Shape::Spread, 2_000, 1_000), (Shape::Anti, 800, 1_000)];
        assert_eq!(loads, expected);
    }
}
