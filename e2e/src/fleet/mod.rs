//! A source and its targets on real control planes, with Pilotage in each, connected as an administrator would do it.
//! It knows nothing of what is run there.

mod chart;
mod cluster;
mod error;
mod everywhere;
mod settings;
mod skew;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use futures::FutureExt;
use futures::future::{join_all, select_all, try_join_all};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::{Right, keys};
use pilotage_testkit::{
    ControlPlane, LIMIT, build, plane, wait_admission, wait_for, workspace_root,
};
use serde_json::{Value, json};

pub(crate) use self::cluster::HOME;
pub use self::cluster::{Cluster, Side};
pub use self::error::Error;
pub use self::settings::{Layout, LeaseTimes};

use self::settings::Settings;

/// The service account that each target has for the source.
pub const SOURCE_ACCOUNT: &str = "source";

/// What to start.
#[derive(Debug, Clone)]
#[must_use = "a specification does nothing until `start` is awaited"]
pub struct Spec {
    source: plane::Builder,
    targets: Vec<plane::Builder>,
    settings: Settings,
}

/// All clusters of a test or of the demo.
#[derive(Debug)]
pub struct Fleet {
    /// Where users create pods.
    pub source: Cluster,
    /// Where they run.
    pub targets: Vec<Cluster>,
}

impl Spec {
    /// A source with a controller manager and without nodes; each part of Pilotage will be a process of its own.
    pub fn new() -> Self {
        Self {
            source: ControlPlane::builder("source").controller_manager(),
            targets: Vec::new(),
            settings: Settings::new(Layout::ProcessAPart),
        }
    }

    /// All parts of a cluster in one process.
    pub fn one_process(mut self) -> Self {
        self.settings.layout = Layout::OneProcess;
        self
    }

    /// Helm installs the chart in each cluster, with the definitions, and each part runs as that says.
    pub fn by_chart(mut self) -> Self {
        self.settings.layout = Layout::Chart;
        self
    }

    /// Another source.
    pub fn source(mut self, change: impl FnOnce(plane::Builder) -> plane::Builder) -> Self {
        self.source = change(self.source);
        self
    }

    /// A target with these nodes.
    pub fn target(self, name: &str, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.target_plane(ControlPlane::builder(name).controller_manager().kwok(nodes))
    }

    /// A target.
    pub fn target_plane(mut self, target: plane::Builder) -> Self {
        self.targets.push(target);
        self
    }

    /// A flag for every process of Pilotage.
    pub fn flag(mut self, flag: &str) -> Self {
        self.settings.add_flag(None, flag);
        self
    }

    /// A flag for the processes of one part.
    pub fn part_flag(mut self, part: &'static str, flag: &str) -> Self {
        self.settings.add_flag(Some(part), flag);
        self
    }

