//! The source's API server: it has one `ClusterTarget`, and its Secret.

use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// A client of a source whose target is reached by this kubeconfig.
pub(crate) fn client(kubeconfig: &str) -> Client {
    let target = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "ClusterTarget",
        "metadata": { "name": "far", "uid": "far", "resourceVersion": "1" },
        "spec": { "kubeconfigSecret": { "namespace": "shop", "name": "far" } },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "far", "namespace": "shop", "uid": "secret", "resourceVersion": "1" },
        "data": { "config": STANDARD.encode(kubeconfig) },
    });
    let service = service_fn(move |request: Request<Body>| {
        let (target, secret) = (target.clone(), secret.clone());
        async move {
            let watches = request.uri().query().unwrap_or_default().contains("watch=");
            let items = match request.uri().path().rsplit('/').next() {
                Some("clustertargets") => json!([target]),
                Some("secrets") => json!([secret]),
                Some("targets") => json!([]),
                _ => Value::Null,
            };
            if watches || items.is_null() {
                // Nothing happens, and no write ends.
                std::future::pending::<()>().await;
            }
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": items });
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            Ok::<_, Infallible>(answer)
        }
    });
    Client::new(service, "default")
}
