//! Where a script runs: clusters that were started here, a namespace for each, or those that somebody gave.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pilotage_api::Right;
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::plane::metrics_server::{self, MetricsServer};
use pilotage_testkit::{ControlPlane, build, pilotage};
use tokio::net::TcpListener;

use super::error::Error;
use crate::fleet::{self, Fleet, Spec};

/// The targets that are started here.
const TARGETS: [&str; 2] = ["east", "west"];
/// The kubeconfig of the source.
const SOURCE: &str = "source";
/// The source's autoscaler takes no minutes: a pod counts as soon as it is ready.
const AUTOSCALER: [&str; 3] = [
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
];

/// What a script is told of the clusters.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// A directory with a kubeconfig `source`, and one for each target.
    pub(super) kubeconfigs: PathBuf,
    /// Names of the targets.
    pub(super) targets: Vec<String>,
    /// The namespace that is connected to them.
    pub(super) namespace: String,
    /// Where programs are.
    pub(super) path: OsString,
}

impl Place {
    /// Clusters that somebody else started.
    pub(super) fn given(kubeconfigs: PathBuf, namespace: String) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable {
            path: kubeconfigs.clone(),
            source,
        };
        let mut targets = Vec::new();
        for entry in std::fs::read_dir(&kubeconfigs).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            targets.extend(name.into_string());
        }
        targets.sort();
        let all = targets.len();
        targets.retain(|name| name != SOURCE);
        if targets.is_empty() || targets.len() == all {
            return Err(Error::NoKubeconfigs(kubeconfigs));
        }
        Ok(Self {
            kubeconfigs,
            targets,
            namespace,
            path: std::env::var_os("PATH").unwrap_or_default(),
        })
    }
}

/// A server that says what it hears, as the pods of scripts do. What it has to say ends with this process.
async fn echo() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                // Whoever is gone doesn't mind.
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    Ok(address)
}

/// Clusters that were started here, with all that Pilotage can do turned on.
pub(super) struct Local {
    fleet: Fleet,
    kubeconfigs: PathBuf,
    path: OsString,
    /// The source's own.
    _metrics: MetricsServer,
}

impl Local {
    pub(super) async fn start() -> Result<Self, Error> {
        let forward = echo().await.map_err(Error::Listen)?;
        let mut spec = Spec::new()
            .by_chart()
            .source(|plane| plane.controller_manager_args(AUTOSCALER).aggregates())
            .kubelet()
            .rights(&Right::ALL)
            .follow(&["configmaps", "secrets", "services", "ingresses"]);
        for name in TARGETS {
            let nodes = build::nodes(name, 2, |node| node.cpu("4").memory("16Gi").pods(110));
            let target = ControlPlane::builder(name)
                .controller_manager()
                // For pods that keep their scheduler.
                .scheduler()
                // Scripts say what pods use, which use nothing here.
                .crd(metrics_server::stand_in())
                .kwok(nodes)
                .kubelet(Kubelet {
                    lines: ["one", "two", "three"].map(str::to_owned).to_vec(),
                    forward,
                });
            spec = spec.target_plane(target);
        }
        let mut fleet = spec.start().await?;
        fleet.install().await?;
        let plane = &fleet.source.plane;
        let metrics = MetricsServer::start(plane).await?;
        let kubeconfigs = plane.directory().join("kubeconfigs");
        for cluster in fleet.all() {
            let name = if cluster.name() == plane.name() {
                SOURCE
            } else {
                cluster.name()
            };
            copy(&cluster.plane.admin_kubeconfig(), &kubeconfigs.join(name))?;
        }
        let tools = plane.tools().path("kubectl");
        let kubectl = tools.map_err(|error| Error::Tools(Box::new(error)))?;
        let own = kubectl.parent().unwrap_or(Path::new("/")).to_owned();
        let plugin = plugin(plane.directory())?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let inherited = std::env::split_paths(&inherited);
        let path = std::env::join_paths([plugin, own].into_iter().chain(inherited));
        let path = path.map_err(|error| Error::Tools(Box::new(error)))?;
        Ok(Self {
            fleet,
            kubeconfigs,
            path,
            _metrics: metrics,
        })
    }

    /// A namespace of a script's own, connected.
    pub(super) async fn place(&self, script: &str) -> Result<Place, Error> {
        let namespace = format!("e2e-{script}");
        for cluster in self.fleet.all() {
            let made = cluster.plane.named_namespace(&namespace, BTreeMap::new());
            made.await?.keep();
        }
        self.fleet.connect(&namespace).await?;
        Ok(Place {
            kubeconfigs: self.kubeconfigs.clone(),
            targets: TARGETS.map(str::to_owned).to_vec(),
            namespace,
            path: self.path.clone(),
        })
    }

    pub(super) fn logs(&self) -> Vec<PathBuf> {
        self.fleet.logs()
    }

    pub(super) async fn stop(self) {
        self.fleet.stop().await;
    }
}

/// A directory below this one that has Pilotage as a plugin of kubectl.
fn plugin(directory: &Path) -> Result<PathBuf, Error> {
    let binary = pilotage::binary().map_err(fleet::Error::from)?;
    let directory = directory.join("bin");
    let plugin = directory.join("kubectl-pilotage");
    let made = std::fs::create_dir_all(&directory).and_then(|()| symlink(binary, &plugin));
    made.map_err(|source| Error::Unreadable {
        path: plugin,
        source,
    })?;
    Ok(directory)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let unreadable = |source| Error::Unreadable {
        path: to.to_owned(),
        source,
    };
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory).map_err(unreadable)?;
    }
    std::fs::copy(from, to).map(drop).map_err(unreadable)
}