    /// In the source Pilotage may read Secrets of these namespaces only, which must be there before it is installed.
    pub fn target_namespaces<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.settings.namespaces = names.map(str::to_owned).into();
        self
    }

    /// Virtual nodes of the source have a kubelet.
    pub fn kubelet(self) -> Self {
        self.kubelet_at(Ipv4Addr::LOCALHOST)
    }

    /// The same at another address of this machine.
    pub fn kubelet_at(mut self, address: Ipv4Addr) -> Self {
        self.settings.kubelet = Some(address);
        self
    }

    /// Targets are installed with these rights, and each Source there asks for them.
    pub fn rights(mut self, rights: &[Right]) -> Self {
        self.settings.rights = rights.to_vec();
        self
    }

    /// Objects of these kinds follow pods from the source: `configmaps`, `secrets`, `services`, `ingresses`.
    pub fn follow(mut self, kinds: &[&'static str]) -> Self {
        self.settings.follow = kinds.to_vec();
        self
    }

    /// Other times of leader election than those of tests in which no leader fails.
    pub fn lease(mut self, times: LeaseTimes) -> Self {
        self.settings.lease = times;
        self
    }

    /// A second replica of this part, which stands by, in each cluster that has it.
    pub fn standby(mut self, part: &'static str) -> Self {
        self.settings.standbys.push(part);
        self
    }

    /// Wall clocks of Pilotage are ahead by so many seconds in the source (or behind), and behind in targets; those of
    /// second replicas the other way round. Kubernetes' own clocks are right.
    pub fn clocks_off(mut self, seconds: i64) -> Self {
        self.settings.clocks_off = Some(seconds);
        self
    }

    /// Every process of Pilotage reaches its own API server, and the source each target, through a fault proxy of its
    /// own: [`Cluster::lines`] and [`Cluster::door`].
    pub fn faults(mut self) -> Self {
        self.settings.faults = true;
        self
    }

    /// Starts the control planes, all at once; of which Kubernetes, [`Side::kubernetes`] may say.
    pub async fn start(self) -> Result<Fleet, Error> {
        let Self {
            source,
            targets,
            settings,
        } = self;
        let by_chart = settings.layout == Layout::Chart;
        let with_crds = |plane: plane::Builder| if by_chart { plane.no_crds() } else { plane };
        let targets = targets.into_iter().map(with_crds);
        let targets = targets.map(|plane| Side::Target.skewed(plane).start());
        let source = Side::Source.skewed(with_crds(source)).start();
        let (source, targets) = tokio::try_join!(source, try_join_all(targets))?;
        let cluster = |plane, side| Cluster::new(plane, side, settings.clone());
        Ok(Fleet {
            source: cluster(source, Side::Source),
            targets: targets
                .into_iter()
                .map(|plane| cluster(plane, Side::Target))
                .collect(),
        })
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts one more cluster, without Pilotage in it yet.
pub async fn lone(plane: plane::Builder, side: Side) -> Result<Cluster, Error> {
    Ok(Cluster::new(
        side.skewed(plane).start().await?,
        side,
        Settings::new(Layout::ProcessAPart),
    ))
}

/// Text of a manifest in `e2e/demo/`.
pub fn manifest(name: &str) -> Result<String, Error> {
    let path = workspace_root().join("e2e/demo").join(name);
    fs::read_to_string(&path).map_err(|source| Error::Manifest { path, source })
}

impl Fleet {
    /// Starts Pilotage in each cluster, under no more rights than its generated roles give.
    pub async fn install(&mut self) -> Result<(), Error> {
        let Self { source, targets } = self;
        let all = std::iter::once(source).chain(targets).map(Cluster::install);
        join_all(all).await.into_iter().collect()
    }

    /// Lets the source run pods of `namespace` in all targets, tells it of them, and waits until they are connected
    /// and their virtual nodes ready. The namespace must be there in all clusters.
    pub async fn connect(&self, namespace: &str) -> Result<(), Error> {
        let targets = self.targets.iter();
        let targets = targets.map(|target| self.add_target(target, namespace));
        tokio::try_join!(self.elect(namespace), try_join_all(targets))?;
        Ok(())
    }

    /// Has elected pods of the source's namespace delegated; waits until its API server does so, which knows labels of
    /// namespaces by a watch.
    pub async fn elect(&self, namespace: &str) -> Result<(), Error> {
        let labels = json!({ keys::NAMESPACE_LABEL: keys::NAMESPACE_LABEL_VALUE });
        let label = json!({ "metadata": { "labels": labels } });
        let namespaces: Api<Namespace> = Api::all(self.source.plane.admin());
        namespaces
            .patch(namespace, &PatchParams::default(), &Patch::Merge(label))
            .await
            .map_err(Error::request("can't label the namespace"))?;
        let pods: Api<Pod> = Api::namespaced(self.source.plane.admin(), namespace);
        let pod = build::pod("probe").elect().build();
        // An error is no news: neither the webhook nor the namespace's service account need be there yet.
        let is_proxy = |answer: &kube::Result<Pod>| {
            let spec = answer.as_ref().ok().and_then(|pod| pod.spec.as_ref());
            spec.is_some_and(|spec| spec.scheduler_name.as_deref() == Some(keys::PROXY_SCHEDULER))
        };
        wait_admission(&pods, &pod, is_proxy, LIMIT)
            .await
            .map_err(Error::wait("elected pods don't become proxies"))
    }

    /// [`Self::connect`] of one target.
    pub async fn add_target(&self, target: &Cluster, namespace: &str) -> Result<(), Error> {
        let name = target.name();
        let kubeconfig = target.let_in(SOURCE_ACCOUNT, namespace).await?;
        let objects = [
            secret(name, namespace, &kubeconfig),
            target_object(name, namespace),
        ];
        for object in objects {
            self.source.plane.apply_yaml(&object.to_string()).await?;
        }
        self.source.connected(name, namespace).await
    }

    /// All clusters, the source first.
    pub fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.source).chain(&self.targets)
    }

    /// The target of this name.
    pub fn target(&self, name: &str) -> Option<&Cluster> {
        self.targets.iter().find(|target| target.name() == name)
    }

    /// Log files and directories of everything that runs.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.all().flat_map(Cluster::logs).collect()
    }

    /// Completes when a process of Pilotage ends by itself, which none should.
    pub async fn ended(&self) -> Error {
        let ends: Vec<_> = self
            .all()
            .flat_map(Cluster::ends)
            .map(FutureExt::boxed)
            .collect();
        if ends.is_empty() {
            return std::future::pending().await;
        }
        select_all(ends).await.0
    }

    /// Does something on the fleet, which fails if a process of Pilotage ends meanwhile. Whoever sees it fail is told
    /// where the logs are.
    pub async fn hold<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let done = tokio::select! {
            done = work => done,
            error = self.ended() => Err(error.into()),
        };
        if done.is_err() {
            eprintln!("logs: {:#?}", self.logs());
        }
        done
    }

    /// Stops everything, Pilotage first.
    pub async fn stop(self) {
        let Self { source, targets } = self;
        let clusters: Vec<Cluster> = std::iter::once(source).chain(targets).collect();
        join_all(clusters.into_iter().map(Cluster::stop)).await;
    }
}

