//! Serving an axum router over TLS, within limits that no client can stretch. What a client has shown of itself goes
//! along with its requests ([`PeerCertificates`]); what that means is the router's affair.

mod connections;
mod listen;
mod places;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub(crate) use self::connections::serve;
pub(crate) use self::listen::listen;
#[cfg(test)]
pub(crate) use self::listen::own_addresses;
use crate::tls::{CertificateDer, Certificates, ClientAuthorities, TlsError};

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// For a TLS handshake.
    pub handshake: Duration,
    /// For the headers of a request by HTTP/1.
    pub headers: Duration,
    /// For the body of a request and what is done before its answer begins, unless the router has limits of its own.
    pub request: Option<Duration>,
    /// For open requests to finish after the end was asked for.
    pub drain: Duration,
    /// Connections open at once. When one more comes, the one that was heard longest ago is cut, of those on which no
    /// answer is owed; while one is owed on each, who comes waits.
    pub connections: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(15),
            request: Some(Duration::from_secs(15)),
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
    /// Binds `addr`, of which `[::]` is all addresses, of IPv4 too. Handshakes use what `certificates` hold at that
    /// moment.
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
        let listener = listen(addr).await.map_err(wrap)?;
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
        let Self {
            listener,
            acceptor: TlsAcceptorConfig(acceptor),
            limits,
            ..
        } = self;
        let welcome = move |stream, _| {
            let handshake = tokio::time::timeout(limits.handshake, acceptor.accept(stream));
            async move {
                match handshake.await {
                    Ok(Ok(tls)) => {
                        let shown = tls.get_ref().1.peer_certificates().unwrap_or_default();
                        let peer = PeerCertificates(shown.into());
                        return Some((tls, peer));
                    }
                    // Port scans and probes end here: nothing to do for anybody.
                    Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => tracing::debug!("TLS handshake took too long"),
                }
                None
            }
        };
        serve(listener, limits, router, welcome, token).boxed()
    }
}

#[cfg(test)]
mod tests;
