//! Other webhooks beside ours: some help, some fight.

use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_model::manifest;
use pilotage_runtime::serve::{ServeLimits, TlsServer};
use pilotage_runtime::tls::Certificates;
use pilotage_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{LIMIT, Pods, annotation, elect, is_proxy, pod, refused, shared_plane};

/// JSON patch operations for a pod.
type Change = fn(&Value) -> Vec<Value>;

/// Another webhook, for the pods of one namespace.
struct Other {
    client: Client,
    name: String,
    token: CancellationToken,
}

impl Other {
    /// `order` goes before its configuration's name.
    async fn start(
        plane: &ControlPlane,
        order: &str,
        pods: &Pods,
        reinvocation: &str,
        change: Change,
    ) -> Self {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificates = Certificates::new();
        certificates
            .replace(
                pair.cert.pem().as_bytes(),
                pair.signing_key.serialize_pem().as_bytes(),
            )
            .unwrap();
        let addr = "127.0.0.1:0".parse().unwrap();
        let server = TlsServer::bind(addr, &certificates, ServeLimits::default())
            .await
            .unwrap();
        let url = format!("https://{}/", server.local_addr());
        let answer = move |Json(review): Json<Value>| async move {
            let request = &review["request"];
            let patch = STANDARD.encode(json!(change(&request["object"])).to_string());
            Json(json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": { "uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch },
            }))
        };
        let token = CancellationToken::new();
        tokio::spawn(server.serve(Router::new().route("/", post(answer)), token.clone()));

        let name = format!("{order}-{}", pods.namespace.name());
        let configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": "other.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "reinvocationPolicy": reinvocation,
                "clientConfig": { "url": url, "caBundle": STANDARD.encode(pair.cert.pem()) },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": pods.namespace.name() } },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods"] }],
            }],
        }))
        .unwrap();
        let client = plane.admin();
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        api.create(&PostParams::default(), &configuration)
            .await
            .unwrap();
        let other = Self {
            client,
            name,
            token,
        };
        other.in_force(pods).await;
        other
    }

    /// A pod that is not ours shows whether it is called: it would be marked.
    async fn in_force(&self, pods: &Pods) {
        let called = async {
            loop {
                let probe = pods.dry_run(&pod("probe")).await;
                if probe.is_ok_and(|pod| annotation(&pod, "other").is_some()) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, called)
            .await
            .expect("the other webhook is called");
    }

    async fn stop(self) {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        api.delete(&self.name, &DeleteParams::default())
            .await
            .unwrap();
        self.token.cancel();
    }
}

/// Marks the pod as seen, and changes it further if it is elected.
fn mark(pod: &Value, more: Vec<Value>) -> Vec<Value> {
    let mut operations = Vec::new();
    if !pod["metadata"]["annotations"].is_object() {
        operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    operations
        .push(json!({ "op": "add", "path": "/metadata/annotations/other", "value": "was here" }));
    if annotation(pod, keys::ELECT).is_some() {
        operations.extend(more);
    }
    operations
}

fn inject_sidecar(pod: &Value) -> Vec<Value> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    if containers
        .iter()
        .any(|container| container["name"] == "sidecar")
    {
        return mark(pod, Vec::new());
    }
    let sidecar = json!({ "name": "sidecar", "image": "mesh:1" });
    mark(
        pod,
        vec![
            json!({ "op": "add", "path": "/spec/containers/-", "value": sidecar }),
            json!({ "op": "add", "path": "/metadata/labels", "value": { "mesh": "on" } }),
        ],
    )
}

fn reset_scheduler(pod: &Value) -> Vec<Value> {
    mark(
        pod,
        vec![json!({ "op": "add", "path": "/spec/schedulerName", "value": "default-scheduler" })],
    )
}

fn take_node(pod: &Value) -> Vec<Value> {
    mark(
        pod,
        vec![json!({ "op": "add", "path": "/spec/nodeName", "value": "node-7" })],
    )
}

fn take_selector(pod: &Value) -> Vec<Value> {
    mark(
        pod,
        vec![json!({ "op": "add", "path": "/spec/nodeSelector", "value": { "disk": "ssd" } })],
    )
}

fn manifest_path() -> String {
    format!(
        "/metadata/annotations/{}",
        keys::SOURCE_POD_MANIFEST.replace('/', "~1")
    )
}

