//! The figures of a measurement and how they follow from what was counted. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::actors::Row;
use super::quantiles::{Quantiles, milliseconds};
use super::requests::{Counts, is_about_pods};
use super::settings::Settings;
use super::usage::{Program, Used};

/// Name of the cluster where pods are created, beside targets.
pub const SOURCE: &str = "source";

/// Everything that was measured in one invocation.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When it began (RFC 3339).
    pub began: String,
    /// Pods of each measurement.
    pub pods: usize,
    /// What the figures rest on.
    pub settings: Settings,
    /// Run by run.
    pub runs: Vec<RunReport>,
}

/// What one run showed.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Audit logs were kept, so times and CPU can't be compared with other runs.
    pub audited: bool,
    /// CPUs that all processes keep busy while there is nothing to do.
    pub idle_cores: f64,
    /// The same by group.
    pub idle_by_group: BTreeMap<&'static str, f64>,
    /// Measurements in their order, as far as they came.
    pub loads: Vec<Figures>,
    /// Why it ended early.
    pub error: Option<String>,
}

/// What one measurement showed.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// How pods were created.
    pub load: String,
    /// Pods created a second, if that was fixed.
    pub rate: Option<f64>,
    /// Whether a target was frozen.
    pub frozen: Option<Frozen>,
    /// Seconds since the first POST was sent.
    pub seconds: Seconds,
    /// Pods ÷ seconds till all are bound.
    pub pods_per_second: f64,
    /// From POST until the delegate is bound in its target.
    pub delegate_bound: Option<Quantiles>,
    /// From POST until the pod is bound where it was created (a proxy: to its virtual node).
    pub bound: Quantiles,
    /// The same, each pod's.
    #[serde(skip)]
    pub times: Vec<Duration>,
    /// From POST until the pod says Running where it was created.
    pub running: Quantiles,
    /// CPU.
    pub cpu: Cpu,
    /// What the machine could do at most with this cost, and how much of that it did.
    pub bound_by_cpu: Bound,
    /// Peak of each process's memory, in MiB.
    pub peak_mib: BTreeMap<String, f64>,
    /// Peaks of our processes together.
    pub pilotage_peak_mib: f64,
    /// Requests for each pod until all run and losers are gone, by cluster and sort; clockwork (leases, heartbeats)
    /// too.
    pub requests: BTreeMap<String, BTreeMap<String, f64>>,
    /// Of these, all that are about pods, of all clusters and all users.
    pub requests_per_pod: f64,
    /// Of those, answered 4xx or 5xx, without [`Self::failed_of_kubelets_per_pod`].
    pub failed_per_pod: f64,
    /// Failed `PATCH pods/status` of targets. A real kubelet names no version; kwok does, and meets conflicts with
    /// itself. A candidate scheduler writes there only about pods that find no node: who failed is told by the run with
    /// audit logs.
    pub failed_of_kubelets_per_pod: f64,
    /// The same requests for the pods' deletion.
    pub requests_at_end_per_pod: f64,
    /// Those of them that failed: kwok deletes each delegate once more when it is gone.
    pub failed_at_end_per_pod: f64,
    /// Who sent them, if that was recorded.
    pub actors: Vec<Row>,
}

/// Seconds since the first POST was sent.
#[derive(Debug, Serialize)]
pub struct Seconds {
    /// Every POST was answered.
    pub created: f64,
    /// Every delegate was bound.
    pub delegates_bound: Option<f64>,
    /// Every pod was bound.
    pub bound: f64,
    /// Every pod ran.
    pub running: f64,
    /// Losers were gone.
    pub settled: f64,
}

/// CPU from the first POST until every pod ran, less what all processes use when idle.
#[derive(Debug, Serialize)]
pub struct Cpu {
    /// Of our processes, in milliseconds for each pod.
    pub pilotage_ms: f64,
    /// Of all processes that were measured.
    pub all_ms: f64,
    /// By group.
    pub by_group_ms: BTreeMap<&'static str, f64>,
    /// By process.
    pub by_process_ms: BTreeMap<String, f64>,
    /// What came after that until nothing was left to do, of all.
    pub after_ms: f64,
    /// CPUs that were busy, idle use included.
    pub busy_cores: f64,
    /// CPUs that others on this machine kept busy, or that its hypervisor kept back: the figures are worth little if
    /// this isn't small.
    pub others_cores: f64,
}

