//! What becomes of a request: who asks, what for, whose pod that is, and the stream from its target.
//!
//! Each step may refuse, and the first refusal is the answer. A target that is slow, lost or hostile holds up the one
//! stream that asked for it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_clusters::{
    Connection, Opened, Registry, StreamError, Streams, Target, Upgrade, Want, Watch,
};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::caught::caught_async;
use pilotage_runtime::pages::PAGE;
use pilotage_runtime::serve::PeerCertificates;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Gatekeeper;
use super::answers::Question;
use super::delegate::Proxy;
use super::ending::{self, Ending, Heard, Lookout};
use super::headers::{self, Protocol};
use super::metrics::KubeletMetrics;
use super::passing::Holds;
use super::refusal::Refusal;
use super::route::{self, Action, Form, Place, Route};
use super::slots::Slots;
use super::told::Teller;
use super::usage::{self, Usage};
use super::{forwarded, passing, query, tunnel};

/// Limit for the question which pod of a target it is.
const FIND_LIMIT: Duration = Duration::from_secs(10);

/// All that requests are answered with.
pub(crate) struct Served {
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    pub(crate) gate: Gatekeeper,
    pub(crate) slots: Slots,
    pub(crate) metrics: KubeletMetrics,
    pub(crate) usage: Usage,
    /// All proxies of the source.
    pub(crate) proxies: Watch<Pod>,
    pub(crate) teller: Teller,
    /// Those that are open.
    pub(crate) streams: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

/// A pod on a virtual node of ours.
struct Found {
    target: Arc<Target>,
    /// Unless its delegate may not be reached.
    proxy: Result<Proxy, Refusal>,
}

/// Answers one request, whatever happens.
pub(crate) async fn handle(State(served): State<Arc<Served>>, request: Request<Body>) -> Response {
    let metrics = served.metrics.clone();
    let answered = caught_async(served.answer(request)).await;
    let answer = answered.unwrap_or_else(|panic| {
        tracing::error!(panic, "to answer a kubelet's request panicked");
        let text = "a mistake in Pilotage, please report it with what its log says";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text))
    });
    answer.unwrap_or_else(|refusal| {
        tracing::debug!(
            status = refusal.status.as_u16(),
            text = refusal.text,
            "refused"
        );
        metrics.refuse(refusal.status.as_u16());
        refusal.into_response()
    })
}

