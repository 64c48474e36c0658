//! The admin port: `/livez`, `/readyz` and `/metrics` over plain HTTP, and what a process serves there besides.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::ready::Health;
use crate::serve::{ServeLimits, listen, serve};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long open requests may take to finish after the end was asked for. With the time that work may take to drain,
/// this stays below Kubernetes' default terminationGracePeriodSeconds of 30.
const DRAIN: Duration = Duration::from_secs(3);
/// A connection ends after so long in which its client takes in nothing of what was sent.
#[cfg(target_os = "linux")]
const STALLED: Duration = Duration::from_secs(30);

/// Why the admin port isn't served.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The address can't be bound.
    #[error("failed to listen on admin address {addr}: {source}")]
    Bind {
        /// Address as configured.
        addr: SocketAddr,
        /// What is wrong.
        #[source]
        source: std::io::Error,
    },
}

/// A bound admin server that doesn't serve yet.
#[derive(Debug)]
pub struct AdminServer {
    listener: TcpListener,
    addr: SocketAddr,
    router: Router,
}

#[derive(Clone)]
struct Shared {
    health: Health,
    registry: Arc<Registry>,
}

impl AdminServer {
    /// Binds `addr`, of which `[::]` is all addresses, of IPv4 too, and logs the address really bound, which matters if
    /// its port is 0.
    pub async fn bind(
        addr: SocketAddr,
        health: Health,
        registry: Arc<Registry>,
    ) -> Result<Self, AdminError> {
        let wrap = |source| AdminError::Bind { addr, source };
        let listener = listen(addr).await.map_err(wrap)?;
        let addr = listener.local_addr().map_err(wrap)?;
        tracing::info!(%addr, "admin server listens");
        Ok(Self {
            listener,
            addr,
            router: router(health, registry),
        })
    }

    /// Serves these routes, too. They are told who asks, by axum's `ConnectInfo`.
    #[must_use]
    pub fn with(mut self, routes: Router) -> Self {
        self.router = self.router.merge(routes);
        self
    }

    /// The address really bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `token` is cancelled, then finishes open requests, and waits no longer than some seconds for those
    /// whose clients don't read. Cancel it last, so that the probes see the process drain.
    pub fn serve(self, token: CancellationToken) -> BoxFuture<'static, Result<(), Infallible>> {
        let limits = ServeLimits {
            drain: DRAIN,
            ..ServeLimits::default()
        };
        let welcome = |stream: TcpStream, client| {
            end_if_stalled(&stream);
            ready(Some((stream, ConnectInfo::<SocketAddr>(client))))
        };
        let served = serve(self.listener, limits, self.router, welcome, token);
        served.map(Ok).boxed()
    }
}

/// An answer without an end may not be looked at again while its client doesn't read, so that only the kernel can tell.
#[cfg(target_os = "linux")]
fn end_if_stalled(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    if let Err(error) = socket.set_tcp_user_timeout(Some(STALLED)) {
        tracing::debug!(%error, "a connection may stall");
    }
}

#[cfg(not(target_os = "linux"))]
fn end_if_stalled(_: &TcpStream) {}

/// The admin routes, without a port.
pub fn router(health: Health, registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        // The older name, which many a probe still asks.
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Shared { health, registry })
}

