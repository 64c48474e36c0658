//! A garden with a scheduler in it, and objects made of one base.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use pilotage_gardener::DEFAULT_SCHEDULER;
use pilotage_gardener_scheduler::{Options, Shoots, rbac as own, start};
use pilotage_placement::{Ranking, Settings, Strategy};
use pilotage_runtime::backoff::Backoff;
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::rbac::{self, Account};
use pilotage_runtime::ready::Health;
use pilotage_sched_driver::publish::Recorder;
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::gardener::Garden;
use pilotage_testkit::{ControlPlane, apply, audit, list_until, wait_for};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than any test: whoever waits for it fails.
pub(crate) const NEVER: Backoff = Backoff::new(Duration::from_hours(1), Duration::from_hours(1));
/// As usual, without the longest pauses.
pub(crate) const SOON: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));
/// Namespace of the Shoots.
pub(crate) const NAMESPACE: &str = "my-namespace";

/// What objects are made of.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Base {
    pub(crate) shoot: Value,
    pub(crate) seed: Value,
    pub(crate) profile: Value,
    pub(crate) project: Value,
    pub(crate) config: Value,
}

impl Base {
    fn read() -> Self {
        serde_saphyr::from_str(include_str!("../../../gardener/tests/cases/base.yaml")).unwrap()
    }

    pub(crate) fn shoot(&self, name: &str, patch: &Value) -> Value {
        named(&self.shoot, name, patch)
    }

    pub(crate) fn seed(&self, name: &str, patch: &Value) -> Value {
        named(&self.seed, name, patch)
    }
}

fn named(base: &Value, name: &str, patch: &Value) -> Value {
    let mut object = base.clone();
    merge(&mut object, patch);
    object["metadata"]["name"] = json!(name);
    object
}

/// RFC 7396.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            if !target.is_object() {
                *target = json!({});
            }
            merge(&mut target[key], value);
        }
    }
}

/// A running scheduler.
pub(crate) struct Running {
    token: CancellationToken,
    task: JoinHandle<()>,
    registry: Registry,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.token.cancel();
        tokio::time::timeout(LIMIT, self.task)
            .await
            .expect("ends in time")
            .unwrap();
    }

    /// Value of a metric, by its name and labels as they are written.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }
}

/// How a scheduler is started.
pub(crate) enum Way {
    /// Through the proxy, always leading.
    Usual,
    /// Leading only when this says so.
    Elected(Leadership),
    /// Past the proxy, to an API server that knows no bindings.
    WithoutBindings,
}

/// A garden.
pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) garden: Garden,
    pub(crate) base: Base,
    pub(crate) admin: Client,
}

impl Stage {
    /// With a profile and a project, and the namespace of Shoots.
    pub(crate) async fn new(name: &str) -> Self {
        let plane = ControlPlane::builder(name)
            .audit(audit::Policy::Writes)
            .start()
            .await
            .unwrap();
        let garden = Garden::start(&plane).await.unwrap();
        plane
            .named_namespace(NAMESPACE, BTreeMap::new())
            .await
            .unwrap()
            .keep();
        let stage = Self {
            admin: plane.admin(),
            plane,
            garden,
            base: Base::read(),
        };
        stage
            .put([stage.base.profile.clone(), stage.base.project.clone()])
            .await;
        stage
    }

    /// Starts a scheduler with leave to do what its role says, through the proxy, and waits until it is ready.
    pub(crate) async fn scheduler(&self, adjust: impl FnOnce(&mut Options)) -> Running {
        self.scheduler_by(Way::Usual, adjust).await
    }

