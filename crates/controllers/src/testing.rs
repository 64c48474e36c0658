//! An API server with nothing in it, which remembers the events that it is sent; for tests of a whole edge. It answers
//! at once or never, so that the clock may stand still.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{Client, client::Body};
use pilotage_api::keys;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::service_fn;

use crate::caught::{AFTER_PANIC, PANICKED, on_purpose};

/// The version of its lists: what is no newer isn't taken in any more.
pub(crate) const LISTED: usize = 1;

/// The events that it was sent.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<Event>>>);

impl Told {
    /// Reasons of the events about a pod.
    pub(crate) fn about(&self, uid: &str) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let of = |event: &&Event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|it| it.uid.as_deref() == Some(uid))
        };
        let reasons = events
            .iter()
            .filter(of)
            .filter_map(|event| event.reason.clone());
        reasons.collect()
    }
}

/// The server.
pub(crate) fn server() -> (Client, Told) {
    let told = Told::default();
    let heard = told.clone();
    let service = service_fn(move |request: Request<Body>| {
        let heard = heard.clone();
        async move {
            let (parts, body) = request.into_parts();
            let query = parts.uri.query().unwrap_or_default();
            if query.contains("watch=") {
                pending::<()>().await;
            }
            let body = body.collect().await?.to_bytes().to_vec();
            let is_event = parts.uri.path().ends_with("/events");
            let (status, answer) = match parts.method {
                Method::POST if is_event => {
                    heard.0.lock().unwrap().push(serde_json::from_slice(&body)?);
                    (201, serde_json::from_slice(&body)?)
                }
                Method::GET => (200, empty()),
                _ => (404, missing()),
            };
            let answer = Body::from(answer.to_string().into_bytes());
            let answer = Response::builder().status(status).body(answer);
            answer.map_err(|error| Box::new(error) as tower::BoxError)
        }
    });
    (Client::new(service, "default"), told)
}

fn empty() -> Value {
    json!({ "metadata": { "resourceVersion": LISTED.to_string() }, "items": [] })
}

fn missing() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "not found", "reason": "NotFound", "code": 404,
    })
}

/// A proxy pod in this version, above [`LISTED`].
pub(crate) fn proxy(uid: &str, version: usize) -> Pod {
    let pod = json!({
        "metadata": {
            "namespace": "shop", "name": uid, "uid": uid, "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { keys::SOURCE_POD_MANIFEST: "metadata: {}" },
        },
        "spec": { "schedulerName": keys::PROXY_SCHEDULER, "containers": [{ "name": "c" }] },
    });
    serde_json::from_value(pod).unwrap()
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(AFTER_PANIC / 2, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

/// A pod whose step panics is told so, and tried once a minute however often it changes. `put` shows the edge a version
/// of it; `goes_on` shows it another pod, and waits until something was done for that.
pub(crate) async fn panics_alone(
    edge: &str,
    told: &Told,
    put: impl Fn(Pod),
    goes_on: impl AsyncFnOnce(),
) {
    let uid = format!("{}{edge}", on_purpose::UID);
    let change = |version| put(proxy(&uid, version));
    change(LISTED + 1);
    let is_told = || told.about(&uid).iter().any(|reason| reason == PANICKED);
    until("the pod is told", is_told).await;
    goes_on().await;
    for more in 2..12 {
        change(LISTED + more);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(on_purpose::tried(&uid), 1, "whatever happens");
    sleep(AFTER_PANIC).await;
    assert_eq!(on_purpose::tried(&uid), 2, "a minute later");
}
