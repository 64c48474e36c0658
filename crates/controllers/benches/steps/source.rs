//! The source's API server: it lists what it is given, tells what happens to it when asked to, takes a Lease, and never
//! answers any other write.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Method, Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::service_fn;

type Told = BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

/// What is told of each kind from now on.
type Watches = HashMap<String, Vec<mpsc::UnboundedSender<Bytes>>>;

/// Clones share it.
#[derive(Clone)]
pub(crate) struct Source {
    /// By the kinds' plurals.
    lists: Arc<HashMap<&'static str, Bytes>>,
    watches: Arc<Mutex<Watches>>,
    unanswered: Arc<AtomicUsize>,
}

impl Source {
    /// These objects are there; of kinds that aren't named there are none.
    pub(crate) fn new<const N: usize>(objects: [(&'static str, Vec<Value>); N]) -> Self {
        let lists = objects.map(|(plural, items)| (plural, list(&items)));
        Self {
            lists: Arc::new(lists.into()),
            watches: Arc::default(),
            unanswered: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let source = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let source = source.clone();
            async move {
                let (status, body) = match source.answer(&request) {
                    Some(answer) => answer,
                    None if is_lease(&request) => granted(request).await,
                    None => {
                        source.unanswered.fetch_add(1, Ordering::Relaxed);
                        std::future::pending().await
                    }
                };
                let answer = Response::builder().status(status);
                answer
                    .header("Content-Type", "application/json")
                    .body(StreamBody::new(body))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Option<(u16, Told)> {
        if request.method() != Method::GET {
            return None;
        }
        let (path, query) = (
            request.uri().path(),
            request.uri().query().unwrap_or_default(),
        );
        if path.contains("/leases/") {
            let missing = json!({
                "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no",
            });
            return Some((404, whole(missing.to_string().into())));
        }
        let plural = path.rsplit('/').next().unwrap_or_default();
        if query.contains("watch=") {
            let (tell, told) = mpsc::unbounded_channel();
            let told = stream::unfold(told, |mut told| async { Some((told.recv().await?, told)) });
            let mut watches = self.watches();
            watches.entry(plural.to_owned()).or_default().push(tell);
            drop(watches);
            let told = told.map(|line| Ok(Frame::data(line))).boxed();
            return Some((200, told));
        }
        let list = self.lists.get(plural).cloned().unwrap_or_else(|| list(&[]));
        Some((200, whole(list)))
    }

    fn watches(&self) -> std::sync::MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody watches this kind.
    pub(crate) fn is_watched(&self, plural: &str) -> bool {
        self.watches().contains_key(plural)
    }

    /// How many writes wait for an answer in vain, or have given it up.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Something happens to an object.
    pub(crate) fn tell(&self, plural: &str, type_: &str, object: &Value) {
        // As API servers write it, the type first.
        let line = format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n");
        let line = Bytes::from(line);
        let mut watches = self.watches();
        let watching = watches.get_mut(plural).expect("a watch");
        watching.retain(|watch| watch.send(line.clone()).is_ok());
        assert!(!watching.is_empty(), "no watch goes on");
    }
}

fn list(items: &[Value]) -> Bytes {
    let list = json!({
        "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "20000" }, "items": items,
    });
    list.to_string().into()
}

fn whole(body: Bytes) -> Told {
    stream::iter([Ok(Frame::data(body))]).boxed()
}

fn is_lease(request: &Request<Body>) -> bool {
    request.method() == Method::POST && request.uri().path().ends_with("/leases")
}

/// The Lease as it was to be.
async fn granted(request: Request<Body>) -> (u16, Told) {
    let body = request
        .into_body()
        .collect_bytes()
        .await
        .unwrap_or_default();
    let mut lease: Value = serde_json::from_slice(&body).expect("a Lease");
    lease["metadata"]["uid"] = "lease".into();
    lease["metadata"]["resourceVersion"] = "1".into();
    (201, whole(lease.to_string().into()))
}