    /// Starts a scheduler in another way.
    pub(crate) async fn scheduler_by(
        &self,
        way: Way,
        adjust: impl FnOnce(&mut Options),
    ) -> Running {
        let mut options = Options {
            scheduler: DEFAULT_SCHEDULER.to_owned(),
            settings: Settings::default(),
            workers: 5,
            backoff: NEVER,
            qps: -1.0,
            burst: 0,
        };
        adjust(&mut options);
        let name = format!("scheduler-of-{}", options.scheduler);
        self.plane.service_account("garden", &name).await.unwrap();
        let account = Account {
            namespace: "garden",
            name: &name,
        };
        let roles = rbac::render(&name, account, own::RULES);
        apply::apply_values(&self.admin, roles, "garden")
            .await
            .unwrap();
        let access = self
            .plane
            .service_account_access("garden", &name)
            .await
            .unwrap();
        let access = match way {
            Way::WithoutBindings => access,
            Way::Usual | Way::Elected(_) => self.garden.proxy.access(&access).unwrap(),
        };
        let client = access.client().unwrap();
        let (token, health, mut registry) =
            (CancellationToken::new(), Health::new(), Registry::default());
        let (events, writer) = Recorder::new(client.clone(), "test".to_owned());
        let with = Shoots {
            client,
            options,
            leadership: match way {
                Way::Elected(leadership) => leadership,
                Way::Usual | Way::WithoutBindings => Leadership::always(),
            },
            events,
            health: health.clone(),
        };
        let running = start(with, &mut registry, token.clone());
        // What was told last is written after the work has ended.
        let writing = CancellationToken::new();
        let ending = writing.clone();
        let working = async move {
            running.await.unwrap();
            ending.cancel();
        };
        let task = tokio::spawn(async move {
            tokio::join!(working, writer.run(writing));
        });
        tokio::time::timeout(LIMIT, health.ready())
            .await
            .expect("ready in time");
        Running {
            token,
            task,
            registry,
        }
    }

