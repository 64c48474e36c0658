//! Serving an axum router over TLS: accept loop, handshake and header limits, graceful end. What a client has shown of
//! itself goes along with its requests ([`PeerCertificates`]); what that means is the router's affair.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
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
    pub async fn serve(self, router: Router, token: CancellationToken) {
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
                    let handshake = tokio::time::timeout(handshake_limit, acceptor.accept(stream));
                    let tls = match handshake.await {
                        Ok(Ok(tls)) => tls,
                        // Port scans and probes end here: nothing to do for anybody.
                        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
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
mod tests {
    use axum::routing::get;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;

    struct Fixture {
        addr: SocketAddr,
        connector: TlsConnector,
        token: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    async fn serve(router: Router, limits: ServeLimits) -> Fixture {
        serve_by(limits, |server, token| server.serve(router, token)).await
    }

    async fn serve_by<F>(
        limits: ServeLimits,
        serve: impl FnOnce(TlsServer, CancellationToken) -> F,
    ) -> Fixture
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificates = Certificates::new();
        certificates
            .replace(
                pair.cert.pem().as_bytes(),
                pair.signing_key.serialize_pem().as_bytes(),
            )
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let client =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let server = TlsServer::bind("127.0.0.1:0".parse().unwrap(), &certificates, limits)
            .await
            .unwrap();
        let addr = server.local_addr();
        let token = CancellationToken::new();
        let serving = tokio::spawn(serve(server, token.clone()));
        Fixture {
            addr,
            connector: TlsConnector::from(Arc::new(client)),
            token,
            serving,
        }
    }

    impl Fixture {
        async fn request(&self, path: &str) -> TlsStream<TcpStream> {
            let stream = TcpStream::connect(self.addr).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut tls = self.connector.connect(name, stream).await.unwrap();
            let head =
                format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            tls.write_all(head.as_bytes()).await.unwrap();
            tls
        }
    }

    async fn answer(mut tls: TlsStream<TcpStream>) -> String {
        let mut text = String::new();
        // A server that cuts the connection doesn't say goodbye in TLS.
        let _ = tls.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn open_requests_finish_before_the_end() {
        let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (inside, gate) = (entered.clone(), go_on.clone());
        let router = Router::new().route(
            "/slow",
            get(move || async move {
                inside.notify_one();
                gate.notified().await;
                "done"
            }),
        );
        let fixture = serve(router, ServeLimits::default()).await;
        let request = fixture.request("/slow").await;
        entered.notified().await;
        fixture.token.cancel();
        go_on.notify_one();
        assert!(answer(request).await.ends_with("done"));
        fixture.serving.await.unwrap();
        assert!(TcpStream::connect(fixture.addr).await.is_err());
    }

    #[tokio::test]
    async fn who_serves_apart_answers_while_the_runtime_is_busy() {
        let router = Router::new().route("/", get(async || "hello"));
        let apart = |server: TlsServer, token| async move {
            server.serve_apart("apart", 2, router, token).await.unwrap();
        };
        let fixture = serve_by(ServeLimits::default(), apart).await;
        // This test's only thread starts the other one, and then is held up until the answer is there.
        tokio::task::yield_now().await;
        let text = std::thread::scope(|scope| {
            let ask = async {
                let exchange = async { answer(fixture.request("/").await).await };
                tokio::time::timeout(Duration::from_secs(20), exchange).await
            };
            let client = || {
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                runtime.enable_all().build().unwrap().block_on(ask)
            };
            scope.spawn(client).join().unwrap()
        });
        assert!(text.unwrap().ends_with("hello"));
        fixture.token.cancel();
        fixture.serving.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn computations_have_threads_of_their_own() {
        let (free, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        let entered = Arc::new(Notify::new());
        let inside = entered.clone();
        let long = move || async move {
            let compute = move || {
                inside.notify_one();
                // The second one waits for the lock meanwhile.
                let _ = blocked.lock().unwrap().recv();
                "long"
            };
            tokio::task::spawn_blocking(compute).await.unwrap()
        };
        let quick = async || tokio::task::spawn_blocking(|| "quick").await.unwrap();
        let router = Router::new()
            .route("/long", get(long))
            .route("/quick", get(quick))
            .route("/", get(async || "at once"));
        let apart = |server: TlsServer, token| async move {
            let served = server.serve_apart("apart", 2, router, token);
            served.await.unwrap();
        };
        let fixture = serve_by(ServeLimits::default(), apart).await;
        let within = Duration::from_secs(20);
        let ask = async |path: &str| {
            let answered = async { answer(fixture.request(path).await).await };
            tokio::time::timeout(within, answered).await.unwrap()
        };
        let first = fixture.request("/long").await;
        entered.notified().await;
        assert!(ask("/quick").await.ends_with("quick"));
        let second = fixture.request("/long").await;
        entered.notified().await;
        // Both are busy, and a third one has to wait; connections haven't.
        let third = fixture.request("/quick").await;
        assert!(ask("/").await.ends_with("at once"));
        drop(free);
        for (request, want) in [(first, "long"), (second, "long"), (third, "quick")] {
            assert!(answer(request).await.ends_with(want), "{want}");
        }
        fixture.token.cancel();
        fixture.serving.await.unwrap();
    }

    #[tokio::test]
    async fn what_does_not_finish_is_cut() {
        let entered = Arc::new(Notify::new());
        let inside = entered.clone();
        let router = Router::new().route(
            "/stuck",
            get(move || async move {
                inside.notify_one();
                std::future::pending::<()>().await;
            }),
        );
        let limits = ServeLimits {
            drain: Duration::from_millis(50),
            ..ServeLimits::default()
        };
        let fixture = serve(router, limits).await;
        let request = fixture.request("/stuck").await;
        entered.notified().await;
        fixture.token.cancel();
        fixture.serving.await.unwrap();
        assert_eq!(answer(request).await, "");
    }

    /// An authority of that name, and a certificate for clients that it has signed.
    fn authority(name: &str) -> (String, rcgen::Certificate, rcgen::KeyPair) {
        let params = |name: &str| {
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, name);
            params
        };
        let mut ca = params(name);
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = ca.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(ca, key);
        let mut client = params("somebody");
        client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = client.signed_by(&key, &issuer).unwrap();
        (pem, certificate, key)
    }

    #[tokio::test]
    async fn what_a_client_shows_goes_along_if_an_authority_has_signed_it() {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificates = Certificates::new();
        let key = pair.signing_key.serialize_pem();
        certificates
            .replace(pair.cert.pem().as_bytes(), key.as_bytes())
            .unwrap();
        let (ours, known, known_key) = authority("ours");
        let (others, stranger, stranger_key) = authority("others");
        let authorities = ClientAuthorities::new();
        let at = "127.0.0.1:0".parse().unwrap();
        let limits = ServeLimits::default();
        let server = TlsServer::bind_for(at, &certificates, &authorities, limits).await;
        let server = server.unwrap();
        let (addr, token) = (server.local_addr(), CancellationToken::new());
        let judge = authorities.clone();
        let router = Router::new().fallback(async move |request: axum::extract::Request| {
            let peer: &PeerCertificates = request.extensions().get().unwrap();
            format!("{} {}", peer.0.len(), judge.accepts(&peer.0).is_ok())
        });
        let serving = tokio::spawn(server.serve(router, token.clone()));
        let ask = async |shows: Option<(&rcgen::Certificate, &rcgen::KeyPair)>| {
            let mut roots = RootCertStore::empty();
            roots.add(pair.cert.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
            let client = match shows {
                None => client.with_no_client_auth(),
                Some((certificate, key)) => {
                    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
                    let chain = vec![certificate.der().clone()];
                    client.with_client_auth_cert(chain, key.into()).unwrap()
                }
            };
            let connector = TlsConnector::from(Arc::new(client));
            let stream = TcpStream::connect(addr).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut tls = connector.connect(name, stream).await.ok()?;
            let head = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            tls.write_all(head.as_bytes()).await.ok()?;
            let text = answer(tls).await;
            text.lines().last().map(str::to_owned)
        };
        // Nobody's certificates are good before an authority is known; who shows none may come all the same.
        assert_eq!(ask(Some((&known, &known_key))).await, None);
        assert_eq!(ask(None).await.as_deref(), Some("0 false"));
        authorities.replace(ours.as_bytes()).unwrap();
        assert_eq!(
            ask(Some((&known, &known_key))).await.as_deref(),
            Some("1 true")
        );
        assert_eq!(ask(Some((&stranger, &stranger_key))).await, None);
        for bad in [
            "",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
        ] {
            assert!(authorities.replace(bad.as_bytes()).is_err());
        }
        assert_eq!(
            ask(Some((&known, &known_key))).await.as_deref(),
            Some("1 true")
        );
        // What was good isn't any more, on connections that are open, too.
        authorities.replace(others.as_bytes()).unwrap();
        assert!(authorities.accepts(&[known.der().clone()]).is_err());
        assert!(authorities.accepts(&[stranger.der().clone()]).is_ok());
        assert!(authorities.accepts(&[]).is_err());
        token.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_shake_hands_is_dropped_and_blocks_nobody() {
        let router = Router::new().route("/", get(async || "hello"));
        let limits = ServeLimits {
            handshake: Duration::from_secs(1),
            connections: 1,
            ..ServeLimits::default()
        };
        let fixture = serve(router, limits).await;
        let mut silent = TcpStream::connect(fixture.addr).await.unwrap();
        assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(answer(fixture.request("/").await).await.ends_with("hello"));
        fixture.token.cancel();
        fixture.serving.await.unwrap();
    }
}
