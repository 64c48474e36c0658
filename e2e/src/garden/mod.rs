//! A garden on a plain control plane, with `pilotage gardener-scheduler` in it as a process under its own role.

pub mod bench;
pub mod objects;

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_testkit::gardener::{self, Garden};
use pilotage_testkit::pilotage::{self, PilotageProcess};
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{Builder, ControlPlane, WaitError, list_until, plane};
use serde_json::{Value, json};

/// Service account of the scheduler, and its namespace.
pub(crate) const ACCOUNT: (&str, &str) = ("garden", "gardener-scheduler");
/// Objects that are created at once.
const AT_ONCE: usize = 32;

/// A garden can't be had, or doesn't do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No control plane.
    #[error(transparent)]
    Plane(#[from] plane::Error),
    /// No kinds or no proxy.
    #[error(transparent)]
    Garden(#[from] gardener::Error),
    /// The proxy can't pass the scheduler's user on.
    #[error(transparent)]
    Proxy(#[from] pilotage_testkit::fault::Error),
    /// No scheduler.
    #[error(transparent)]
    Pilotage(#[from] pilotage::Error),
    /// An object was refused.
    #[error("{object} was refused")]
    Refused {
        /// Kind and name.
        object: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Shoots weren't bound.
    #[error(transparent)]
    Wait(#[from] Box<WaitError>),
    /// The scheduler is gone.
    #[error("the scheduler isn't there any more")]
    Gone,
    /// The machine can't be read.
    #[error("can't read {path}")]
    Machine {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// A plane with Gardener's kinds and what all Shoots need.
pub struct Place {
    /// The control plane.
    pub plane: ControlPlane,
    /// Who serves bindings in front of it.
    pub garden: Garden,
    admin: Client,
}

impl Place {
    /// Starts one.
    pub async fn start(builder: Builder) -> Result<Self, Error> {
        let plane = builder.start().await?;
        let garden = Garden::start(&plane).await?;
        let account = format!("{}/{}", ACCOUNT.0, ACCOUNT.1);
        let args = [
            "rbac",
            "--component",
            "gardener-scheduler",
            "--service-account",
            &account,
        ];
        pilotage::apply_output(&plane, &pilotage::binary()?, args).await?;
        let namespace = plane.named_namespace(objects::NAMESPACE, [].into()).await?;
        namespace.keep();
        let place = Self {
            admin: plane.admin(),
            plane,
            garden,
        };
        place
            .create([objects::profile(), objects::project()])
            .await?;
        Ok(place)
    }

    /// Starts a scheduler and waits until it has listed everything. `more` is added to its configuration file.
    pub async fn scheduler(&self, more: &str) -> Result<PilotageProcess, Error> {
        let config = format!(
            "apiVersion: scheduler.config.gardener.cloud/v1alpha1\nkind: SchedulerConfiguration\nserver: \
             {{healthProbes: {{bindAddress: 127.0.0.1, port: {port}}}, metrics: {{bindAddress: 127.0.0.1, port: \
             {port}}}}}\n{more}\n",
            port = pilotage::ADMIN_PORT,
        );
        let args = [
            "gardener-scheduler".to_owned(),
            format!("--config={}/config.yaml", pilotage::DIRECTORY),
            format!("--kubeconfig={}/kubeconfig", pilotage::DIRECTORY),
        ];
        let process = PilotageProcess::builder("gardener-scheduler")
            .file("config.yaml", &config)
            .file("kubeconfig", &self.kubeconfig().await?)
            .args(args);
        Ok(process.start().await?)
    }

    /// A kubeconfig of the scheduler's user, through the proxy.
    pub async fn kubeconfig(&self) -> Result<String, Error> {
        let (namespace, name) = ACCOUNT;
        let access = self.plane.service_account_access(namespace, name).await?;
        Ok(self.garden.proxy.access(&access)?.kubeconfig_yaml())
    }

    /// Creates objects with their status, many at once.
    pub async fn create(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), Error> {
        stream::iter(objects)
            .map(|object| self.create_one(object))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn create_one(&self, object: Value) -> Result<(), Error> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let namespace = text(&object["metadata"]["namespace"]);
        let refused = |source| Error::Refused {
            object: format!("{kind} {name}"),
            source: Box::new(source),
        };
        let api = self.api(&kind, &namespace);
        let status = object.get("status").cloned();
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| refused(kube::Error::SerdeError(error)))?;
        let created = api.create(&PostParams::default(), &object).await;
        created.map_err(refused)?;
        if let Some(status) = status {
            let patch = Patch::Merge(json!({"status": status}));
            let written = api
                .patch_status(&name, &PatchParams::default(), &patch)
                .await;
            written.map_err(refused)?;
        }
        Ok(())
    }

    /// One of Gardener's kinds.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("core.gardener.cloud", "v1beta1", kind);
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        match namespace {
            "" => Api::all_with(self.admin.clone(), &resource),
            namespace => Api::namespaced_with(self.admin.clone(), namespace, &resource),
        }
    }

    /// Waits until so many Shoots have Seeds; returns all Shoots.
    pub async fn bound(&self, count: usize, limit: Duration) -> Result<Vec<DynamicObject>, Error> {
        let has_seed = |shoot: &DynamicObject| shoot.data["spec"]["seedName"].is_string();
        let all = list_until(
            &self.api("Shoot", objects::NAMESPACE),
            watcher::Config::default(),
            |all| all.values().filter(|shoot| has_seed(shoot)).count() >= count,
            limit,
        )
        .await;
        Ok(all.map_err(Box::new)?)
    }

    /// Ends a scheduler and the plane.
    pub async fn stop(self, scheduler: PilotageProcess) -> Option<Exit> {
        let exit = scheduler.stop(Duration::from_secs(30)).await;
        self.plane.stop().await;
        exit
    }
}