async fn livez(State(shared): State<Shared>) -> Response {
    let ailing = shared.health.ailing();
    if ailing.is_empty() {
        return "ok\n".into_response();
    }
    let mut text = String::from("not alive:\n");
    for (name, error) in ailing {
        // Writing into a String can't fail.
        let _ = writeln!(text, "- {name}: {error}");
    }
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let missing = shared.health.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let text = format!("not ready, waiting for:\n- {}\n", missing.join("\n- "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to encode metrics");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed to encode metrics\n",
            )
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tower::ServiceExt;

    use super::*;
    use crate::metrics;
    use crate::serve::own_addresses;

    async fn fetch(router: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_lists_what_is_missing() {
        let health = Health::new();
        let gate = health.gate("nodes listed");
        let router = router(health.clone(), Arc::new(Registry::default()));
        let (status, text) = fetch(&router, "/readyz").await;
        assert_eq!(
            (status, text.contains("- nodes listed\n")),
            (503, true),
            "{text}"
        );
        gate.release();
        assert_eq!(fetch(&router, "/readyz").await, (200, "ok\n".to_owned()));
        health.drain();
        assert_eq!(fetch(&router, "/readyz").await.0, 503);
    }

    #[tokio::test]
    async fn livez_tells_which_check_fails() {
        let health = Health::new();
        let router = router(health.clone(), Arc::new(Registry::default()));
        for path in ["/livez", "/healthz"] {
            assert_eq!(fetch(&router, path).await.0, 200);
        }
        health.check("loop", || Err("stuck".to_owned()));
        let (status, text) = fetch(&router, "/livez").await;
        assert_eq!(
            (status, text.contains("- loop: stuck\n")),
            (503, true),
            "{text}"
        );
    }

    #[tokio::test]
    async fn metrics_are_served_over_a_real_port_until_the_end() {
        let registry = Arc::new(metrics::root("test"));
        let addr = "127.0.0.1:0".parse().unwrap();
        let server = AdminServer::bind(addr, Health::new(), registry.clone())
            .await
            .unwrap();
        assert_ne!(server.local_addr().port(), 0);
        let (_, text) = fetch(&router(Health::new(), registry), "/metrics").await;
        assert!(text.contains("pilotage_build_info{"), "{text}");
        assert!(text.contains("process_resident_memory_bytes"), "{text}");

        let token = CancellationToken::new();
        let serving = tokio::spawn(server.serve(token.clone()));
        token.cancel();
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn probes_may_come_by_either_family() {
        let addr = "[::]:0".parse().unwrap();
        let registry = Arc::new(Registry::default());
        let server = AdminServer::bind(addr, Health::new(), registry).await;
        let server = server.unwrap();
        let port = server.local_addr().port();
        let token = CancellationToken::new();
        let serving = tokio::spawn(server.serve(token.clone()));
        for ip in own_addresses() {
            let mut client = TcpStream::connect((ip, port)).await.unwrap();
            let ask = b"GET /livez HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
            client.write_all(ask).await.unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with("HTTP/1.1 200"), "{ip}: {text}");
        }
        token.cancel();
        serving.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_does_not_keep_the_port_open() {
        let endless = || async {
            let parts =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![0_u8; 1 << 16]));
            Body::from_stream(parts)
        };
        let routes = Router::new().route("/endless", get(endless));
        let addr = "127.0.0.1:0".parse().unwrap();
        let registry = Arc::new(Registry::default());
        let server = AdminServer::bind(addr, Health::new(), registry).await;
        let server = server.unwrap().with(routes);
        let addr = server.local_addr();
        let token = CancellationToken::new();
        let serving = tokio::spawn(server.serve(token.clone()));
        let mut client = TcpStream::connect(addr).await.unwrap();
        let ask = b"GET /endless HTTP/1.1\r\nHost: here\r\n\r\n";
        client.write_all(ask).await.unwrap();
        let mut head = [0; 12];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let asked = tokio::time::Instant::now();
        token.cancel();
        serving.await.unwrap().unwrap();
        assert_eq!(asked.elapsed().as_secs(), DRAIN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_what_for_is_let_go() {
        let addr = "127.0.0.1:0".parse().unwrap();
        let registry = Arc::new(Registry::default());
        let server = AdminServer::bind(addr, Health::new(), registry).await;
        let server = server.unwrap();
        let addr = server.local_addr();
        let token = CancellationToken::new();
        let serving = tokio::spawn(server.serve(token.clone()));
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        let mut text = String::new();
        let read = client.read_to_string(&mut text);
        let read = tokio::time::timeout(Duration::from_mins(1), read).await;
        assert_eq!(read.unwrap().unwrap(), 0);
        token.cancel();
        serving.await.unwrap().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_that_stalls_is_the_kernels_to_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
        let stream = stream.unwrap();
        end_if_stalled(&stream);
        let socket = socket2::SockRef::from(&stream);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(STALLED));
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let holder = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = holder.local_addr().unwrap();
        let error = AdminServer::bind(addr, Health::new(), Arc::new(Registry::default()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }
}
