//! One client's connection: its TLS ends here, its requests go on over a connection of their own to the API server,
//! which speaks the same version of HTTP. So when one of the two breaks, so does the other. It knows modes and rules
//! only by name.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::UPGRADE;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::server::conn::{http1 as server1, http2 as server2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot, watch as cell};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call::{Call, Verb};
use super::link::{Link, Mode};
use super::rules::{Catch, Rules, Verdict};
use super::{Answer, tls, upgrade, watch};

/// Bytes between a connection's line and its TLS.
const BUFFER: usize = 64 * 1024;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What all connections of one proxy share.
pub(super) struct Wiring {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connectors: tls::Connectors,
    pub(super) server: SocketAddr,
    pub(super) rules: Arc<Rules>,
    /// Somebody who answers some requests in place of the API server.
    pub(super) answer: Option<Box<dyn Answer>>,
    pub(super) mode: cell::Receiver<Mode>,
    /// Everything ends with this…
    pub(super) stop: CancellationToken,
    /// …and every task is counted here.
    pub(super) tasks: TaskTracker,
}

/// Spawns what hyper wants spawned, so that it ends with its connection.
#[derive(Clone)]
pub(super) struct Scope {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl<F> hyper::rt::Executor<F> for Scope
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(stop.run_until_cancelled_owned(future));
    }
}

/// Serves one client until it goes, the API server goes, or `stop`.
pub(super) async fn serve(client: TcpStream, wiring: Arc<Wiring>, stop: CancellationToken) {
    let _ = client.set_nodelay(true);
    let link = Link::new(wiring.mode.clone());
    let (near, far) = duplex(BUFFER);
    let served = async {
        if let Err(error) = converse(far, &wiring, &stop).await {
            tracing::debug!(%error, "a connection through the fault proxy ended");
        }
        // What was written last is still on its way to the client.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = link.carry(client, near) => {}
        () = served => {}
    }
    stop.cancel();
}

async fn converse(
    client: DuplexStream,
    wiring: &Arc<Wiring>,
    stop: &CancellationToken,
) -> Result<(), BoxError> {
    let client = wiring.acceptor.accept(client).await?;
    let is_http2 = client.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
    let scope = Scope {
        stop: stop.clone(),
        tasks: wiring.tasks.clone(),
    };
    let (upstream, driving) = Upstream::connect(wiring, is_http2, &scope).await?;
    let (wiring, stop) = (Arc::clone(wiring), stop.clone());
    let service = service_fn(move |request| {
        forward(
            request,
            upstream.clone(),
            Arc::clone(&wiring),
            stop.clone(),
            is_http2,
        )
    });
    let client = TokioIo::new(client);
    // An API server that hangs up has said its last word: it is passed on before the client's connection ends.
    if is_http2 {
        let serving = server2::Builder::new(scope).serve_connection(client, service);
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return Ok(ended?),
            _ = driving => serving.as_mut().graceful_shutdown(),
        }
        Ok(serving.await?)
    } else {
        let serving = server1::Builder::new()
            .serve_connection(client, service)
            .with_upgrades();
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return Ok(ended?),
            _ = driving => serving.as_mut().graceful_shutdown(),
        }
        Ok(serving.await?)
    }
}

/// A way to send requests to the API server.
#[derive(Clone)]
pub(super) enum Upstream {
    Http1(Arc<Mutex<client1::SendRequest<Body>>>),
    Http2(client2::SendRequest<Body>),
}

impl Upstream {
    /// A new connection; the receiver completes when it has ended.
    async fn connect(
        wiring: &Wiring,
        is_http2: bool,
        scope: &Scope,
    ) -> Result<(Self, oneshot::Receiver<()>), BoxError> {
        let stream = TcpStream::connect(wiring.server).await?;
        stream.set_nodelay(true)?;
        let connector: &TlsConnector = wiring.connectors.of(is_http2);
        let name = ServerName::IpAddress(wiring.server.ip().into());
        let stream = TokioIo::new(connector.connect(name, stream).await?);
        let (ended, driving) = oneshot::channel::<()>();
        let upstream = if is_http2 {
            let (sender, connection) = client2::handshake(scope.clone(), stream).await?;
            hyper::rt::Executor::execute(scope, async move {
                let _ = connection.await;
                drop(ended);
            });
            Self::Http2(sender)
        } else {
            let (sender, connection) = client1::handshake(stream).await?;
            hyper::rt::Executor::execute(scope, async move {
                let _ = connection.with_upgrades().await;
                drop(ended);
            });
            Self::Http1(Arc::new(Mutex::new(sender)))
        };
        Ok((upstream, driving))
    }