fn drop_manifest(pod: &Value) -> Vec<Value> {
    match annotation(pod, keys::SOURCE_POD_MANIFEST) {
        Some(_) => mark(
            pod,
            vec![json!({ "op": "remove", "path": manifest_path() })],
        ),
        None => mark(pod, Vec::new()),
    }
}

fn elect_late(pod: &Value) -> Vec<Value> {
    let mut operations = mark(pod, Vec::new());
    if pod["metadata"]["labels"]["late"] == "yes" {
        let path = format!("/metadata/annotations/{}", keys::ELECT.replace('/', "~1"));
        operations.push(json!({ "op": "add", "path": path, "value": "" }));
    }
    operations
}

#[tokio::test]
async fn a_sidecar_reaches_the_delegate_whenever_it_is_injected() {
    let plane = shared_plane().await;
    for (order, reinvocation) in [
        ("aaa", "Never"),
        ("zzz", "Never"),
        ("zzz", "IfNeeded"),
        ("aaa", "IfNeeded"),
    ] {
        let case = format!("{order} {reinvocation}");
        let pods = Pods::elected(&plane).await;
        let other = Other::start(&plane, order, &pods, reinvocation, inject_sidecar).await;
        let proxy = pods
            .create(&elect(pod("web")))
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(is_proxy(&proxy), "{case}");
        let source = manifest::from_proxy(&proxy).unwrap().into_value();
        for pod in [&proxy, &source] {
            assert_eq!(pod["spec"]["containers"][1]["name"], "sidecar", "{case}");
            assert_eq!(pod["metadata"]["labels"]["mesh"], "on", "{case}");
        }
        assert_eq!(
            source["metadata"]["labels"].get(keys::HAS_FINALIZER),
            None,
            "{case}"
        );
        assert_eq!(source["metadata"].get("finalizers"), None, "{case}");
        assert_eq!(
            source["spec"]["schedulerName"], "default-scheduler",
            "{case}"
        );
        other.stop().await;
    }
}

#[tokio::test]
async fn what_a_later_webhook_undoes_once_is_repaired() {
    let plane = shared_plane().await;
    for (case, change) in [
        ("scheduler", reset_scheduler as Change),
        ("selector", take_selector),
    ] {
        let pods = Pods::elected(&plane).await;
        let other = Other::start(&plane, "zzz", &pods, "Never", change).await;
        let proxy = pods
            .create(&elect(pod("web")))
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(is_proxy(&proxy), "{case}");
        assert_eq!(
            proxy["spec"]["nodeSelector"],
            json!({ keys::PROVIDER: keys::PROVIDER_VALUE }),
            "{case}"
        );
        other.stop().await;
    }
}

#[tokio::test]
async fn a_webhook_that_has_the_last_word_gets_no_pod_past_the_policy() {
    let plane = shared_plane().await;
    for (case, change, parts) in [
        (
            "scheduler",
            reset_scheduler as Change,
            &["schedulerName must be admiralty-proxy", "default-scheduler"][..],
        ),
        (
            "selector",
            take_selector,
            &["nodeSelector", "virtual-kubelet.io/provider=admiralty"],
        ),
        ("node", take_node, &["nodeName"]),
        ("manifest", drop_manifest, &[keys::SOURCE_POD_MANIFEST]),
    ] {
        let pods = Pods::elected(&plane).await;
        let other = Other::start(&plane, "zzz", &pods, "IfNeeded", change).await;
        refused(case, pods.create(&elect(pod("web"))).await, parts);
        other.stop().await;
    }
}

#[tokio::test]
async fn election_by_another_webhook_works_before_ours_and_is_refused_after() {
    let plane = shared_plane().await;
    let mut late = pod("web");
    late["metadata"]["labels"] = json!({ "late": "yes" });

    let pods = Pods::elected(&plane).await;
    let other = Other::start(&plane, "aaa", &pods, "Never", elect_late).await;
    assert!(is_proxy(&pods.create(&late).await.unwrap()));
    other.stop().await;

    let pods = Pods::elected(&plane).await;
    let other = Other::start(&plane, "zzz", &pods, "Never", elect_late).await;
    refused(
        "late",
        pods.create(&late).await,
        &["was not called", "order of their configurations' names"],
    );
    other.stop().await;
}
