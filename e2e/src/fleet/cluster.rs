//! One cluster with Pilotage in it: which processes there are, as whom they run, and what a source shows of a target.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use pilotage_api::{Target, keys, names};
use pilotage_testkit::pilotage::{ADMIN_PORT, apply_output, binary};
use pilotage_testkit::{ControlPlane, PilotageProcess, wait_for};

use super::LIMIT;
use super::error::Error;

/// Namespace where Pilotage runs, and the account if it is one process.
const HOME: &str = "pilotage";
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

/// Into how many processes the parts are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One, with the roles of all parts.
    OneProcess,
    /// One a part, each under its own roles.
    ProcessAPart,
}

/// A cluster with Pilotage in it.
#[derive(Debug)]
pub struct Cluster {
    /// The control plane.
    pub plane: ControlPlane,
    /// Processes by command: `all`, or the names of the parts.
    pub processes: BTreeMap<&'static str, PilotageProcess>,
    side: Side,
    layout: Layout,
    extra: Vec<String>,
}

impl Cluster {
    pub(super) fn new(plane: ControlPlane, side: Side, layout: Layout, extra: Vec<String>) -> Self {
        Self {
            plane,
            processes: BTreeMap::new(),
            side,
            layout,
            extra,
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
        let commands: &[&'static str] = match self.layout {
            Layout::OneProcess => &["all"],
            Layout::ProcessAPart => self.side.parts(),
        };
        let started = try_join_all(commands.iter().map(|command| self.start(command))).await?;
        self.processes = started.into_iter().collect();
        Ok(())
    }

    async fn start(&self, command: &'static str) -> Result<(&'static str, PilotageProcess), Error> {
        let pilotage = binary()?;
        let account = if command == "all" { HOME } else { command };
        let mut rbac = vec![
            "rbac".to_owned(),
            format!("--service-account={HOME}/{account}"),
        ];
        if command != "all" {
            rbac.push(format!("--component={command}"));
        }
        apply_output(&self.plane, &pilotage, rbac).await?;
        let kubeconfig = self
            .plane
            .kubeconfig_file_for_service_account(HOME, account)
            .await?;
        let process = PilotageProcess::builder(&format!("{}-{command}", self.name()))
            .binary(pilotage)
            .args([command, "--log-format=text"])
            .args(["--admin-addr", &format!("127.0.0.1:{ADMIN_PORT}")])
            .args(["--kubeconfig", &kubeconfig.display().to_string()])
            .args(self.flags(command))
            .args(&self.extra)
            .start()
            .await?;
        Ok((command, process))
    }

    /// What its place asks for: processes beside the cluster, and not in it.
    fn flags(&self, command: &str) -> Vec<String> {
        let mut flags = Vec::new();
        if matches!(command, "all" | "webhook") {
            // The API server reaches it at the port that it takes.
            flags.push("--webhook-addr=127.0.0.1:0".to_owned());
            flags.push("--webhook-url=https://127.0.0.1:0".to_owned());
        }
        if command != "webhook" {
            // A machine that is busy with tests is no reason to give up a Lease: nobody would start the process again.
            flags.push("--lease-duration=90s".to_owned());
            flags.push("--renew-deadline=80s".to_owned());
        }
        if matches!(command, "all" | "proxy-scheduler") {
            flags.push(format!("--cluster-name={}", self.name()));
        }
        flags
    }

    /// Log files and directories of everything that runs here.
    pub fn logs(&self) -> Vec<PathBuf> {
        let own = self
            .processes
            .values()
            .map(|process| process.log().to_owned());
        own.chain([self.plane.directory().to_owned()]).collect()
    }

    /// For each process of Pilotage here, what completes when it ends by itself.
    pub(super) fn ends(&self) -> impl Iterator<Item = impl Future<Output = Error> + Send> {
        self.processes
            .iter()
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
        let is_connected = |target: &Target| {
            let conditions = target
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice());
            conditions.is_some_and(|all| {
                all.iter()
                    .any(|c| c.type_ == "Connected" && c.status == "True")
            })
        };
        wait_for(&targets, target, is_connected, LIMIT)
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
        join_all(self.processes.values().map(|process| process.stop(GRACE))).await;
        self.plane.stop().await;
    }
}

/// Ready, and without the taint that new nodes get.
fn is_usable(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        && !taints.is_some_and(|all| all.iter().any(|taint| taint.key == keys::NOT_READY_TAINT))
}
