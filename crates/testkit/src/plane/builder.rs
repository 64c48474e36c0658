//! Builds a control plane: what it consists of, and the order in which that starts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::certs::Authority;
use super::snapshot::Snapshot;
use super::{
    ControlPlane, Error, Part, Running, StartTimes, apiserver, audit, controller_manager, etcd,
    kwok, nodes, pool,
};
use crate::access::{Access, Credential};
use crate::apply;
use crate::dirs::{self, RunDir};
use crate::ports::Port;
use crate::process::Process;
use crate::ready::Probe;
use crate::shared;
use crate::tools::Tools;
use crate::wait;

/// The ports are ours by lock, but a stranger may have taken one.
const ATTEMPTS: u32 = 3;
/// At most so many start at once: each takes seconds of a core, and many beside each other took minutes.
static STARTS: Semaphore = Semaphore::const_new(3);
/// The administrator's name and group.
const ADMIN: &str = "testkit-admin";
const ADMINS: &str = "system:masters";
pub(super) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// What a control plane consists of. Everything is off unless asked for, except the CRDs.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is awaited"]
pub struct Builder {
    name: String,
    api_server: apiserver::Options,
    controller_manager: Option<Vec<String>>,
    scheduler: Option<Vec<String>>,
    kwok: Option<Vec<Node>>,
    kubelet: Option<kwok::Kubelet>,
    crds: Vec<Value>,
    crd_directory: Option<PathBuf>,
    tools: Option<Tools>,
    kubernetes: Option<String>,
    again: bool,
}

