//! Serving an axum router over TLS: accept loop, handshake and header limits, graceful end. What a client has shown of
//! itself goes along with its requests ([`PeerCertificates`]); what that means is the router's affair.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::tls::{CertificateDer, Certificates, ClientAuthorities, TlsError};

/// After so much silence a connection is asked whether somebody is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// For a TLS handshake.
    pub handshake: Duration,
    /// For the headers of a request.
    pub headers: Duration,
    /// For open requests to finish after the end was asked for.
    pub drain: Duration,
    /// Connections open at once; further ones wait in the kernel's queue.
    pub connections: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(15),
            drain: Duration::from_secs(20),
            connections: 1024,
        }
    }
}

/// Why a server can't start or go on.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address can't be bound.
    #[error("failed to listen on {addr}: {source}")]
    Bind {
        /// Address as configured.
        addr: SocketAddr,
        /// What is wrong.
        #[source]
        source: std::io::Error,
    },
    /// TLS can't be configured.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread of its own can't be had.
    #[error("failed to start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The thread panicked.
    #[error("the server's thread panicked")]
    Panicked,
}

/// The certificates that the client of a connection has shown, its own first: an extension of each request. Empty if it
/// showed none; those of a server that asks for none are always empty.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// The router, for one client.
struct OfPeer {
    router: TowerToHyperService<Router>,
    peer: PeerCertificates,
}

impl Service<Request<Incoming>> for OfPeer {
    type Response = Response;
    type Error = Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        self.router.call(request)
    }
}

/// A bound TLS server that doesn't serve yet.
#[derive(Debug)]
pub struct TlsServer {
    listener: TcpListener,
    addr: SocketAddr,
    acceptor: TlsAcceptorConfig,
    limits: ServeLimits,
}

/// `TlsAcceptor` has no `Debug`.
struct TlsAcceptorConfig(TlsAcceptor);

impl std::fmt::Debug for TlsAcceptorConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl TlsServer {
    /// Binds `addr`. Handshakes use what `certificates` hold at that moment.
    pub async fn bind(
        addr: SocketAddr,
        certificates: &Certificates,
        limits: ServeLimits,
    ) -> Result<Self, ServeError> {
        Self::bind_with(addr, certificates.server_config()?, limits).await
    }

    /// The same, for clients that may show certificates of these authorities, and need not.
    pub async fn bind_for(
        addr: SocketAddr,
        certificates: &Certificates,
        authorities: &ClientAuthorities,
        limits: ServeLimits,
    ) -> Result<Self, ServeError> {
        Self::bind_with(addr, certificates.server_config_for(authorities)?, limits).await
    }

    async fn bind_with(
        addr: SocketAddr,
        config: ServerConfig,
        limits: ServeLimits,
    ) -> Result<Self, ServeError> {
        let wrap = |source| ServeError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(wrap)?;
        let addr = listener.local_addr().map_err(wrap)?;
        let acceptor = TlsAcceptorConfig(TlsAcceptor::from(Arc::new(config)));
        tracing::info!(%addr, "TLS server listens");
        Ok(Self {
            listener,
            addr,
            acceptor,
            limits,
        })
    }

    /// The address really bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// [`Self::serve`] on a thread of its own, for answers that somebody waits for: whatever else this process is busy
    /// with, they come. What takes long to compute has so many other threads, by [`tokio::task::spawn_blocking`], lest
    /// connections wait for it.
    pub async fn serve_apart(
        self,
        name: &str,
        threads: usize,
        router: Router,
        token: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self {
            listener,
            addr,
            acceptor,
            limits,
        } = self;
        let listener = listener.into_std().map_err(ServeError::Thread)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(threads.max(1))
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(ServeError::Thread)?;
        let (ended, end) = oneshot::channel();
        let serve = move || {
            let outcome = runtime.block_on(async {
                let listener = TcpListener::from_std(listener).map_err(ServeError::Thread)?;
                let server = Self {
                    listener,
                    addr,
                    acceptor,
                    limits,
                };
                server.serve(router, token).await;
                Ok(())
            });
            let _ = ended.send(outcome);
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(serve).map_err(ServeError::Thread)?;
        end.await.unwrap_or(Err(ServeError::Panicked))
    }

    /// Serves `router` until `token` is cancelled; then accepts no more, lets open requests finish,
    /// and cuts what is left after the drain limit. HTTP/1.1 upgrades work, but an upgraded
    /// connection isn't waited for: whoever takes it over tracks it.
    pub fn serve(self, router: Router, token: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            let slots = Arc::new(Semaphore::new(self.limits.connections));
            let graceful = GracefulShutdown::new();
            let abort = CancellationToken::new();
            let connections = TaskTracker::new();
            let mut http = auto::Builder::new(TokioExecutor::new());
            http.http1()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.headers);
            http.http2()
                .timer(TokioTimer::new())
                .keep_alive_interval(Some(Duration::from_secs(30)));

            loop {
                let accepted = tokio::select! {
                    biased;
                    () = token.cancelled() => break,
                    accepted = accept(&self.listener, &slots) => accepted,
                };
                let Some((stream, slot)) = accepted else {
                    continue;
                };
                let acceptor = self.acceptor.0.clone();
                let handshake_limit = self.limits.handshake;
                let router = TowerToHyperService::new(router.clone());
                let (http, watcher, abort) = (http.clone(), graceful.watcher(), abort.clone());
                connections.spawn(async move {
                    let _slot = slot;
                    let work = async move {
                        let handshake =
                            tokio::time::timeout(handshake_limit, acceptor.accept(stream));
                        let tls = match handshake.await {
                            Ok(Ok(tls)) => tls,
                            // Port scans and probes end here: nothing to do for anybody.
                            Ok(Err(error)) => {
                                return tracing::debug!(%error, "TLS handshake failed");
                            }
                            Err(_) => return tracing::debug!("TLS handshake took too long"),
                        };
                        let shown = tls.get_ref().1.peer_certificates().unwrap_or_default();
                        let peer = PeerCertificates(shown.into());
                        let service = OfPeer { router, peer };
                        let connection = http
                            .serve_connection_with_upgrades(TokioIo::new(tls), service)
                            .into_owned();
                        if let Err(error) = watcher.watch(connection).await {
                            tracing::debug!(%error, "connection ended");
                        }
                    };
                    tokio::select! {
                        () = work => {}
                        () = abort.cancelled() => {}
                    }
                });
            }

            drop(self.listener);
            connections.close();
            let drained = async {
                graceful.shutdown().await;
                connections.wait().await;
            };
            if tokio::time::timeout(self.limits.drain, drained)
                .await
                .is_err()
            {
                tracing::warn!(
                    open = connections.len(),
                    "cutting connections that didn't finish"
                );
                abort.cancel();
                connections.wait().await;
            }
        }
        .boxed()
    }
}

/// One connection with its slot, or `None` after a failure that concerns only one connection.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "connection keeps Nagle's algorithm");
            }
            // An upgraded connection may be silent for hours: who has vanished must not hold it for ever.
            let keepalive = TcpKeepalive::new().with_time(SILENCE);
            if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
                tracing::debug!(%error, "connection isn't kept alive");
            }
            Some((stream, slot))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to accept a connection");
            // Out of file descriptors, most likely: trying again at once would spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

#[cfg(test)]
mod tests;
