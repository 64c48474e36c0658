//! The fleet that cells are played on: one source, two targets, two replicas of each part that is struck, short
//! leases, every line through a fault proxy; and who starts a process again that ended, as a kubelet would. It knows
//! nothing of cells.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::future::{join_all, try_join_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use pilotage_e2e::fleet::{Cluster, Error, Fleet, LeaseTimes, Spec};
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::fault::FaultProxy;
use pilotage_testkit::plane::audit::Policy;
use pilotage_testkit::{PilotageProcess, build, wait_for};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::crowd;
use crate::world::Place;

/// Leases are as short as whole seconds and two cores allow.
pub(crate) const LEASE: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(400),
};
/// Before a process is started again; doubles each time up to the limit, and begins anew with a process that lasted.
/// A kubelet's back-off, only shorter.
const BACK_OFF: Duration = Duration::from_millis(300);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(2_400);
const LASTED: Duration = Duration::from_secs(5);
/// For a process to say what it holds.
const ANSWER: Duration = Duration::from_secs(2);
/// For one that has ended meanwhile to be started again, and to say it then.
const SAYING: Duration = Duration::from_secs(15);
/// Parts that have two replicas.
const STRUCK: [&str; 3] = ["controllers", "proxy-scheduler", "candidate-scheduler"];

/// How many nodes each target has.
pub(crate) const NODES: usize = 2;
/// Names of the targets.
pub(crate) const TARGETS: [&str; 2] = ["east", "west"];

/// How a fleet asks its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// As by default: one target while it surely fits.
    BestFirst,
    /// All at once: every pod has a loser to release.
    All,
}

/// A running fleet with its supervisors.
#[derive(Debug)]
pub(crate) struct Stage {
    fleet: Arc<Fleet>,
    /// What happened beside the objects, with its time.
    journal: Arc<Journal>,
    supervisors: JoinSet<()>,
}

/// Lines for people, and when processes ended.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    lines: Mutex<Vec<(SystemTime, String)>>,
    /// With the process's cluster and name.
    ends: Mutex<Vec<(SystemTime, Place, String)>>,
}

impl Journal {
    pub(crate) fn note(&self, line: impl Into<String>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((SystemTime::now(), line.into()));
    }

    fn ended(&self, place: Place, process: &str, by: &str) {
        self.note(format!("{process} ended by {by}"));
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.push((SystemTime::now(), place, process.to_owned()));
    }

    /// Where and when processes of this part ended.
    pub(crate) fn ends_of(&self, part: &str, begin: SystemTime) -> Vec<(Place, SystemTime)> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter()
            .filter(|(at, _, process)| *at >= begin && process.contains(part))
            .map(|(at, place, _)| (*place, *at))
            .collect()
    }

    pub(crate) fn since(&self, begin: SystemTime) -> Vec<(SystemTime, String)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .filter(|(at, _)| *at >= begin)
            .cloned()
            .collect()
    }
}

impl Stage {
    /// Starts a fleet and connects it.
    pub(crate) async fn start(asking: Asking) -> Result<Self, Error> {
        // Bindings are all that is counted.
        let bindings = Policy::Rules(json!([{
            "level": "Metadata",
            "verbs": ["create"],
            "resources": [{ "group": "", "resources": ["pods/binding"] }],
            "omitStages": ["RequestReceived"],
        }, { "level": "None" }]));
        let mut spec = Spec::new().source(|plane| plane.history().audit(bindings.clone()));
        for name in TARGETS {
            let nodes = build::nodes(name, NODES, |node| node.cpu("8").memory("32Gi").pods(110));
            let plane = pilotage_testkit::ControlPlane::builder(name)
                .controller_manager()
                .kwok(nodes)
                .history()
                .audit(bindings.clone());
            spec = spec.target_plane(plane);
        }
        for part in STRUCK {
            spec = spec.standby(part);
        }
        for part in ["controllers", "proxy-scheduler"] {
            spec = spec
                .part_flag(part, "--target-probe-period=500ms")
                .part_flag(part, "--target-probe-timeout=1s");
        }
        // Holds and give-ups as short as they can be beside such leases, so that cells see their ends, too.
        spec = spec
            .part_flag("candidate-scheduler", "--hold-deadline=4s")
            .part_flag("candidate-scheduler", "--bind-timeout=4s")
            .part_flag("proxy-scheduler", "--give-up=6s")
            .lease(LEASE)
            .faults();
        if asking == Asking::All {
            spec = spec.part_flag("proxy-scheduler", "--ask-all");
        }
        let mut fleet = spec.start().await?;
        try_join_all(fleet.all().map(crowd::classes)).await?;
        fleet.install().await?;
        let fleet = Arc::new(fleet);
        let mut stage = Self {
            fleet,
            journal: Arc::default(),
            supervisors: JoinSet::new(),
        };
        stage.supervise();
        stage.fleet.connect_everywhere().await?;
        Ok(stage)
    }