impl Cluster {
    /// Lets a source run pods in `namespace` here, as `account`, as an administrator would; returns the kubeconfig to
    /// give to the source.
    pub async fn let_in(&self, account: &str, namespace: &str) -> Result<String, Error> {
        let mut source = json!({
            "apiVersion": format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION),
            "kind": "Source",
            "metadata": { "name": account, "namespace": namespace },
            "spec": { "serviceAccountName": account },
        });
        let rights = self.rights();
        if !rights.is_empty() {
            source["spec"]["rights"] = json!(rights);
        }
        self.plane.apply_yaml(&source.to_string()).await?;
        self.source_kubeconfig(account, namespace).await
    }

    /// The kubeconfig of the account that a Source names.
    pub async fn source_kubeconfig(&self, account: &str, namespace: &str) -> Result<String, Error> {
        // Pilotage makes the account for the Source.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.plane.admin(), namespace);
        let failure = format!("{} made no service account for its Source", self.name());
        wait_for(&accounts, account, |_| true, LIMIT)
            .await
            .map_err(Error::wait(&failure))?;
        self.account_kubeconfig(account, namespace).await
    }

    /// The kubeconfig of an account, as it is given to sources.
    async fn account_kubeconfig(&self, account: &str, namespace: &str) -> Result<String, Error> {
        let mut access = self
            .plane
            .service_account_access(namespace, account)
            .await?;
        if let Some(door) = &self.door {
            access = door.access(&access)?;
        }
        Ok(access.kubeconfig_yaml())
    }
}

/// A Secret with a kubeconfig.
pub fn secret(name: &str, namespace: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace },
        "stringData": { "config": kubeconfig },
    })
}

/// A Target that names the Secret of its own name.
pub fn target_object(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{}/{}", pilotage_api::GROUP, pilotage_api::VERSION),
        "kind": "Target",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "kubeconfigSecret": { "name": name } },
    })
}