    pub(crate) fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let gvk = match kind {
            "ConfigMap" => GroupVersionKind::gvk("", "v1", kind),
            _ => GroupVersionKind::gvk("core.gardener.cloud", "v1beta1", kind),
        };
        let plural = format!(
            "{}{}",
            kind.to_lowercase(),
            if kind.ends_with('s') { "es" } else { "s" }
        );
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        match namespace {
            "" => Api::all_with(self.admin.clone(), &resource),
            namespace => Api::namespaced_with(self.admin.clone(), namespace, &resource),
        }
    }

    pub(crate) fn shoots(&self) -> Api<DynamicObject> {
        self.api("Shoot", NAMESPACE)
    }

    /// Creates objects with their status.
    pub(crate) async fn put(&self, objects: impl IntoIterator<Item = Value>) {
        let writes = objects.into_iter().map(|object| async move {
            let api = self.api(
                object["kind"].as_str().unwrap(),
                object["metadata"]["namespace"].as_str().unwrap_or_default(),
            );
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let status = object.get("status").cloned();
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
            if let Some(status) = status {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status(&name, &PatchParams::default(), &patch)
                    .await
                    .unwrap();
            }
        });
        join_all(writes).await;
    }

    /// Patches an object, its status included.
    pub(crate) async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let api = self.api(kind, namespace);
        let params = PatchParams::default();
        if let Some(status) = patch.get("status") {
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(name, &params, &patch).await.unwrap();
        }
        let mut rest = patch.clone();
        rest.as_object_mut().unwrap().remove("status");
        if !rest.as_object().unwrap().is_empty() {
            api.patch(name, &params, &Patch::Merge(rest)).await.unwrap();
        }
    }

    /// Waits until a Shoot has a Seed.
    pub(crate) async fn bound(&self, name: &str) -> DynamicObject {
        let has_seed = |shoot: &DynamicObject| seed_of(shoot).is_some();
        wait_for(&self.shoots(), name, has_seed, LIMIT)
            .await
            .unwrap()
    }

    /// Waits until so many Shoots have Seeds.
    pub(crate) async fn all_bound(&self, count: usize) -> Vec<DynamicObject> {
        let shoots = self.shoots();
        let bound = list_until(
            &shoots,
            watcher::Config::default(),
            |all| {
                all.values()
                    .filter(|shoot| seed_of(shoot).is_some())
                    .count()
                    >= count
            },
            LIMIT,
        );
        bound.await.unwrap()
    }

    /// Waits until a Shoot's last operation says why it has no Seed, and that is this.
    pub(crate) async fn told(&self, name: &str, text: &str) -> DynamicObject {
        let says =
            |shoot: &DynamicObject| description(shoot).is_some_and(|said| said.contains(text));
        wait_for(&self.shoots(), name, says, LIMIT).await.unwrap()
    }

    /// Waits for an event about a Shoot.
    pub(crate) async fn event(&self, shoot: &str, reason: &str) -> Event {
        self.event_that(shoot, reason, |_| true).await
    }

    /// Waits for an event about a Shoot whose note is as wanted. There may be earlier ones: what an attempt says rests
    /// on several watches, and one of them may lag.
    pub(crate) async fn event_that(
        &self,
        shoot: &str,
        reason: &str,
        says: impl Fn(&str) -> bool,
    ) -> Event {
        let api: Api<Event> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let is_it = |event: &Event| {
            let about = event
                .regarding
                .as_ref()
                .and_then(|about| about.name.as_deref());
            about == Some(shoot)
                && event.reason.as_deref() == Some(reason)
                && event.note.as_deref().is_some_and(&says)
        };
        let found = list_until(
            &api,
            watcher::Config::default(),
            |all| all.values().any(is_it),
            LIMIT,
        )
        .await;
        found.unwrap().into_iter().find(is_it).unwrap()
    }

    /// Waits for an event about something that is in no namespace.
    pub(crate) async fn reason(&self, name: &str, reason: &str) {
        let api: Api<Event> = Api::all(self.admin.clone());
        let is_it = |event: &Event| {
            let about = event.regarding.as_ref();
            let about = about.and_then(|about| about.name.as_deref());
            about == Some(name) && event.reason.as_deref() == Some(reason)
        };
        let found = list_until(
            &api,
            watcher::Config::default(),
            |all| all.values().any(is_it),
            LIMIT,
        );
        found.await.unwrap();
    }

    /// Note of the first event of this reason about anything in the namespace `garden`.
    pub(crate) async fn garden_event(&self, reason: &str) -> String {
        let api: Api<Event> = Api::namespaced(self.admin.clone(), "garden");
        let is_it = |event: &Event| event.reason.as_deref() == Some(reason);
        let found = list_until(
            &api,
            watcher::Config::default(),
            |all| all.values().any(is_it),
            LIMIT,
        )
        .await;
        let event = found.unwrap().into_iter().find(is_it).unwrap();
        event.note.unwrap()
    }

    /// Waits until the scheduler has seen all Seeds that were written before: it uses one more, which comes after them.
    pub(crate) async fn seeds_seen(&self, name: &str) {
        let class = json!({"metadata": {"labels": {"class": name}}});
        let selects = json!({"spec": {"seedSelector": {"matchLabels": {"class": name}}}});
        self.put([self.base.shoot(name, &selects)]).await;
        self.put([self.base.seed(name, &class)]).await;
        self.bound(name).await;
    }

    /// Writes of the scheduler, as lines with how often each came; bindings are written by who serves them.
    pub(crate) async fn writes(&self) -> BTreeMap<String, usize> {
        let mut writes = BTreeMap::new();
        let entries = self.plane.audit().unwrap().entries().await.unwrap();
        for entry in entries.iter().filter(|entry| {
            entry.user.contains("scheduler-of-") && entry.resource != "selfsubjectaccessreviews"
        }) {
            let line = format!("{} {} {}", entry.verb, entry.full_resource(), entry.code);
            *writes.entry(line).or_default() += 1;
        }
        writes
    }
}

pub(crate) fn seed_of(shoot: &DynamicObject) -> Option<&str> {
    shoot.data["spec"]["seedName"].as_str()
}

pub(crate) fn description(shoot: &DynamicObject) -> Option<&str> {
    shoot.data["status"]["lastOperation"]["description"].as_str()
}

pub(crate) fn minimal_distance(options: &mut Options) {
    options.settings.ranking = Ranking::Strategy(Strategy::MinimalDistance);
}
