//! One cluster with Pilotage in it: which processes there are, as whom they run, and what a source shows of a target.
//! What differs from fleet to fleet is in `settings`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use pilotage_api::{Target, TargetStatus, keys, names};
use pilotage_testkit::pilotage::{ADMIN_PORT, apply_output, binary};
use pilotage_testkit::{ControlPlane, FaultProxy, LIMIT, PilotageProcess, wait_for};

use super::chart::{self, Part};
use super::error::Error;
use super::settings::{Layout, Settings};

/// Namespace where Pilotage runs, and the account if it is one process.
pub(crate) const HOME: &str = "pilotage";
/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What a cluster is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Users create pods here.
    Source,
    /// Pods run here.
    Target,
}

impl Side {
    /// The parts that this side needs.
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Source => &["webhook", "controllers", "proxy-scheduler"],
            Self::Target => &["controllers", "candidate-scheduler"],
        }
    }
}

/// A cluster with Pilotage in it.
#[derive(Debug)]
pub struct Cluster {
    /// The control plane.
    pub plane: ControlPlane,
    /// Processes by command: `all`, or the names of the parts.
    pub processes: BTreeMap<&'static str, PilotageProcess>,
    /// Second replicas, by command, if the fleet has such.
    pub standbys: BTreeMap<&'static str, PilotageProcess>,
    /// By host name of a process: the line between it and its own API server, if the fleet has faults.
    pub lines: BTreeMap<String, FaultProxy>,
    /// The line by which sources come in, if the fleet has faults.
    pub door: Option<FaultProxy>,
    side: Side,
    settings: Settings,
}

impl Cluster {
    pub(super) fn new(plane: ControlPlane, side: Side, settings: Settings) -> Self {
        Self {
            plane,
            processes: BTreeMap::new(),
            standbys: BTreeMap::new(),
            lines: BTreeMap::new(),
            door: None,
            side,
            settings,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.plane.name()
    }

    /// Starts Pilotage, under no more rights than its generated roles give.
    pub async fn install(&mut self) -> Result<(), Error> {
        self.plane
            .named_namespace(HOME, BTreeMap::new())
            .await?
            .keep();
        let commands: &[&'static str] = match self.settings.layout {
            Layout::OneProcess => &["all"],
            Layout::ProcessAPart | Layout::Chart => self.side.parts(),
        };
        if self.settings.layout == Layout::Chart {
            chart::install(&self.plane, self.side, &self.settings).await?;
        }
        if self.settings.faults {
            self.door = Some(FaultProxy::start(&self.plane).await?);
        }
        let mut started =
            try_join_all(commands.iter().map(|command| self.start(command, 1))).await?;
        // Not at once with the first: both apply the same roles.
        let second = commands
            .iter()
            .filter(|command| self.settings.standbys.contains(*command))
            .map(|command| self.start(command, 2));
        started.extend(try_join_all(second).await?);
        for Started {
            command,
            replica,
            process,
            line,
        } in started
        {
            self.lines
                .extend(line.map(|line| (host_name(command, replica), line)));
            let replicas = if replica == 1 {
                &mut self.processes
            } else {
                &mut self.standbys
            };
            replicas.insert(command, process);
        }
        Ok(())
    }

    async fn start(&self, command: &'static str, replica: u32) -> Result<Started, Error> {
        let pilotage = binary()?;
        let part = match self.settings.layout {
            Layout::Chart => chart::part(&self.plane, command).await?,
            Layout::OneProcess | Layout::ProcessAPart => self.by_roles(&pilotage, command).await?,
        };
        let mut access = self
            .plane
            .service_account_access(HOME, &part.account)
            .await?;
        let mut line = None;
        if self.settings.faults {
            let proxy = FaultProxy::start(&self.plane).await?;
            access = proxy.access(&access)?;
            line = Some(proxy);
        }
        let host = host_name(command, replica);
        let kubeconfig = self.plane.directory().join(format!("{host}.kubeconfig"));
        access.write(&kubeconfig)?;
        let mut process = PilotageProcess::builder(&format!("{}-{host}", self.name()));
        if let Some(seconds) = self.settings.clocks_off {
            let ahead = (self.side == Side::Source) == (replica == 1);
            process = process.clock(if ahead { seconds } else { -seconds });
        }
        let process = process
            .binary(pilotage)
            // As in a pod, whose name it is; holders of Leases are called by it.
            .env("HOSTNAME", host)
            .args(part.args)
            .args(["--log-format=text"])
            .args(["--admin-addr", &format!("127.0.0.1:{ADMIN_PORT}")])
            .args(["--kubeconfig", &kubeconfig.display().to_string()])
            .args(self.flags(command))
            .start()
            .await?;
        Ok(Started {
            command,
            replica,
            process,
            line,
        })
    }

    /// A part with the roles that `pilotage rbac` prints.
    async fn by_roles(&self, pilotage: &Path, command: &str) -> Result<Part, Error> {
        let account = if command == "all" { HOME } else { command };
        let mut rbac = vec![
            "rbac".to_owned(),
            format!("--service-account={HOME}/{account}"),
        ];
        if command != "all" {
            rbac.push(format!("--component={command}"));
        }
        rbac.extend(self.namespaces_flag());
        if matches!(command, "all" | "controllers") {
            rbac.extend(self.follow_flag());
            rbac.extend(self.kubelet().map(|_| "--kubelet".to_owned()));
            let rights = self.settings.rights_flag();
            rbac.extend(rights.filter(|_| self.side == Side::Target));
        }
        apply_output(&self.plane, pilotage, rbac).await?;
        Ok(Part {
            account: account.to_owned(),
            args: vec![command.to_owned()],
        })
    }

    /// What its place asks for: processes beside the cluster, and not in it. And what the fleet asks for.
    fn flags(&self, command: &str) -> Vec<String> {
        let mut flags = Vec::new();
        if matches!(command, "all" | "webhook") {
            // The API server reaches it at the port that it takes.
            flags.push("--webhook-addr=127.0.0.1:0".to_owned());
            flags.push("--webhook-url=https://127.0.0.1:0".to_owned());
            // Its one API server isn't told to ask another webhook.
            flags.push("--shutdown-delay=0s".to_owned());
        }
        if command != "webhook" {
            flags.extend(self.settings.lease.flags());
        }
        if matches!(command, "all" | "proxy-scheduler") {
            flags.push(format!("--cluster-name={}", self.name()));
        }
        // The chart has said so.
        let says_it = self.settings.layout != Layout::Chart;
        if says_it && matches!(command, "all" | "controllers" | "proxy-scheduler") {
            flags.extend(self.namespaces_flag());
        }
        if matches!(command, "all" | "controllers") {
            flags.extend(self.follow_flag().filter(|_| says_it));
            if let Some(address) = self.kubelet() {
                // The API server reaches it at the port that it takes.
                flags.push(format!("--kubelet-address={address}"));
                flags.push(format!("--kubelet-listen={address}:0"));
            }
        }
        flags.extend(self.settings.flags_of(command));
        flags
    }

    /// Targets are made in sources.
    fn namespaces_flag(&self) -> Option<String> {
        let flag = self.settings.namespaces_flag();
        flag.filter(|_| self.side == Side::Source)
    }

    /// Objects follow pods from sources.
    fn follow_flag(&self) -> Option<String> {
        let flag = self.settings.follow_flag();
        flag.filter(|_| self.side == Side::Source)
    }

    /// Where its virtual nodes have a kubelet.
    fn kubelet(&self) -> Option<Ipv4Addr> {
        let kubelet = self.settings.kubelet;
        kubelet.filter(|_| self.side == Side::Source)
    }

    /// Rights that a Source here asks for.
    pub(super) fn rights(&self) -> Vec<&'static str> {
        self.settings
            .rights
            .iter()
            .map(|right| right.name())
            .collect()
    }

