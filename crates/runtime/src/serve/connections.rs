//! Serving a router on a listener's connections: accept loop, limits, graceful end. What a connection has to do before
//! HTTP is spoken on it is its server's affair.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::ServeLimits;
use super::places::{Place, Places};

/// After so much silence a connection is asked whether somebody is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// The router, for one client.
struct Asked<K> {
    router: Router,
    known: K,
    place: Place,
    limit: Option<Duration>,
}

impl<K: Clone + Send + Sync + 'static> Service<Request<Incoming>> for Asked<K> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.known.clone());
        let asked = self.place.asked();
        let coming = (!request.body().is_end_stream()).then(|| self.place.coming());
        let request = request.map(|body| holding(body, coming));
        let answer = self.router.clone().oneshot(request);
        let limit = self.limit;
        async move {
            let answer = match limit {
                None => answer.await?,
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(answer) => answer?,
                    Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
                },
            };
            // A stream is owed until its end; to take an answer of a known length is the client's affair.
            Ok(answer.map(|body| match body.size_hint().exact() {
                Some(_) => body,
                None => holding(body, asked),
            }))
        }
        .boxed()
    }
}

/// A body that holds something as long as somebody has it.
fn holding<B>(body: B, held: impl Send + 'static) -> Body
where
    B: HttpBody<Data = axum::body::Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    Body::new(body.map_err(move |error| {
        let _ = &held;
        error
    }))
}

/// Serves `router` until `token` is cancelled; then accepts no more, lets open requests finish, and cuts what is left
/// after the drain limit. `welcome` makes of each connection one that HTTP is spoken on, or nothing, and tells what is
/// known of its client: an extension of its requests.
pub(crate) async fn serve<I, K, F>(
    listener: TcpListener,
    limits: ServeLimits,
    router: Router,
    welcome: impl Fn(TcpStream, SocketAddr) -> F + Send,
    token: CancellationToken,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    K: Clone + Send + Sync + 'static,
    F: Future<Output = Option<(I, K)>> + Send + 'static,
{
    let places = Places::new(limits.connections.max(1));
    let graceful = GracefulShutdown::new();
    let abort = CancellationToken::new();
    let connections = TaskTracker::new();
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(SILENCE));

    loop {
        let cut = abort.child_token();
        let next = async {
            let (stream, client) = accept(&listener).await?;
            Some((stream, client, places.take(cut.clone()).await))
        };
        let next = tokio::select! {
            biased;
            () = token.cancelled() => break,
            next = next => next,
        };
        let Some((stream, client, place)) = next else {
            continue;
        };
        let welcomed = welcome(stream, client);
        let (http, watcher, router) = (http.clone(), graceful.watcher(), router.clone());
        let work = async move {
            let Some((io, known)) = welcomed.await else {
                return;
            };
            let service = Asked {
                router,
                known,
                place,
                limit: limits.request,
            };
            let connection = http
                .serve_connection_with_upgrades(TokioIo::new(io), service)
                .into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%error, "connection ended");
            }
        };
        connections.spawn(async move {
            tokio::select! {
                () = work => {}
                () = cut.cancelled() => {}
            }
        });
    }

    drop(listener);
    connections.close();
    let drained = async {
        graceful.shutdown().await;
        connections.wait().await;
    };
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "cutting connections that didn't finish"
        );
        abort.cancel();
        connections.wait().await;
    }
}

/// One connection, or `None` after a failure that concerns only one connection.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok((stream, client)) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "connection keeps Nagle's algorithm");
            }
            // An upgraded connection may be silent for hours: who has vanished must not hold it for ever.
            let keepalive = TcpKeepalive::new().with_time(SILENCE);
            if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
                tracing::debug!(%error, "connection isn't kept alive");
            }
            Some((stream, client))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to accept a connection");
            // Out of file descriptors, most likely: trying again at once would spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