/// (CPUs − idle use) ÷ CPU for each pod.
#[derive(Debug, Serialize)]
pub struct Bound {
    /// Pods a second.
    pub pods_per_second: f64,
    /// Pods ÷ seconds till all run ÷ that. For a fixed rate it only says how busy the machine was.
    pub achieved: f64,
}

/// What a frozen target did.
#[derive(Debug, Serialize)]
pub struct Frozen {
    /// Its name.
    pub target: String,
    /// Pods that were recorded there, and waited for it.
    pub held: usize,
    /// The others that weren't bound yet when it froze, from POST to bound.
    pub elsewhere: Option<Quantiles>,
    /// The same, each pod's.
    #[serde(skip)]
    pub times: Vec<Duration>,
    /// Seconds that it was frozen.
    pub seconds: f64,
    /// Pods of which more than one delegate was ever bound, as recorded watches of all targets show.
    pub bound_twice: usize,
}

/// CPU of an idle fleet.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Of each program, in their order, as a share of one CPU.
    pub cores: Vec<f64>,
}

impl Idle {
    /// From what was used in a quiet time.
    pub fn of(used: &Used) -> Self {
        let time = used.time.as_secs_f64().max(f64::EPSILON);
        Self {
            cores: used
                .cpu
                .iter()
                .map(|cpu| cpu.as_secs_f64() / time)
                .collect(),
        }
    }

    /// Of all programs.
    pub fn total(&self) -> f64 {
        self.cores.iter().sum()
    }

    /// By group.
    pub fn by_group(&self, programs: &[Program]) -> BTreeMap<&'static str, f64> {
        let mut groups = BTreeMap::new();
        for (program, cores) in programs.iter().zip(&self.cores) {
            *groups.entry(program.group).or_default() += cores;
        }
        groups
    }
}

/// Milliseconds of CPU for each pod, less what would have been used anyway, by program.
fn net_ms(used: &Used, idle: &Idle, pods: usize) -> Vec<f64> {
    let time = milliseconds(used.time);
    let net = used.cpu.iter().zip(&idle.cores);
    net.map(|(cpu, idle)| (milliseconds(*cpu) - idle * time) / pods.max(1) as f64)
        .collect()
}

/// CPU figures of a measurement: until all ran, and after it.
pub fn cpu(
    programs: &[Program],
    idle: &Idle,
    pods: usize,
    working: &Used,
    after: &Used,
    ours: &'static str,
) -> Cpu {
    let net = net_ms(working, idle, pods);
    let mut by_group_ms: BTreeMap<&'static str, f64> = BTreeMap::new();
    let mut by_process_ms = BTreeMap::new();
    for (program, ms) in programs.iter().zip(&net) {
        *by_group_ms.entry(program.group).or_default() += ms;
        by_process_ms.insert(program.name.clone(), *ms);
    }
    let time = working.time.as_secs_f64().max(f64::EPSILON);
    let measured: Duration = working.cpu.iter().sum();
    let others = (working.machine + working.stolen).saturating_sub(measured);
    Cpu {
        pilotage_ms: by_group_ms.get(ours).copied().unwrap_or_default(),
        all_ms: net.iter().sum(),
        by_group_ms,
        by_process_ms,
        after_ms: net_ms(after, idle, pods).iter().sum(),
        busy_cores: measured.as_secs_f64() / time,
        others_cores: others.as_secs_f64() / time,
    }
}

/// The bound: (cores − idle) ÷ CPU for each pod.
pub fn bound(cores: usize, idle: f64, all_ms: f64, achieved_per_second: f64) -> Bound {
    let pods_per_second = (cores as f64 - idle) * 1_000.0 / all_ms.max(f64::EPSILON);
    Bound {
        pods_per_second,
        achieved: achieved_per_second / pods_per_second,
    }
}