impl Builder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            api_server: apiserver::Options::default(),
            controller_manager: None,
            scheduler: None,
            kwok: None,
            kubelet: None,
            crds: Vec::new(),
            crd_directory: Some(dirs::workspace_root().join("crds")),
            tools: None,
            kubernetes: None,
            again: pool::is_wanted(),
        }
    }

    /// With kube-controller-manager: Deployments, Jobs, garbage collection, node lifecycle, certificate signing.
    pub fn controller_manager(self) -> Self {
        self.controller_manager_args(std::iter::empty::<String>())
    }

    /// With kube-controller-manager and further flags, such as `--node-monitor-grace-period=20s`.
    pub fn controller_manager_args(
        mut self,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let all = self.controller_manager.get_or_insert_default();
        all.extend(args.into_iter().map(Into::into));
        self
    }

    /// With the stock kube-scheduler.
    pub fn scheduler(self) -> Self {
        self.scheduler_args(std::iter::empty::<String>())
    }

    /// With the stock kube-scheduler and further flags.
    pub fn scheduler_args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let all = self.scheduler.get_or_insert_default();
        all.extend(args.into_iter().map(Into::into));
        self
    }

    /// With kwok and these nodes (more can come later). See [`crate::build::node()`].
    pub fn kwok(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.kwok.get_or_insert_default().extend(nodes);
        self
    }

    /// kwok's nodes have a kubelet, which this API server knows and trusts.
    pub fn kubelet(mut self, kubelet: kwok::Kubelet) -> Self {
        self.kubelet = Some(kubelet);
        self
    }

    /// CRDs from the YAML files of this directory instead of the workspace's `crds/`.
    pub fn crds(mut self, directory: impl Into<PathBuf>) -> Self {
        self.crd_directory = Some(directory.into());
        self
    }

    /// No CRDs but those given by [`Self::crd`].
    pub fn no_crds(mut self) -> Self {
        self.crd_directory = None;
        self
    }

    /// A CRD more.
    pub fn crd(mut self, crd: Value) -> Self {
        self.crds.push(crd);
        self
    }

    /// With an audit log for the test. Which rights were used is logged in any case ([`crate::usage`]), unless the
    /// plane is [for load](Self::for_load) or the policy has a rule for every request.
    pub fn audit(mut self, policy: audit::Policy) -> Self {
        self.api_server.audit = Some(policy);
        self
    }

    /// For load: no limits on requests in flight, no priority and fairness, no audit log that nobody asked for.
    pub fn for_load(mut self) -> Self {
        self.api_server.unlimited = true;
        self
    }

    /// Objects are stored as JSON, so that [`ControlPlane::history`] can read them from etcd.
    pub fn history(mut self) -> Self {
        self.api_server.json_storage = true;
        self
    }

    /// Other servers may register API groups, as [metrics-server](super::metrics_server) does. The API server watches
    /// three more files then, and a user has 128 inotify instances.
    pub fn aggregates(mut self) -> Self {
        self.api_server.aggregates = true;
        self
    }

    /// Further flags of the API server.
    pub fn api_server_args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.api_server
            .args
            .extend(args.into_iter().map(Into::into));
        self
    }

    /// Other tools than those of the workspace.
    pub fn tools(mut self, tools: Tools) -> Self {
        self.tools = Some(tools);
        self
    }

    /// With the API server and controller manager of another Kubernetes, by its minor version: `1.34`. Its tools have
    /// to be there (`make tools-skew`).
    pub fn kubernetes(mut self, version: &str) -> Self {
        self.kubernetes = Some(version.to_owned());
        self
    }

    /// Takes etcd and API server of a plane that was [stopped](ControlPlane::stop) or dropped, if there is a fitting
    /// one, and leaves them to the next: see [`REUSE_VARIABLE`](super::REUSE_VARIABLE), which asks for it everywhere.
    pub fn used_again(mut self) -> Self {
        self.again = true;
        self
    }

    /// Starts it. When this returns, the CRDs are served, the nodes are ready and the namespace `default` has its
    /// service account.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        let _turn = STARTS.acquire().await;
        let mut attempt = 1;
        loop {
            match self.start_once().await {
                Err(error) if error.is_port_conflict() && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn start_once(&self) -> Result<ControlPlane, Error> {
        let begin = Instant::now();
        let mut started = StartTimes::default();
        let mut done = |step| started.steps.push((step, begin.elapsed()));

        let tools = match &self.tools {
            Some(tools) => tools.clone(),
            None => Tools::find()?,
        };
        let tools = match &self.kubernetes {
            Some(version) => tools.with_kubernetes(version)?,
            None => tools,
        };
        let pool::Core {
            mut running,
            authority,
            etcd,
            api,
            again,
        } = self.core(&tools, &mut done).await?;
        let directory = running.run.path().to_owned();
        let access = |user: &str, group: Option<&str>| self.access(&authority, api, user, group);
        let admin = access(ADMIN, Some(ADMINS))?;
        admin.write(&directory.join(ADMIN_KUBECONFIG))?;
        let client = admin.client()?;
        let audit = match &self.api_server.audit {
            Some(policy) => {
                Some(audit::Log::begin(&directory, admin.clone(), policy.clone()).await?)
            }
            None => None,
        };

        if let Some(args) = &self.controller_manager {
            let port = running.port()?;
            let own = access(controller_manager::USER, None)?;
            let (spec, probe) = controller_manager::spec(&tools, &directory, port, &own, args)?;
            running
                .start(
                    Part::ControllerManager,
                    "kube-controller-manager",
                    spec,
                    probe,
                )
                .await?;
        }
        if let Some(args) = &self.scheduler {
            let port = running.port()?;
            let own = access(controller_manager::SCHEDULER_USER, None)?;
            let (spec, probe) =
                controller_manager::scheduler_spec(&tools, &directory, port, &own, args)?;
            running
                .start(Part::Scheduler, "kube-scheduler", spec, probe)
                .await?;
        }
        if self.kwok.is_some() {
            // It writes nodes, leases and pods as many a node does: the group of administrators is the simplest.
            let own = access(kwok::USER, Some(ADMINS))?;
            let kubelet = match &self.kubelet {
                Some(kubelet) => {
                    let pair = authority.server("kwok", &["127.0.0.1"])?;
                    Some((kubelet, running.port()?, pair))
                }
                None => None,
            };
            let spec = kwok::spec(&tools, &directory, &own, kubelet)?;
            running.start(Part::Kwok, "kwok", spec, Probe::None).await?;
        }
        let has_manager = self.controller_manager.is_some();
        tokio::try_join!(
            running.ready(Part::ControllerManager),
            running.ready(Part::Scheduler),
            controller_manager::default_account(&client, has_manager),
            running.nodes(&client, self.kwok.clone().unwrap_or_default(), has_manager),
        )?;
        done("the rest");
        tracing::info!(name = self.name, %started, "control plane is up");
        Ok(ControlPlane {
            name: self.name.clone(),
            running: Some(running),
            admin,
            authority,
            directory,
            tools,
            audit,
            etcd,
            api,
            is_readable: self.api_server.json_storage,
            again,
            started,
        })
    }

    /// etcd and an API server with the definitions: new ones, or some that nobody needs any more.
    async fn core(
        &self,
        tools: &Tools,
        done: &mut impl FnMut(&'static str),
    ) -> Result<pool::Core, Error> {
        let kind = self.kind()?;
        while let Some(kind) = &kind {
            let Some(core) = pool::take(kind).await else {
                break;
            };
            let admin = self.access(&core.authority, core.api, ADMIN, Some(ADMINS))?;
            match core.clean(&admin).await {
                Ok(()) => {
                    done("an earlier one's core");
                    return Ok(core);
                }
                Err(reason) => {
                    tracing::info!(name = self.name, %reason, "a core isn't used again");
                    core.running.stop().await;
                }
            }
        }
        if let Some(core) = pool::take_any() {
            core.running.stop().await;
        }
        let Some(kind) = kind else {
            return self.new_core(tools.clone(), done).await;
        };
        // It outlives the runtime of the test.
        let (mut builder, tools) = (self.clone(), tools.clone());
        builder.api_server.audit = Some(kind.audit.clone());
        let starting = async move {
            let mut core = builder.new_core(tools, &mut |_| {}).await?;
            let unused = Snapshot::take(core.etcd).await.map_err(Error::Again)?;
            core.again = Some(pool::Again { kind, unused });
            Ok::<_, Error>(core)
        };
        let started = shared::runtime().map_err(Error::Prepare)?.spawn(starting);
        let core = started
            .await
            .map_err(|error| Error::Again(error.to_string()))??;
        done("a core to use again");
        Ok(core)
    }

    /// What a plane of which the core is used again must have in common with this one; `None` if none is.
    fn kind(&self) -> Result<Option<pool::Kind>, Error> {
        let apiserver::Options {
            json_storage,
            ref audit,
            ..
        } = self.api_server;
        let usual = apiserver::Options {
            json_storage,
            audit: audit.clone(),
            ..apiserver::Options::default()
        };
        if !self.again || self.tools.is_some() || self.api_server != usual {
            return Ok(None);
        }
        Ok(Some(pool::Kind {
            kubernetes: self.kubernetes.clone(),
            json_storage,
            // Whoever takes it next may want a log.
            audit: audit.clone().unwrap_or(audit::Policy::Writes),
            crds: self.all_crds()?,
        }))
    }

    async fn new_core(
        &self,
        tools: Tools,
        done: &mut impl FnMut(&'static str),
    ) -> Result<pool::Core, Error> {
        let run = RunDir::create(&self.name).map_err(Error::Prepare)?;
        let directory = run.path().to_owned();
        std::fs::create_dir_all(run.data()).map_err(Error::Prepare)?;
        let mut running = Running {
            parts: BTreeMap::new(),
            run,
            ports: Vec::new(),
            struck: AtomicBool::new(false),
        };
        let (etcd_client, etcd_peer, api) = (running.port()?, running.port()?, running.port()?);

        let authority = Authority::new(&format!("testkit-{}", self.name))?;
        apiserver::write_files(&directory, &authority, &self.api_server)?;
        let admin = self.access(&authority, api, ADMIN, Some(ADMINS))?;
        let client = admin.client()?;

        let (spec, probe) = etcd::spec(&tools, &directory, etcd_client, etcd_peer)?;
        // The API server looks for etcd once a second only, so it is started when etcd serves.
        running.start(Part::Etcd, "etcd", spec, probe).await?;
        running.ready(Part::Etcd).await?;
        done("etcd");
        let spec = apiserver::spec(&tools, &directory, api, etcd_client, &self.api_server)?;
        let probe = Probe::Https {
            access: Box::new(admin.clone()),
            path: "/readyz",
        };
        running
            .start(Part::ApiServer, "kube-apiserver", spec, probe)
            .await?;
        running.ready(Part::ApiServer).await?;
        done("kube-apiserver");

        // The garbage collector learns a new CRD late, so they come before it.
        apply::apply_values(&client, self.all_crds()?, "default").await?;
        done("CRDs");
        Ok(pool::Core {
            running,
            authority: Arc::new(authority),
            etcd: etcd_client,
            api,
            again: None,
        })
    }

    fn access(
        &self,
        authority: &Authority,
        api: SocketAddr,
        user: &str,
        group: Option<&str>,
    ) -> Result<Access, Error> {
        let credential = Credential::Certificate(authority.client(user, group)?);
        let ca = (authority.certificate(), authority.certificate_der());
        let url = format!("https://{api}");
        Ok(Access::new(&self.name, &url, ca, credential))
    }

    fn all_crds(&self) -> Result<Vec<Value>, Error> {
        let mut crds = self.crds.clone();
        let Some(directory) = self
            .crd_directory
            .as_ref()
            .filter(|directory| directory.is_dir())
        else {
            return Ok(crds);
        };
        let unreadable = |source| Error::File {
            path: directory.clone(),
            source,
        };
        let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(unreadable)?;
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|source| Error::File {
                path: file.clone(),
                source,
            })?;
            crds.extend(apply::documents(&text)?);
        }
        Ok(crds)
    }
}

impl Running {
    /// A port that stays ours until the plane has stopped.
    fn port(&mut self) -> Result<SocketAddr, Error> {
        let port = Port::reserve().map_err(Error::Prepare)?;
        let address = port.address();
        self.ports.push(port);
        Ok(address)
    }

    async fn start(
        &mut self,
        part: Part,
        name: &str,
        spec: crate::supervisor::Spec,
        probe: Probe,
    ) -> Result<(), Error> {
        self.parts
            .insert(part, Process::start(name, spec, probe).await?);
        Ok(())
    }

    /// At once when the part was not asked for.
    async fn ready(&self, part: Part) -> Result<(), Error> {
        match self.parts.get(&part) {
            Some(process) => Ok(process.ready(wait::LIMIT).await?),
            None => Ok(()),
        }
    }

    /// Creates nodes, unless kwok ends before they are ready.
    async fn nodes(
        &self,
        client: &Client,
        wanted: Vec<Node>,
        has_manager: bool,
    ) -> Result<(), Error> {
        let Some(kwok) = self.parts.get(&Part::Kwok) else {
            return Ok(());
        };
        tokio::select! {
            created = nodes::create(client, wanted, has_manager) => created,
            ended = kwok.ended() => Err(ended.into()),
        }
    }
}
