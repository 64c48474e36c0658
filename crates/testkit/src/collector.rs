//! A collector of traces: takes OTLP as JSON over HTTP, keeps the spans, and answers as a test says.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The spans are taken.
    Take,
    /// All but so many are taken.
    Reject(u64),
    /// None is taken; with this status, and this `Retry-After` unless it is zero.
    Status(u16, u64),
    /// Never.
    Silence,
}

/// A span that was taken, beside the service that sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// `service.name` of its sender.
    pub service: String,
    /// The span, as it was sent.
    pub span: Value,
}

impl Taken {
    /// A field that is a text; empty, if there is none.
    pub fn text(&self, field: &str) -> &str {
        self.span[field].as_str().unwrap_or_default()
    }

    /// The text of an attribute.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        let all = self.span["attributes"].as_array()?;
        let found = all.iter().find(|attribute| attribute["key"] == key)?;
        found["value"]["stringValue"].as_str()
    }
}

#[derive(Debug)]
struct State {
    answer: Answer,
    requests: usize,
    taken: Vec<Taken>,
}

/// A running collector; it ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    changes: watch::Receiver<usize>,
    _serving: JoinSet<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    /// Starts one on a free port.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            answer: Answer::Take,
            requests: 0,
            taken: Vec::new(),
        }));
        let (changed, changes) = watch::channel(0);
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&state), changed));
        Ok(Self {
            address,
            state,
            changes,
            _serving: serving,
        })
    }

    /// What `--otlp-endpoint` has to name.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on requests are answered so.
    pub fn answer(&self, answer: Answer) {
        lock(&self.state).answer = answer;
    }

    /// How many requests came.
    pub fn requests(&self) -> usize {
        lock(&self.state).requests
    }

    /// What was taken so far.
    pub fn taken(&self) -> Vec<Taken> {
        lock(&self.state).taken.clone()
    }

    /// Waits until what was taken, after so many requests, is what a test wants; an error is what there is after
    /// `limit`.
    pub async fn wait(
        &self,
        mut until: impl FnMut(&[Taken], usize) -> bool,
        limit: Duration,
    ) -> Result<Vec<Taken>, Vec<Taken>> {
        let mut changes = self.changes.clone();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let wanted = {
                    let state = lock(&self.state);
                    until(&state.taken, state.requests)
                };
                if wanted || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let ended = timeout(limit, waiting).await;
        ended.map(|()| self.taken()).map_err(|_| self.taken())
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>, changed: watch::Sender<usize>) {
    let changed = Arc::new(changed);
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let (state, changed) = (Arc::clone(&state), Arc::clone(&changed));
        let service = service_fn(move |request| {
            let (state, changed) = (Arc::clone(&state), Arc::clone(&changed));
            async move { Ok::<_, Infallible>(respond(request, &state, &changed).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            // The client's affair.
            let _ = connection.await;
        });
    }
}

fn status(code: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = code.try_into().unwrap_or_default();
    response
}

async fn respond(
    request: Request<Incoming>,
    state: &Mutex<State>,
    changed: &watch::Sender<usize>,
) -> Response<Full<Bytes>> {
    let is_traces = request.method() == Method::POST && request.uri().path() == "/v1/traces";
    let is_json = request
        .headers()
        .get("content-type")
        .is_some_and(|it| it == "application/json");
    let Ok(body) = request.into_body().collect().await else {
        return status(400, &json!({}));
    };
    let spans = serde_json::from_slice(&body.to_bytes())
        .ok()
        .and_then(|body| read(&body));
    let Some(spans) = spans.filter(|_| is_traces && is_json) else {
        return status(400, &json!({}));
    };
    let answer = {
        let mut state = lock(state);
        state.requests += 1;
        match state.answer {
            Answer::Take => state.taken.extend(spans),
            Answer::Reject(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                state.taken.extend(spans.into_iter().skip(count));
            }
            Answer::Status(..) | Answer::Silence => {}
        }
        state.answer
    };
    changed.send_modify(|requests| *requests += 1);
    match answer {
        Answer::Take => status(200, &json!({})),
        Answer::Reject(count) => {
            let rejected =
                json!({ "rejectedSpans": count.to_string(), "errorMessage": "too many" });
            status(200, &json!({ "partialSuccess": rejected }))
        }
        Answer::Status(code, after) => {
            let mut response = status(code, &json!({}));
            if after > 0 {
                response.headers_mut().insert(RETRY_AFTER, after.into());
            }
            response
        }
        Answer::Silence => pending().await,
    }
}

/// The spans of a request, if it has the form of the protocol.
fn read(body: &Value) -> Option<Vec<Taken>> {
    let mut taken = Vec::new();
    for resource in body["resourceSpans"].as_array()? {
        let attributes = resource["resource"]["attributes"].as_array()?;
        let name = attributes.iter().find(|it| it["key"] == "service.name")?;
        let service = name["value"]["stringValue"].as_str()?;
        for scope in resource["scopeSpans"].as_array()? {
            for span in scope["spans"].as_array()? {
                let is_id = |field: &str, digits| {
                    let id = span[field].as_str();
                    id.is_some_and(|id| {
                        id.len() == digits && id.bytes().all(|it| it.is_ascii_hexdigit())
                    })
                };
                let has_time = |field: &str| {
                    let time = span[field]
                        .as_str()
                        .and_then(|time| time.parse::<u64>().ok());
                    time.is_some_and(|time| time > 0)
                };
                if !is_id("traceId", 32)
                    || !is_id("spanId", 16)
                    || !has_time("startTimeUnixNano")
                    || !has_time("endTimeUnixNano")
                {
                    return None;
                }
                taken.push(Taken {
                    service: service.to_owned(),
                    span: span.clone(),
                });
            }
        }
    }
    Some(taken)
}
