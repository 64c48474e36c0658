//! An API server that answers as a test wants, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use pilotage_runtime::lease::{Elector, Leadership, LeaseConfig};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// Method and path of each request, and its body.
pub(crate) type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server that gives these answers, one after the other.
pub(crate) fn server(answers: &[(u16, Value)]) -> (Client, Asked) {
    server_while(answers, || std::future::ready(()))
}

/// The same; `meanwhile` happens after each request, before its answer.
pub(crate) fn server_while<F>(
    answers: &[(u16, Value)],
    meanwhile: impl Fn() -> F + Clone + Send + 'static,
) -> (Client, Asked)
where
    F: Future<Output = ()> + Send + 'static,
{
    let asked = Asked::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
    let heard = asked.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let (heard, answers, meanwhile) = (heard.clone(), answers.clone(), meanwhile.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let what = format!("{} {}", parts.method, parts.uri.path());
            heard.lock().unwrap().push((what, body));
            meanwhile().await;
            let (status, answer) = answers.lock().unwrap().pop_front().expect("an answer");
            let answer = Body::from(answer.to_string().into_bytes());
            let response = http::Response::builder().status(status).body(answer);
            response.map_err(|error| Box::new(error) as tower::BoxError)
        }
    });
    (Client::new(service, "default"), asked)
}

/// The answer of a request that failed.
pub(crate) fn error(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": reason, "code": code,
    });
    (code, status)
}

/// Leads for ten seconds: nobody renews its Lease.
pub(crate) async fn leads_for_a_while() -> Leadership {
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "ns", "name": "test", "resourceVersion": "1" },
        "spec": { "holderIdentity": "me", "leaseDurationSeconds": 15 },
    });
    let (client, _) = server(&[error(404, "NotFound"), (201, held)]);
    let config = LeaseConfig::with_default_times("ns", "test");
    let (elector, leadership) = Elector::new(client, config, "me".to_owned());
    let electing = tokio::spawn(elector.run(CancellationToken::new()));
    leadership.acquired().await;
    electing.abort();
    leadership
}