    /// Log files and directories of everything that runs here.
    pub fn logs(&self) -> Vec<PathBuf> {
        let own = self.all_processes();
        let own = own.map(|(_, process)| process.log().to_owned());
        own.chain([self.plane.directory().to_owned()]).collect()
    }

    /// Every process of Pilotage here, with its command; the first replicas first.
    pub fn all_processes(&self) -> impl Iterator<Item = (&'static str, &PilotageProcess)> {
        let all = self.processes.iter().chain(&self.standbys);
        all.map(|(command, process)| (*command, process))
    }

    /// For each process of Pilotage here, what completes when it ends by itself.
    pub(super) fn ends(&self) -> impl Iterator<Item = impl Future<Output = Error> + Send> {
        self.all_processes()
            .map(move |(command, process)| async move {
                process.process().wait().await;
                let process_name = format!("pilotage {command} of {}", self.name());
                Error::Ended {
                    process: process_name,
                    tail: process.tail(),
                }
            })
    }

    /// In a source: waits until a Target is connected and its virtual node is ready.
    pub async fn connected(&self, target: &str, namespace: &str) -> Result<(), Error> {
        let targets: Api<Target> = Api::namespaced(self.plane.admin(), namespace);
        let connected = |target: &Target| is_connected(target.status.as_ref());
        wait_for(&targets, target, connected, LIMIT)
            .await
            .map_err(Error::wait(&format!(
                "the source is not connected to {target}"
            )))?;
        let nodes: Api<Node> = Api::all(self.plane.admin());
        wait_for(
            &nodes,
            &names::virtual_node(Some(namespace), target),
            is_usable,
            LIMIT,
        )
        .await
        .map(drop)
        .map_err(Error::wait(&format!(
            "the virtual node of {target} is not ready"
        )))
    }

    /// Stops everything here, Pilotage first.
    pub async fn stop(self) {
        join_all(self.all_processes().map(|(_, process)| process.stop(GRACE))).await;
        let lines = self.lines.into_values().chain(self.door);
        join_all(lines.map(FaultProxy::stop)).await;
        self.plane.stop().await;
    }
}

/// A process that was started, with its line if it has one of its own.
struct Started {
    command: &'static str,
    replica: u32,
    process: PilotageProcess,
    line: Option<FaultProxy>,
}

/// As the pod would be called.
fn host_name(command: &str, replica: u32) -> String {
    format!("{command}-{replica}")
}

/// Whether a Target or `ClusterTarget` says that its cluster answers.
pub(super) fn is_connected(status: Option<&TargetStatus>) -> bool {
    let conditions = status.map(|status| status.conditions.as_slice());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c.type_ == "Connected" && c.status == "True")
    })
}

/// Ready, and without the taint that new nodes get.
pub(super) fn is_usable(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        && !taints.is_some_and(|all| all.iter().any(|taint| taint.key == keys::NOT_READY_TAINT))
}
