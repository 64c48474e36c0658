//! A control plane with the webhook on it, and pods as plain JSON.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use http::Request;
use http::header::CONTENT_TYPE;
use kube::Client;
use kube::core::Status;
use pilotage_api::keys;
use pilotage_runtime::rbac::{Account, Rule, render};
use pilotage_runtime::ready::Health;
pub(crate) use pilotage_testkit::LIMIT;
use pilotage_testkit::{ControlPlane, TestNamespace, apply, shared};
use pilotage_webhook::{Metrics, RunError, WebhookArgs, rbac};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Namespace of the webhook.
pub(crate) const HOME: &str = "pilotage";
const ACCOUNT: &str = "pilotage-webhook";

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    webhook: WebhookArgs,
}

/// A running webhook.
pub(crate) struct Webhook {
    pub(crate) health: Health,
    pub(crate) client: Client,
    token: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Webhook {
    /// Starts the webhook with its own role (and nothing else) on the runtime of the caller.
    pub(crate) async fn start(plane: &ControlPlane, args: &[&str]) -> Self {
        let account = Account {
            namespace: HOME,
            name: ACCOUNT,
        };
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } });
        let mut objects = vec![namespace, account.to_json()];
        objects.extend(render(ACCOUNT, account, rbac::RULES));
        apply::apply_values(&plane.admin(), objects, HOME)
            .await
            .unwrap();
        let client = plane.part_client(HOME, ACCOUNT, "webhook").await.unwrap();

        let fixed = [
            "pilotage",
            "--webhook-addr=127.0.0.1:0",
            "--shutdown-delay=0s",
            "--webhook-url=https://127.0.0.1:0",
        ];
        let args = Command::parse_from(fixed.iter().chain(args)).webhook;
        let options = args.to_options(client.default_namespace()).unwrap();
        let (health, token) = (Health::new(), CancellationToken::new());
        let metrics = Arc::new(Metrics::register(&mut Registry::default()));
        let run = pilotage_webhook::run(
            options,
            client.clone(),
            metrics,
            Arc::new(|_| {}),
            health.clone(),
            token.clone(),
        );
        let task = tokio::spawn(run);
        Self {
            health,
            client,
            token,
            task,
        }
    }

    /// Waits until its API server calls it and heeds its policy. There is nothing to watch: an API server tells nobody
    /// what its admission has taken in.
    pub(crate) async fn in_force(&self, plane: &ControlPlane) {
        let ready = tokio::time::timeout(LIMIT, self.health.ready());
        ready
            .await
            .unwrap_or_else(|_| panic!("the webhook isn't ready: {:?}", self.health));
        let (elected, other) = (Pods::elected(plane).await, Pods::plain(plane).await);
        let manifest = with_annotation(pod("b"), keys::SOURCE_POD_MANIFEST, "{}");
        let both = async {
            loop {
                let mutated = elected
                    .dry_run(&elect(pod("a")))
                    .await
                    .is_ok_and(|pod| is_proxy(&pod));
                if mutated && other.dry_run(&manifest).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, both)
            .await
            .expect("the webhook comes into force");
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        tokio::time::timeout(LIMIT, self.task)
            .await
            .expect("it ends")
            .unwrap()
            .unwrap();
    }
}

/// A plane with a webhook in force, shared by the tests that leave both as they are.
pub(crate) async fn shared_plane() -> Arc<ControlPlane> {
    static IN_FORCE: OnceCell<()> = OnceCell::const_new();
    let plane = shared::plane("webhook", || ControlPlane::builder("webhook"))
        .await
        .unwrap();
    IN_FORCE
        .get_or_init(|| async {
            let plane = plane.clone();
            let starting = shared::runtime().unwrap().spawn(async move {
                let webhook = Webhook::start(&plane, &[]).await;
                webhook.in_force(&plane).await;
                // It runs as long as the process.
                std::mem::forget(webhook);
            });
            starting.await.unwrap();
        })
        .await;
    plane
}