    pub(super) async fn send(&self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                let answer = sender.send_request(request);
                drop(sender);
                answer.await
            }
            Self::Http2(sender) => {
                let mut sender = sender.clone();
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

async fn forward(
    request: Request<Incoming>,
    upstream: Upstream,
    wiring: Arc<Wiring>,
    stop: CancellationToken,
    is_http2: bool,
) -> Result<Response<Body>, BoxError> {
    if request.headers().contains_key(UPGRADE) {
        let scope = Scope {
            stop,
            tasks: wiring.tasks.clone(),
        };
        return upgrade::forward(request, &upstream, &scope).await;
    }
    let call = Call::of(request.method(), request.uri());
    let request = request.map(streamed);
    match wiring.rules.judge(&call) {
        Verdict::Expired => Ok(watch::refused()),
        Verdict::Hold(catch) => hold(call, request, catch, wiring, is_http2).await,
        Verdict::LoseReply(told) => {
            let status = exchange(&call, request, &upstream, &wiring).await?.status();
            let _ = told.send(status.as_u16());
            stop.cancel();
            std::future::pending().await
        }
        Verdict::Forward => {
            if wiring.answers(&call) {
                return exchange(&call, request, &upstream, &wiring).await;
            }
            let response = upstream.send(request).await?;
            Ok(
                if call.verb == Verb::Watch && response.status().is_success() {
                    watch::followed(response, wiring.rules.watch_begins(&call))
                } else {
                    response.map(streamed)
                },
            )
        }
    }
}

impl Wiring {
    /// Whether a request isn't for the API server.
    fn answers(&self, call: &Call) -> bool {
        let answer = self.answer.as_ref();
        answer.is_some_and(|answer| answer.takes(call))
    }
}

/// Whatever the answer is, from whomever.
async fn exchange(
    call: &Call,
    request: Request<Body>,
    upstream: &Upstream,
    wiring: &Wiring,
) -> Result<Response<Body>, BoxError> {
    let Some(answer) = wiring.answer.as_ref().filter(|_| wiring.answers(call)) else {
        return Ok(upstream.send(request).await?.map(streamed));
    };
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let answer = answer.answer(call, Request::from_parts(parts, body));
    Ok(answer.await.map(whole))
}

/// Keeps a request until it is released. It lands then, on a connection of its own, even if the client has given up.
async fn hold(
    call: Call,
    request: Request<Body>,
    catch: Catch,
    wiring: Arc<Wiring>,
    is_http2: bool,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    // The client may be gone when the body is needed.
    let body = body.collect().await?.to_bytes();
    let request = Request::from_parts(parts, whole(body));
    let Catch { caught, release } = catch;
    let _ = caught.send(());
    let (answer, answered) = oneshot::channel();
    let (stop, tasks) = (wiring.stop.clone(), wiring.tasks.clone());
    let landing = async move {
        // Nobody will release it.
        let Ok(told) = release.await else {
            return;
        };
        let scope = Scope {
            stop: wiring.stop.clone(),
            tasks: wiring.tasks.clone(),
        };
        let response = async {
            let (upstream, _) = Upstream::connect(&wiring, is_http2, &scope).await?;
            let response = exchange(&call, request, &upstream, &wiring).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, BoxError>(Response::from_parts(parts, whole(body)))
        };
        match response.await {
            Ok(response) => {
                let status = response.status().as_u16();
                let _ = answer.send(response);
                let _ = told.send(status);
            }
            Err(error) => tracing::warn!(%error, "a held request was released and not answered"),
        }
    };
    tasks.spawn(stop.run_until_cancelled_owned(landing));
    // Without an answer the connection ends, as it would if the network had swallowed the request.
    Ok(answered.await?)
}

pub(super) fn streamed(body: Incoming) -> Body {
    body.map_err(Into::into).boxed_unsync()
}

fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}
