//! One control plane: its parts as processes, who may talk to it, and its end. How the parts are started is in
//! [`builder`](self) and one file a part.

mod apiserver;
pub mod audit;
mod bindings;
mod builder;
pub mod certs;
mod controller_manager;
mod etcd;
mod identity;
pub mod kwok;
pub mod metrics_server;
mod nodes;
mod policies;
mod pool;
mod snapshot;
mod tenant;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::DynamicObject;
use kube::{Api, Client};

pub use self::bindings::bindings;
pub use self::builder::Builder;
use self::certs::Authority;
pub use self::pool::VARIABLE as REUSE_VARIABLE;
use crate::access::{self, Access};
use crate::apply;
use crate::cli;
use crate::dirs::RunDir;
use crate::history::{self, History};
use crate::namespace::TestNamespace;
use crate::ports::Port;
use crate::process::{self, Process};
use crate::shared;
use crate::supervisor::{Exit, Signal};
use crate::tools::{self, Tools};
use crate::wait::{self, WaitError};

/// How long the parts may take to end when asked to.
const GRACE: Duration = Duration::from_secs(5);

/// A control plane can't be started or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool is missing.
    #[error(transparent)]
    Tool(#[from] tools::Error),
    /// No directory, or no port, for the run.
    #[error("can't prepare a directory and ports for the control plane")]
    Prepare(#[source] std::io::Error),
    /// What it stores can't be read, so that no later test could have it clean.
    #[error("the control plane can't be kept for later tests: {0}")]
    Again(String),
    /// A configuration file can't be read or written.
    #[error("can't use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Certificate(#[from] certs::Error),
    /// No client or kubeconfig.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// A part did not start or stopped.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The CRDs, or other YAML, were refused.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The API server refused a request.
    #[error("{what}")]
    Request {
        /// What was asked.
        what: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something that must appear did not.
    #[error("{what}: {source}")]
    Wait {
        /// What should have come.
        what: String,
        /// What came.
        source: Box<WaitError>,
    },
    /// The part was not asked for when the plane was built.
    #[error("this control plane has no {0:?}")]
    NoPart(Part),
    /// `kubectl` or `helm` failed.
    #[error(transparent)]
    Command(#[from] cli::Error),
    /// No audit log, or none to read.
    #[error(transparent)]
    Audit(#[from] audit::Error),
    /// No history.
    #[error(transparent)]
    History(#[from] history::Error),
}

impl Error {
    fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request {
            what: what.into(),
            source: Box::new(source),
        }
    }

    fn wait(what: impl Into<String>) -> impl FnOnce(WaitError) -> Self {
        move |source| Self::Wait {
            what: what.into(),
            source: Box::new(source),
        }
    }

    fn is_port_conflict(&self) -> bool {
        matches!(self, Self::Process(error) if error.is_port_conflict())
    }
}

/// Parts of a control plane, in the order in which they start. They stop in the opposite order: an API server whose
/// etcd went first can hang for minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok.
    Kwok,
}

/// How long a start took, part by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartTimes {
    /// From the beginning until this step was done.
    pub steps: Vec<(&'static str, Duration)>,
}

impl std::fmt::Display for StartTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (step, time)) in self.steps.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{step} {:.2} s", time.as_secs_f32())?;
        }
        Ok(())
    }
}

/// A running control plane. Dropping it does in the background what [`Self::stop`] does.
#[derive(Debug)]
pub struct ControlPlane {
    name: String,
    running: Option<Running>,
    admin: Access,
    authority: Arc<Authority>,
    directory: PathBuf,
    tools: Tools,
    audit: Option<audit::Log>,
    /// Where etcd listens.
    etcd: SocketAddr,
    api: SocketAddr,
    /// Whether what etcd stores can be read.
    is_readable: bool,
    again: Option<pool::Again>,
    started: StartTimes,
}

#[derive(Debug)]
struct Running {
    parts: BTreeMap<Part, Process>,
    run: RunDir,
    /// Those of etcd and the API server come first.
    ports: Vec<Port>,
    /// Whether somebody had etcd or the API server in hand, to kill it, say.
    struck: AtomicBool,
}

