//! What the tests share: a plane that is source and target at once, identities, Targets, waiting.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pilotage_api::{KubeconfigSecret, TargetSpec};
use pilotage_clusters::{
    Connection, Event, Feed, Need, Options, ProbeOptions, Registry, Target, TargetKey, Watch,
};
use pilotage_runtime::rbac::{self, Account, Rule};
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::access::Credential;
use pilotage_testkit::{Access, ControlPlane, TestNamespace, apply, shared};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What the tests' identities may do in targets.
pub(crate) const TARGET_RULES: &[Rule] = &[Rule::own_namespace(
    &[""],
    &["configmaps"],
    &["get", "list", "watch"],
)];

pub(crate) const NEEDS: &[Need] = &[
    Need {
        group: "",
        resource: "configmaps",
        subresource: "",
        verb: "list",
        cluster_scoped: false,
        right: None,
    },
    Need {
        group: "",
        resource: "pods",
        subresource: "log",
        verb: "get",
        cluster_scoped: false,
        right: None,
    },
];

pub(crate) async fn plane() -> Arc<ControlPlane> {
    shared::plane("clusters", || ControlPlane::builder("clusters"))
        .await
        .unwrap()
}

/// A client for an account of that name with these rules alone.
pub(crate) async fn account(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    rules: &[Rule],
) -> String {
    plane.service_account(namespace, name).await.unwrap();
    let role = format!("{namespace}-{name}");
    let roles = rbac::render(&role, Account { namespace, name }, rules);
    apply::apply_values(&plane.admin(), roles, namespace)
        .await
        .unwrap();
    plane.service_account_token(namespace, name).await.unwrap()
}

pub(crate) struct Bench {
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) namespace: TestNamespace,
    pub(crate) registry: Registry,
    pub(crate) stop: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Bench {
    /// A namespace and a registry under its own role.
    pub(crate) async fn start(prefix: &str) -> Self {
        Self::on(plane().await, prefix).await
    }

    /// The same on a plane of its own.
    pub(crate) async fn on(plane: Arc<ControlPlane>, prefix: &str) -> Self {
        let namespace = plane.namespace(prefix).await.unwrap();
        let token = account(
            &plane,
            namespace.name(),
            "registry",
            pilotage_clusters::rbac::RULES,
        )
        .await;
        let local = client(&plane.admin_access().with(Credential::Token(token)));
        let stop = CancellationToken::new();
        let options = Options {
            probe: ProbeOptions {
                period: Duration::from_millis(500),
                timeout: Duration::from_secs(1),
                failures: 2,
            },
            identify: Duration::from_secs(1),
            needs: NEEDS.to_vec(),
            review_missing: Duration::from_millis(500),
            ..Options::new("test")
        };
        let registry = Registry::start(&local, options, &stop);
        timeout(LIMIT, registry.synced())
            .await
            .expect("lists the targets");
        Self {
            plane,
            namespace,
            registry,
            stop,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    pub(crate) fn admin<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.plane.admin(), self.name())
    }

    /// Makes the Target `name`, whose secret has the same name.
    pub(crate) async fn target(&self, name: &str) -> Arc<Target> {
        let spec = TargetSpec {
            kubeconfig_secret: Some(KubeconfigSecret {
                name: name.into(),
                ..Default::default()
            }),
            ..TargetSpec::default()
        };
        let target = pilotage_api::Target::new(name, spec);
        self.admin()
            .create(&PostParams::default(), &target)
            .await
            .unwrap();
        self.registered(name).await
    }

    async fn registered(&self, name: &str) -> Arc<Target> {
        let key = TargetKey::namespaced(self.name(), name);
        let mut events = self.registry.subscribe();
        let found = async {
            loop {
                if let Some(target) = self.registry.get(&key) {
                    return target;
                }
                events.recv().await.expect("the registry lives");
            }
        };
        timeout(LIMIT, found)
            .await
            .expect("the registry sees the new target")
    }

    pub(crate) async fn secret(&self, name: &str, key: &str, text: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": { key: text },
        });
        let params = PatchParams::apply("test").force();
        self.admin::<Secret>()
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    pub(crate) async fn no_secret(&self, name: &str) {
        self.admin::<Secret>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// An identity in this very cluster, as a target.
    pub(crate) async fn identity(&self, name: &str) -> Access {
        let token = account(&self.plane, self.name(), name, TARGET_RULES).await;
        self.plane.admin_access().with(Credential::Token(token))
    }

    pub(crate) async fn config_map(&self, name: &str, value: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "value": value },
        });
        let params = PatchParams::apply("test").force();
        self.admin::<ConfigMap>()
            .patch(name, &params, &Patch::Apply(&map))
            .await
            .unwrap();
    }
}

pub(crate) fn client(access: &Access) -> Client {
    pilotage_runtime::client::install_crypto_provider();
    access.client().unwrap()
}

/// Waits for a state of the connection; returns it.
pub(crate) async fn reaches(
    target: &Target,
    what: &str,
    want: impl Fn(&Connection) -> bool,
) -> Connection {
    let mut state = target.state();
    let found = timeout(LIMIT, async { state.wait_for(want).await.unwrap().clone() }).await;
    found.unwrap_or_else(|_| {
        panic!(
            "{} is not {what} but {:?}",
            target.key(),
            target.connection()
        )
    })
}

pub(crate) async fn connects(target: &Target) {
    reaches(target, "connected", Connection::is_connected).await;
}

/// Waits until the target is lost for a reason of this word; returns its text.
pub(crate) async fn is_lost(target: &Target, word: &str) -> String {
    let lost = |state: &Connection| state.lost().is_some_and(|reason| reason.word() == word);
    reaches(target, word, lost)
        .await
        .lost()
        .unwrap()
        .to_string()
}

/// Waits for an event about the object `name`.
pub(crate) async fn event(
    feed: &mut Feed<ConfigMap>,
    what: &str,
    want: impl Fn(&Event<ConfigMap>) -> bool,
) {
    let mut seen = Vec::new();
    let found = async {
        while let Some(event) = feed.recv().await {
            if want(&event) {
                return;
            }
            seen.push(format!("{event:?}"));
        }
    };
    assert!(
        timeout(LIMIT, found).await.is_ok(),
        "no {what}; came {seen:?}"
    );
}

pub(crate) fn shows(name: &'static str, value: &'static str) -> impl Fn(&Event<ConfigMap>) -> bool {
    move |event| match event {
        Event::Applied(map) => {
            map.metadata.name.as_deref() == Some(name)
                && map
                    .data
                    .as_ref()
                    .and_then(|data| data.get("value"))
                    .map(String::as_str)
                    == Some(value)
        }
        _ => false,
    }
}

pub(crate) fn watch(target: &Target) -> Watch<ConfigMap> {
    target.watch(pilotage_clusters::WatchConfig::all())
}
