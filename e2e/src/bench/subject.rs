//! What is measured: a fleet with Pilotage, or one cluster with the stock kube-scheduler; how both are started, alike
//! in everything that they share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use pilotage_api::names;
use pilotage_testkit::build::nodes;
use pilotage_testkit::plane::{Builder, audit::Policy};
use pilotage_testkit::{ControlPlane, Part, process::Process};

use super::error::Error;
use super::runs::{Kind, Run};
use super::usage::Program;
use crate::fleet::{Cluster, Fleet, Spec};

/// Where pods are created, in all clusters.
pub(super) const NAMESPACE: &str = "bench";
/// Shape of each cluster's nodes: any of them takes all the pods.
pub(super) const NODES: usize = 10;
pub(super) const NODE_CPU: &str = "32";
pub(super) const NODE_MEMORY: &str = "128Gi";
pub(super) const NODE_PODS: u32 = 110;

const PARTS: [(Part, &str); 5] = [
    (Part::Etcd, "etcd"),
    (Part::ApiServer, "kube-apiserver"),
    (Part::ControllerManager, "kube-controller-manager"),
    (Part::Scheduler, "kube-scheduler"),
    (Part::Kwok, "kwok"),
];

/// Group of our own processes.
pub(super) const PILOTAGE: &str = "pilotage";
/// Group of the process that creates pods and watches them.
pub(super) const LOAD: &str = "load";

/// Running clusters.
pub(super) enum Subject {
    Lone(Box<ControlPlane>),
    Fleet(Box<Fleet>),
}

fn real_nodes(cluster: &str) -> Vec<Node> {
    nodes(cluster, NODES, |node| {
        node.cpu(NODE_CPU).memory(NODE_MEMORY).pods(NODE_PODS)
    })
}

impl Subject {
    /// Starts what a run needs, connected.
    pub(super) async fn start(run: &Run) -> Result<Self, Error> {
        let plane = |builder: Builder| {
            let builder = builder.controller_manager().for_load();
            if run.audited {
                builder.audit(Policy::All)
            } else {
                builder
            }
        };
        let (targets, ask_all) = match run.kind {
            Kind::Vanilla => {
                let lone = plane(ControlPlane::builder("vanilla"))
                    .scheduler()
                    .kwok(real_nodes("vanilla"));
                let lone = lone.start().await?;
                open(&lone).await?;
                return Ok(Self::Lone(Box::new(lone)));
            }
            Kind::Pilotage { targets, ask_all } => (targets, ask_all),
        };
        // How many requests a pod costs is counted: these would come beside those that it needs.
        let mut spec = Spec::new()
            .source(plane)
            .part_flag("proxy-scheduler", "--stage-events-per-second=0");
        for index in 1..=targets {
            let name = format!("target-{index}");
            let target = plane(ControlPlane::builder(&name)).kwok(real_nodes(&name));
            spec = spec.target_plane(target);
        }
        if ask_all {
            spec = spec.part_flag("proxy-scheduler", "--ask-all");
        }
        let mut fleet = spec.start().await?;
        for cluster in fleet.all() {
            open(&cluster.plane).await?;
        }
        fleet.install().await?;
        fleet.connect(NAMESPACE).await?;
        Ok(Self::Fleet(Box::new(fleet)))
    }

    /// The cluster where pods are created, then the targets.
    pub(super) fn planes(&self) -> impl Iterator<Item = &ControlPlane> {
        let (lone, fleet) = match self {
            Self::Lone(plane) => (Some(&**plane), None),
            Self::Fleet(fleet) => (None, Some(fleet)),
        };
        let of_fleet = fleet.into_iter().flat_map(|fleet| fleet.all());
        lone.into_iter()
            .chain(of_fleet.map(|cluster| &cluster.plane))
    }

    /// The cluster where pods are created.
    pub(super) fn source(&self) -> &ControlPlane {
        match self {
            Self::Lone(plane) => plane,
            Self::Fleet(fleet) => &fleet.source.plane,
        }
    }

    /// The targets.
    pub(super) fn targets(&self) -> &[Cluster] {
        match self {
            Self::Lone(_) => &[],
            Self::Fleet(fleet) => &fleet.targets,
        }
    }

    /// Waits until a target can be used (again).
    pub(super) async fn connected(&self, target: &str) -> Result<(), Error> {
        match self {
            Self::Lone(_) => Ok(()),
            Self::Fleet(fleet) => Ok(fleet.source.connected(target, NAMESPACE).await?),
        }
    }

    /// Everything that runs, this process included.
    pub(super) async fn programs(&self) -> Vec<Program> {
        let own = Program {
            group: LOAD,
            name: "load".to_owned(),
            pid: i32::try_from(std::process::id()).unwrap_or_default(),
            is_ancestor: true,
        };
        let mut programs = vec![own];
        let mut add = |group, name: String, pids: Option<pilotage_testkit::supervisor::Pids>| {
            programs.extend(pids.map(|pids| Program {
                group,
                name,
                pid: pids.child,
                is_ancestor: false,
            }));
        };
        for plane in self.planes() {
            for (part, group) in PARTS {
                if let Ok(process) = plane.process(part) {
                    let name = format!("{} {group}", plane.name());
                    add(group, name, Process::pids(process).await);
                }
            }
        }
        if let Self::Fleet(fleet) = self {
            for cluster in fleet.all() {
                for (command, process) in &cluster.processes {
                    let name = format!("{} {command}", cluster.name());
                    add(PILOTAGE, name, process.process().pids().await);
                }
            }
        }
        programs
    }

    /// Completes when a process of Pilotage ends by itself, which none should.
    pub(super) async fn ended(&self) -> Error {
        match self {
            Self::Lone(_) => std::future::pending().await,
            Self::Fleet(fleet) => fleet.ended().await.into(),
        }
    }

    /// Where the logs are.
    pub(super) fn logs(&self) -> Vec<PathBuf> {
        match self {
            Self::Lone(plane) => vec![plane.directory().to_owned()],
            Self::Fleet(fleet) => fleet.logs(),
        }
    }

    /// Stops everything.
    pub(super) async fn stop(self) {
        match self {
            Self::Lone(plane) => plane.stop().await,
            Self::Fleet(fleet) => fleet.stop().await,
        }
    }
}

/// The virtual node of a target.
pub(super) fn virtual_node(target: &str) -> String {
    names::virtual_node(Some(NAMESPACE), target)
}

async fn open(plane: &ControlPlane) -> Result<(), Error> {
    plane
        .named_namespace(NAMESPACE, BTreeMap::new())
        .await?
        .keep();
    Ok(())
}