/// A client of an account of Pilotage's that may change pods.
pub(crate) async fn own_account(plane: &ControlPlane) -> Client {
    let account = Account {
        namespace: HOME,
        name: "scheduler",
    };
    let rules = [Rule::cluster(
        &[""],
        &["pods", "pods/status"],
        &["get", "patch"],
    )];
    let mut objects = vec![account.to_json()];
    objects.extend(render("scheduler", account, &rules));
    apply::apply_values(&plane.admin(), objects, HOME)
        .await
        .unwrap();
    plane
        .service_account_client(HOME, "scheduler")
        .await
        .unwrap()
}

/// The pods of one namespace, as JSON.
pub(crate) struct Pods {
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
}

impl Pods {
    /// In a namespace whose elected pods are delegated.
    pub(crate) async fn elected(plane: &ControlPlane) -> Self {
        Self {
            namespace: plane.elected_namespace("elected").await.unwrap(),
            client: plane.admin(),
        }
    }

    /// In an ordinary namespace.
    pub(crate) async fn plain(plane: &ControlPlane) -> Self {
        Self {
            namespace: plane.namespace("plain").await.unwrap(),
            client: plane.admin(),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/pods{rest}", self.namespace.name())
    }

    pub(crate) async fn create(&self, pod: &Value) -> Result<Value, String> {
        self.send(Request::post(self.path("")), "application/json", pod)
            .await
    }

    pub(crate) async fn dry_run(&self, pod: &Value) -> Result<Value, String> {
        self.send(
            Request::post(self.path("?dryRun=All")),
            "application/json",
            pod,
        )
        .await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, pod: &Value) -> Result<Value, String> {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = self.path(&format!("/{name}?fieldManager=somebody"));
        self.send(Request::patch(path), "application/apply-patch+yaml", pod)
            .await
    }

    /// Merge patch; `name` may end with a subresource.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<Value, String> {
        let path = self.path(&format!("/{name}"));
        self.send(Request::patch(path), "application/merge-patch+json", patch)
            .await
    }

    /// [`Self::patch`] by another client.
    pub(crate) async fn patch_as(
        &self,
        client: &Client,
        name: &str,
        patch: &Value,
    ) -> Result<Value, String> {
        let path = self.path(&format!("/{name}"));
        let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
        let request = request.body(serde_json::to_vec(patch).unwrap()).unwrap();
        client.request(request).await.map_err(message)
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Value, String> {
        let request = Request::get(self.path(&format!("/{name}")))
            .body(Vec::new())
            .unwrap();
        self.client.request(request).await.map_err(message)
    }

    /// Posts a Binding; `path` is relative to the namespace.
    pub(crate) async fn bind(&self, path: &str, binding: &Value) -> Result<Value, String> {
        let path = format!("/api/v1/namespaces/{}/{path}", self.namespace.name());
        self.send(Request::post(path), "application/json", binding)
            .await
    }

    async fn send(
        &self,
        request: http::request::Builder,
        kind: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let request = request
            .header(CONTENT_TYPE, kind)
            .body(body.to_string().into_bytes())
            .unwrap();
        self.client.request(request).await.map_err(message)
    }
}

/// The API server's refusal, as `kubectl` shows it.
fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let Status {
                message, reason, ..
            } = *status;
            format!("({reason}): {message}")
        }
        other => panic!("no answer of the API server: {other}"),
    }
}

/// A pod as a user writes it.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "image": "registry.k8s.io/pause:3.10" }] },
    })
}

pub(crate) fn elect(pod: Value) -> Value {
    with_annotation(pod, keys::ELECT, "")
}

pub(crate) fn with_annotation(mut pod: Value, key: &str, value: &str) -> Value {
    pod["metadata"]["annotations"][key] = value.into();
    pod
}

pub(crate) fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][key].as_str()
}

pub(crate) fn is_proxy(pod: &Value) -> bool {
    pod["spec"]["schedulerName"] == keys::PROXY_SCHEDULER
        && pod["spec"]["nodeSelector"][keys::PROVIDER] == keys::PROVIDER_VALUE
        && annotation(pod, keys::SOURCE_POD_MANIFEST).is_some()
}

/// Fails unless the answer is a refusal with all of `parts`.
pub(crate) fn refused(case: &str, answer: Result<Value, String>, parts: &[&str]) {
    let message = answer.expect_err(case);
    for part in parts {
        assert!(message.contains(part), "{case}: {message:?} lacks {part:?}");
    }
}