/// Ports that etcd and the API server have.
const CORE_PORTS: usize = 3;

impl Running {
    fn was_struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }

    /// Stops everything but etcd and the API server.
    async fn stop_rest(&mut self) {
        let rest = self.parts.split_off(&Part::ControllerManager);
        futures::future::join_all(rest.values().map(|part| part.stop(GRACE))).await;
        self.ports.truncate(CORE_PORTS);
    }

    /// Stops what is left, and removes the data.
    async fn stop(self) {
        let Self {
            parts, run, ports, ..
        } = self;
        for part in parts.into_values().rev() {
            part.stop(GRACE).await;
        }
        run.remove_data();
        drop(ports);
    }
}

impl ControlPlane {
    /// A control plane of etcd and an API server; the builder adds the rest. `name` appears in paths and kubeconfigs.
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its logs are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How long the start took.
    pub fn start_times(&self) -> &StartTimes {
        &self.started
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> &str {
        self.admin.server()
    }

    /// The tools that it was started with.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// A client in the group `system:masters`, for what a test itself does. It has connections of its own and belongs
    /// to the runtime of the caller.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn admin(&self) -> Client {
        #[expect(
            clippy::expect_used,
            reason = "the same client was made when the plane started"
        )]
        self.admin
            .client()
            .expect("a client with the administrator's certificate")
    }

    /// The administrator, for kubeconfigs and clients by another address.
    pub fn admin_access(&self) -> &Access {
        &self.admin
    }

    /// The administrator's kubeconfig on disk.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.directory.join(builder::ADMIN_KUBECONFIG)
    }

    /// The cluster's certificate authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Whether a part runs here (or did: tests may have killed it).
    pub fn has(&self, part: Part) -> bool {
        self.part(part).is_ok()
    }

    fn part(&self, part: Part) -> Result<&Process, Error> {
        self.running
            .as_ref()
            .and_then(|running| running.parts.get(&part))
            .ok_or(Error::NoPart(part))
    }

    /// One of its processes, to kill, freeze and restart.
    pub fn process(&self, part: Part) -> Result<&Process, Error> {
        if let Some(running) = &self.running
            && matches!(part, Part::Etcd | Part::ApiServer)
        {
            running.struck.store(true, Ordering::Relaxed);
        }
        self.part(part)
    }

    /// Sends a signal to a part.
    pub async fn signal(&self, part: Part, signal: Signal) -> Result<(), Error> {
        Ok(self.process(part)?.signal(signal).await?)
    }

    /// Kills a part with SIGKILL.
    pub async fn kill(&self, part: Part) -> Result<Option<Exit>, Error> {
        Ok(self.process(part)?.kill().await)
    }

    /// Starts a part again on the same port and data (killing it first if it still runs) and waits until it answers.
    pub async fn restart(&self, part: Part) -> Result<(), Error> {
        let from = Timestamp::now();
        self.process(part)?.restart(wait::LIMIT).await?;
        if part == Part::ApiServer {
            let start = audit::Start::new(from, Timestamp::now());
            start
                .note(&self.directory)
                .map_err(|source| audit::Error::Note { source })?;
        }
        Ok(())
    }

    /// The audit log.
    pub fn audit(&self) -> Result<audit::Log, Error> {
        Ok(self.audit.clone().ok_or(audit::Error::Off)?)
    }

    /// Records every version of the objects below these prefixes (such as `pods/` or `pods/default/`) from now on, as
    /// the data store has them: no fault of the API server leaves a gap.
    pub async fn history(&self, prefixes: &[&str]) -> Result<History, Error> {
        let store = self.is_readable.then_some(self.etcd);
        let store = store.ok_or(history::Error::Off)?;
        let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        Ok(History::start(store, &prefixes).await?)
    }

    /// Applies YAML text as administrator; objects without namespace go to `default`.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<Vec<DynamicObject>, Error> {
        Ok(apply::apply_yaml(&self.admin(), yaml, "default").await?)
    }

    /// A namespace of its own for one test.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace, Error> {
        self.namespace_with(prefix, BTreeMap::new()).await
    }

    /// A namespace whose elected pods are delegated.
    pub async fn elected_namespace(&self, prefix: &str) -> Result<TestNamespace, Error> {
        use pilotage_api::keys::{NAMESPACE_LABEL, NAMESPACE_LABEL_VALUE};
        let labels = [(NAMESPACE_LABEL.to_owned(), NAMESPACE_LABEL_VALUE.to_owned())];
        self.namespace_with(prefix, labels.into()).await
    }

    /// A namespace with labels.
    pub async fn namespace_with(
        &self,
        prefix: &str,
        labels: BTreeMap<String, String>,
    ) -> Result<TestNamespace, Error> {
        let name = format!("{prefix}-{}", crate::unique());
        TestNamespace::create(self, &name, labels).await
    }

    /// A namespace of a given name, which must not exist.
    pub async fn named_namespace(
        &self,
        name: &str,
        labels: BTreeMap<String, String>,
    ) -> Result<TestNamespace, Error> {
        TestNamespace::create(self, name, labels).await
    }

    /// Adds nodes and waits until they are ready; kwok keeps them alive, so it must run.
    pub async fn add_nodes(&self, nodes: impl IntoIterator<Item = Node>) -> Result<(), Error> {
        self.part(Part::Kwok)?;
        let nodes = nodes.into_iter().collect();
        nodes::create(&self.admin(), nodes, self.has(Part::ControllerManager)).await
    }

    /// UID of the namespace `kube-system`, by which Pilotage knows a source cluster.
    pub async fn cluster_uid(&self) -> Result<String, Error> {
        let api: Api<Namespace> = Api::all(self.admin());
        let namespace = api
            .get("kube-system")
            .await
            .map_err(Error::request("get kube-system"))?;
        Ok(namespace.metadata.uid.unwrap_or_default())
    }

    /// Runs `kubectl` as administrator; returns its standard output.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, Error> {
        self.run_tool("kubectl", args, None).await
    }

    /// `kubectl` with standard input, as in `kubectl apply -f -`.
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String, Error> {
        self.run_tool("kubectl", args, Some(input)).await
    }

    /// Runs `helm` as administrator; returns its standard output.
    pub async fn helm(&self, args: &[&str]) -> Result<String, Error> {
        self.run_tool("helm", args, None).await
    }

    async fn run_tool(
        &self,
        tool: &str,
        args: &[&str],
        input: Option<&str>,
    ) -> Result<String, Error> {
        let program = self.tools.path(tool)?;
        let command = cli::Command::new(program, &self.directory)
            .args(args)
            .env("KUBECONFIG", self.admin_kubeconfig())
            // Discovery is cached by host and port, and ports are used again by other planes.
            .env("KUBECACHEDIR", self.directory.join("data/kubectl-cache"))
            .env("HOME", self.directory.join("data"));
        let command = match input {
            Some(input) => command.input(input),
            None => command,
        };
        Ok(command.run().await?)
    }

    /// Stops every part and removes the data; the logs stay. Where [planes are used again](REUSE_VARIABLE) etcd and the
    /// API server may wait for the next one.
    pub async fn stop(mut self) {
        if let Some(core) = self.take_core() {
            core.end().await;
        }
    }

    /// Everything that runs: it ends, or goes on as the core of another plane.
    fn take_core(&mut self) -> Option<pool::Core> {
        let running = self.running.take()?;
        Some(pool::Core {
            // Nobody knows what was done to it.
            again: self.again.take().filter(|_| !running.was_struck()),
            running,
            authority: Arc::clone(&self.authority),
            etcd: self.etcd,
            api: self.api,
        })
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let Some(mut core) = self.take_core() else {
            return;
        };
        // The logs of a test that fails are its own.
        core.again = core.again.filter(|_| !std::thread::panicking());
        // A test has no time to wait here. If the process ends first, the supervisors do the rest.
        let Ok(runtime) = shared::runtime() else {
            return;
        };
        let returns = pool::Returns::announce(&core);
        runtime.spawn(async move {
            core.end().await;
            drop(returns);
        });
    }
}