/// Requests for each pod, by sort.
pub fn per_pod(counts: &Counts, pods: usize) -> BTreeMap<String, f64> {
    let each = |(sort, count): (&String, &super::requests::Count)| {
        (sort.clone(), count.all as f64 / pods.max(1) as f64)
    };
    counts.iter().map(each).collect()
}

/// Requests about pods, for each pod over all clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AboutPods {
    /// All.
    pub all: f64,
    /// Those that failed, without the kubelets'.
    pub failed: f64,
    /// Those that failed and are what a kubelet sends in a target.
    pub failed_of_kubelets: f64,
}

/// Sums over the clusters, by their names.
pub fn about_pods<'a>(
    clusters: impl Iterator<Item = (&'a String, &'a Counts)>,
    pods: usize,
) -> AboutPods {
    let (mut all, mut failed, mut failed_of_kubelets) = (0, 0, 0);
    for (cluster, counts) in clusters {
        for (sort, count) in counts.iter().filter(|(sort, _)| is_about_pods(sort)) {
            all += count.all;
            if cluster != SOURCE && sort == "PATCH pods/status" {
                failed_of_kubelets += count.failed;
            } else {
                failed += count.failed;
            }
        }
    }
    let per_pod = |count: u64| count as f64 / pods.max(1) as f64;
    AboutPods {
        all: per_pod(all),
        failed: per_pod(failed),
        failed_of_kubelets: per_pod(failed_of_kubelets),
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Count;
    use super::*;

    fn program(group: &'static str) -> Program {
        Program {
            group,
            name: format!("one {group}"),
            pid: 1,
            is_ancestor: false,
        }
    }

    fn used(time: u64, cpu: [u64; 2], machine: u64) -> Used {
        Used {
            time: Duration::from_secs(time),
            cpu: cpu.map(Duration::from_millis).into(),
            machine: Duration::from_millis(machine),
            stolen: Duration::ZERO,
        }
    }

    #[test]
    fn idle_use_is_no_pods_cost() {
        let programs = [program("pilotage"), program("etcd")];
        let idle = Idle::of(&used(10, [500, 1_000], 0));
        assert!((idle.total() - 0.15).abs() < 1e-9);
        let cpu = cpu(
            &programs,
            &idle,
            100,
            &used(10, [1_500, 4_000], 6_000),
            &used(2, [100, 300], 0),
            "pilotage",
        );
        assert!((cpu.pilotage_ms - 10.0).abs() < 1e-9);
        assert!((cpu.by_group_ms["etcd"] - 30.0).abs() < 1e-9);
        assert!((cpu.all_ms - 40.0).abs() < 1e-9);
        assert!((cpu.after_ms - 1.0).abs() < 1e-9);
        assert!((cpu.busy_cores - 0.55).abs() < 1e-9);
        assert!((cpu.others_cores - 0.05).abs() < 1e-9);
    }

    #[test]
    fn the_bound_is_what_is_left_of_the_cores_by_the_cost_of_a_pod() {
        let bound = bound(2, 0.4, 40.0, 30.0);
        assert!((bound.pods_per_second - 40.0).abs() < 1e-9);
        assert!((bound.achieved - 0.75).abs() < 1e-9);
    }

    #[test]
    fn requests_about_pods_are_summed_over_clusters() {
        let one =
            |sort: &str, all, failed| Counts::from([(sort.to_owned(), Count { all, failed })]);
        let mut source = one("PATCH pods/status", 20, 1);
        source.extend(one("PUT leases", 9, 4));
        let clusters = BTreeMap::from([
            (SOURCE.to_owned(), source),
            ("east".to_owned(), one("POST events", 10, 2)),
            ("west".to_owned(), one("PATCH pods/status", 10, 5)),
        ]);
        let wanted = AboutPods {
            all: 4.0,
            failed: 0.3,
            failed_of_kubelets: 0.5,
        };
        assert_eq!(about_pods(clusters.iter(), 10), wanted);
        assert!((per_pod(&clusters[SOURCE], 10)["PUT leases"] - 0.9).abs() < 1e-9);
    }
}