impl Served {
    async fn answer(self: Arc<Self>, mut request: Request<Body>) -> Result<Response, Refusal> {
        let upgrade = hyper::upgrade::on(&mut request);
        let (head, _) = request.into_parts();
        let none = PeerCertificates::default();
        let peer = head.extensions.get().unwrap_or(&none);
        let caller = self.gate.authenticate(peer, &head.headers).await?;
        let place = route::route(&head.method, head.uri.path());
        let streams = matches!(&place, Ok(Place::Pod(route)) if route.action != Action::Logs);
        let by = forwarded::node(&head.headers, streams);
        let found = match &place {
            Ok(Place::Pod(route)) => Some(self.find(route).await),
            _ => None,
        };
        let node: &str = match (&by, &found, &place) {
            (Ok(Some(by)), ..) => by,
            (_, Some(Ok(found)), _) => found.target.node(),
            (.., Ok(Place::Usage(_, Some(node)))) => node,
            // Any node: who may ask for all of them may know which pods there are.
            _ => "",
        };
        let verb = route::verb(&head.method).ok_or_else(|| {
            let text = "only GET and POST are answered";
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text)
        })?;
        let subresource = route::subresource(head.uri.path());
        let node = node.to_owned();
        self.gate
            .authorize(Question {
                caller,
                verb,
                subresource,
                node,
            })
            .await?;
        let by = by?;
        let route = match place? {
            Place::Health => return Ok("ok".into_response()),
            Place::Usage(form, node) => return self.usage(form, node.as_deref(), by).await,
            Place::Pod(route) => route,
        };
        let found = found.unwrap_or_else(|| Err(absent()));
        let found = match (by, found) {
            (Some(by), Ok(found)) if found.target.node() != by => Err(forwarded::elsewhere(by)),
            (Some(by), Err(refusal)) if refusal.status == StatusCode::NOT_FOUND => {
                Err(forwarded::elsewhere(by))
            }
            (_, found) => found,
        }?;
        let opened = self.stream(&head, &route, found, upgrade).await;
        opened.map_err(|refusal| match route.action {
            Action::Logs => refusal.of_logs(),
            Action::Exec | Action::Attach | Action::PortForward => refusal,
        })
    }

    /// What the pods of a node use, or those of all nodes.
    async fn usage(
        &self,
        form: Form,
        node: Option<&str>,
        by: Option<&str>,
    ) -> Result<Response, Refusal> {
        let node = match (node, by) {
            (Some(node), Some(by)) if node != by => return Err(forwarded::elsewhere(by)),
            (node, by) => node.or(by),
        };
        let targets = match node {
            Some(node) => {
                let target = self.registry.by_node(node);
                vec![target.ok_or_else(|| Refusal::absent("no virtual node has this name"))?]
            }
            None => self.registry.targets(),
        };
        let reports = self.usage.of(&targets).await;
        // Whose figures for a whole node these would be, only who names one knows.
        let (one, error) = (node.is_some(), reports.iter().any(|report| report.failed));
        let (kind, text) = match form {
            Form::Metrics => (usage::METRICS, usage::metrics(&reports, one, error)),
            Form::Summary => (usage::SUMMARY, usage::summary(&reports, node)),
        };
        Ok(([(CONTENT_TYPE, kind)], text).into_response())
    }

    /// The pod in this cluster, looked at now.
    async fn find(&self, route: &Route) -> Result<Found, Refusal> {
        let pod = call::within(CALL_LIMIT, self.pods(route).get_opt(&route.pod)).await;
        let pod = pod.map_err(|error| Refusal::local("to look at the pod failed", &error))?;
        let pod = pod.ok_or_else(absent)?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.unwrap_or_default();
        let target = self.registry.by_node(node).ok_or_else(absent)?;
        let serves = target.key().namespace.as_ref();
        if serves.is_some_and(|namespace| *namespace != route.namespace) {
            return Err(absent());
        }
        let proxy = Proxy::of(&pod, node, route);
        Ok(Found { target, proxy })
    }

    fn pods(&self, route: &Route) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &route.namespace)
    }

    async fn stream(
        &self,
        head: &Parts,
        route: &Route,
        found: Found,
        caller: OnUpgrade,
    ) -> Result<Response, Refusal> {
        let Found { target, proxy } = found;
        let proxy = proxy?;
        let protocol = match route.action {
            Action::Logs => None,
            _ => Some(Protocol::of(&head.headers)?),
        };
        let question = head.uri.query().unwrap_or_default();
        // What can't be asked is told before anybody is.
        query::of_target(route, "", question)?;
        let slot = self.slots.take(&route.namespace)?;
        let streams = way(&target)?;
        let delegate = confirm(&target, &proxy).await?;
        let asked = query::of_target(route, &delegate, question)?;
        let opened = open(&streams, head, &asked, protocol).await;
        let opened = opened.map_err(|error| {
            if matches!(error, StreamError::Silent(_) | StreamError::Broken(_)) {
                target.doubt();
            }
            Refusal::of_stream(&target, &error)
        })?;
        let open = self.metrics.open(route.action);
        let heard = Heard::default();
        let lookout = Lookout {
            proxy: proxy.clone(),
            proxies: self.proxies.clone(),
            pods: self.pods(route),
        };
        let end = ending::of(lookout, target, heard.clone(), self.shutdown.clone());
        Ok(match (opened, protocol) {
            (Opened::Upgrade(upgrade), Some(protocol)) => {
                let answer = switching(&upgrade.headers, protocol);
                let joined = join(caller, upgrade, heard, end);
                let teller = self.teller.clone();
                self.streams.spawn(async move {
                    let ending = joined.await;
                    drop(open);
                    if let Some(ending) = ending {
                        teller.ended(&proxy, ending).await;
                    }
                    drop(slot);
                });
                answer
            }
            (Opened::Body(body), _) => {
                let parts = body.into_data_stream();
                let holds = Holds {
                    passing: open,
                    body: slot,
                };
                let last = query::last_line(question);
                let body = passing::pass(parts, end, heard, holds, last, &self.streams);
                ([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
            }
            // It isn't let in where no upgrade was asked for.
            (Opened::Upgrade(_), None) => StatusCode::BAD_GATEWAY.into_response(),
        })
    }
}

fn absent() -> Refusal {
    Refusal::absent("no such pod runs on a virtual node of this kubelet")
}

/// The way to a target; at once why there is none.
fn way(target: &Target) -> Result<Streams, Refusal> {
    let none = |why: &str| Refusal::of_target(target, StatusCode::SERVICE_UNAVAILABLE, why);
    match target.connection() {
        Connection::Lost { reason, .. } => Err(none(&format!("it is lost: {reason}"))),
        Connection::Connecting | Connection::Connected { .. } => target
            .streams()
            .ok_or_else(|| none("it hasn't been reached yet")),
    }
}

/// The target has the delegate of this proxy, under this name, and nobody else's pod has it.
async fn confirm(target: &Target, proxy: &Proxy) -> Result<String, Refusal> {
    let unknown = || {
        Refusal::of_target(
            target,
            StatusCode::SERVICE_UNAVAILABLE,
            "it hasn't been reached yet",
        )
    };
    let client = target.client().ok_or_else(unknown)?;
    let pods: Api<Pod> = Api::namespaced(client, &proxy.namespace);
    let mut params = ListParams::default()
        .labels(&format!("{}={}", keys::PARENT_UID, proxy.uid))
        .limit(PAGE);
    if let Some(name) = proxy.delegate() {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let listed = call::within(FIND_LIMIT, pods.list_metadata(&params)).await;
    let listed = listed.map_err(|error| {
        if error.kind() == Failure::Unknown {
            target.doubt();
        }
        let status = match error {
            CallError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            CallError::Api(_) | CallError::Endless(_) => StatusCode::BAD_GATEWAY,
        };
        let why = format!("to look for the pod there failed: {}", error.message());
        Refusal::of_target(target, status, &why)
    })?;
    let mut pods = listed.items.iter();
    if let Some(name) = pods.find_map(|pod| proxy.name_of(&pod.metadata)) {
        return Ok(name.to_owned());
    }
    let why = "it doesn't have the pod that stands behind this one";
    Err(Refusal::of_target(target, StatusCode::NOT_FOUND, why))
}

async fn open(
    streams: &Streams,
    head: &Parts,
    asked: &str,
    protocol: Option<Protocol>,
) -> Result<Opened, StreamError> {
    let mut request = Request::builder()
        .method(head.method.clone())
        .uri(asked)
        .body(())
        .map_err(|error| StreamError::Broken(error.to_string()))?;
    let want = match protocol {
        None => Want::Body,
        Some(protocol) => {
            *request.headers_mut() = headers::to_target(&head.headers, protocol);
            Want::Upgrade(protocol.name())
        }
    };
    streams.open(request, want).await
}

fn switching(target: &HeaderMap, protocol: Protocol) -> Response {
    let mut answer = StatusCode::SWITCHING_PROTOCOLS.into_response();
    *answer.headers_mut() = headers::to_caller(target, protocol);
    answer
}

/// Joins both until their end; why, if it is this process that ends them.
async fn join(
    caller: OnUpgrade,
    target: Upgrade,
    heard: Heard,
    end: impl Future<Output = Ending>,
) -> Option<Ending> {
    let mut end = pin!(end);
    let both = tokio::select! {
        both = async { tokio::try_join!(caller, target.connection) } => both,
        ending = &mut end => return Some(ending),
    };
    let (caller, target) = match both {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "an upgrade came to nothing");
            return None;
        }
    };
    match tunnel::join(TokioIo::new(caller), TokioIo::new(target), &heard, end).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) if tunnel::is_stalled(&error) => Some(Ending::Stalled),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a stream broke");
            None
        }
        Err(ending) => Some(ending),
    }
}