    fn supervise(&mut self) {
        let counted = self.places().into_iter();
        let counted: Vec<_> = counted
            .map(|(cluster, place)| (place, cluster.all_processes().count()))
            .collect();
        for (place, count) in counted {
            for index in 0..count {
                let (fleet, journal) = (Arc::clone(&self.fleet), Arc::clone(&self.journal));
                self.supervisors.spawn(async move {
                    let cluster = cluster_of(&fleet, place);
                    if let Some((_, process)) = cluster.all_processes().nth(index) {
                        keep(place, process, &journal).await;
                    }
                });
            }
        }
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn cluster(&self, place: Place) -> &Cluster {
        cluster_of(&self.fleet, place)
    }

    /// All clusters, the source first.
    pub(crate) fn places(&self) -> Vec<(&Cluster, Place)> {
        let targets = self.fleet.targets.iter().enumerate();
        let targets = targets.map(|(number, cluster)| (cluster, Place::Target(number)));
        std::iter::once((&self.fleet.source, Place::Source))
            .chain(targets)
            .collect()
    }

    /// The leader of a part in a cluster: its host name and the Lease's holder.
    pub(crate) async fn leader(&self, place: Place, part: &str) -> Result<Leader, Error> {
        let leases = self.leases(place);
        let lease = wait_for(
            &leases,
            &lease_name(part),
            |lease| holder(lease).is_some(),
            LIMIT,
        )
        .await
        .map_err(Error::wait(&format!("nobody leads {part} in {place:?}")))?;
        let identity = holder(&lease).unwrap_or_default().to_owned();
        // The host name, and then what makes each process unique.
        let host = identity
            .rsplit_once('_')
            .map_or("", |(host, _)| host)
            .to_owned();
        Ok(Leader {
            place,
            part: part.to_owned(),
            host,
            identity,
        })
    }

    /// Waits until somebody else leads.
    pub(crate) async fn succeeded(&self, leader: &Leader) -> Result<(), Error> {
        let other = |lease: &Lease| holder(lease).is_some_and(|now| now != leader.identity);
        wait_for(
            &self.leases(leader.place),
            &lease_name(&leader.part),
            other,
            LIMIT,
        )
        .await
        .map(drop)
        .map_err(Error::wait(&format!(
            "nobody took over from {}",
            leader.identity
        )))
    }

    fn leases(&self, place: Place) -> Api<Lease> {
        Api::namespaced(self.cluster(place).plane.admin(), "pilotage")
    }

    /// The leader's process and its line.
    pub(crate) fn struck(&self, leader: &Leader) -> Option<(&PilotageProcess, &FaultProxy)> {
        let cluster = self.cluster(leader.place);
        let line = cluster.lines.get(&leader.host)?;
        let replicas = if leader.host.ends_with("-1") {
            &cluster.processes
        } else {
            &cluster.standbys
        };
        Some((replicas.get(leader.part.as_str())?, line))
    }

    /// How many pods each candidate scheduler holds a node for without a binding, as it says itself.
    pub(crate) async fn holds(&self) -> Vec<Hold> {
        let targets = self.fleet.targets.iter();
        let processes = targets
            .flat_map(Cluster::all_processes)
            .filter(|(command, _)| *command == "candidate-scheduler");
        let asking = processes.map(|(_, process)| async move {
            let said = async {
                loop {
                    let answer = timeout(ANSWER, process.admin_get("/metrics")).await;
                    if let Ok(Ok((_, text))) = answer
                        && let Some(pods) = assumed(&text)
                    {
                        return pods;
                    }
                    tokio::time::sleep(BACK_OFF).await;
                }
            };
            Hold {
                scheduler: name_of(process),
                pods: timeout(SAYING, said).await.ok(),
            }
        });
        join_all(asking).await
    }

    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        self.fleet.logs()
    }

    /// Stops everything.
    pub(crate) async fn stop(mut self) {
        self.supervisors.shutdown().await;
        if let Some(fleet) = Arc::into_inner(self.fleet) {
            fleet.stop().await;
        }
    }
}

/// What a candidate scheduler holds.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) scheduler: String,
    /// `None`: it doesn't say.
    pub(crate) pods: Option<u64>,
}

/// The pods in a scheduler's cache that have a node and, as far as it has seen, aren't bound; from its metrics.
fn assumed(metrics: &str) -> Option<u64> {
    let is_it = |line: &&str| {
        line.starts_with("scheduler_cache_size{") && line.contains("type=\"assumed_pods\"")
    };
    let (_, value) = metrics.lines().find(is_it)?.rsplit_once(' ')?;
    value.parse().ok()
}

/// Who leads.
#[derive(Debug, Clone)]
pub(crate) struct Leader {
    pub(crate) place: Place,
    part: String,
    host: String,
    identity: String,
}

impl std::fmt::Display for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {:?}", self.host, self.place)
    }
}

fn cluster_of(fleet: &Fleet, place: Place) -> &Cluster {
    match place {
        Place::Source => &fleet.source,
        Place::Target(number) => &fleet.targets[number],
    }
}

fn lease_name(part: &str) -> String {
    format!("pilotage-{part}")
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

fn name_of(process: &PilotageProcess) -> String {
    let name = process.directory().file_name();
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Starts a process again whenever it ends, for ever.
async fn keep(place: Place, process: &PilotageProcess, journal: &Journal) {
    let name = name_of(process);
    let mut back_off = BACK_OFF;
    loop {
        let started = Instant::now();
        let exit = process.process().wait().await;
        let exit = exit.map_or_else(|| "a signal of ours".to_owned(), |exit| exit.to_string());
        journal.ended(place, &name, &exit);
        if started.elapsed() >= LASTED {
            back_off = BACK_OFF;
        }
        tokio::time::sleep(back_off).await;
        back_off = (2 * back_off).min(LONGEST_BACK_OFF);
        if let Err(error) = process.process().start_again().await {
            journal.note(format!("{name} can't be started again: {error}"));
        }
    }
}
