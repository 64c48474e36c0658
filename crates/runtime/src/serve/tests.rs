use axum::body::Bytes;
use axum::extract::Request;
use axum::routing::{get, post};
use futures::StreamExt;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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
    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await.unwrap()
    }

    async fn request(&self, path: &str) -> TlsStream<TcpStream> {
        let mut tls = self.connect().await;
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        tls.write_all(head.as_bytes()).await.unwrap();
        tls
    }

    /// A request that stops in its body, of which three bytes are left.
    async fn request_in_part(&self, path: &str) -> TlsStream<TcpStream> {
        let mut tls = self.connect().await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        let text = format!("{head}content-length: 6\r\n\r\nthe");
        tls.write_all(text.as_bytes()).await.unwrap();
        tls
    }
}

/// Reads bodies under `/body`, having told that it begins to.
fn reader(begun: Arc<Notify>) -> Router {
    let read = async move |request: Request| {
        begun.notify_one();
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
        body.unwrap_or_else(|error| Bytes::from(error.to_string()))
    };
    Router::new()
        .route("/body", post(read))
        .route("/", get(async || "hello"))
}

/// For a client that would wait for ever if somebody else were waited for.
async fn in_time<T>(wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
    waited.unwrap()
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
async fn clients_may_come_by_either_family() {
    let (at, limits) = ("[::]:0".parse().unwrap(), ServeLimits::default());
    let server = TlsServer::bind(at, &Certificates::new(), limits).await;
    let server = server.unwrap();
    for ip in own_addresses() {
        let client = TcpStream::connect((ip, server.local_addr().port())).await;
        assert!(client.is_ok(), "{ip}: {client:?}");
    }
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
async fn who_stops_in_a_body_keeps_nobody_out() {
    let begun = Arc::new(Notify::new());
    let limits = ServeLimits {
        connections: 2,
        ..ServeLimits::default()
    };
    let fixture = serve(reader(begun.clone()), limits).await;
    let first = fixture.request_in_part("/body").await;
    in_time(begun.notified()).await;
    let mut second = fixture.request_in_part("/body").await;
    in_time(begun.notified()).await;
    let third = async { answer(fixture.request("/").await).await };
    assert!(in_time(third).await.ends_with("hello"));
    // The place is the first one's, and nobody else's.
    assert_eq!(in_time(answer(first)).await, "");
    second.write_all(b"end").await.unwrap();
    assert!(in_time(answer(second)).await.ends_with("theend"));
    fixture.token.cancel();
    fixture.serving.await.unwrap();
}

#[tokio::test]
async fn who_is_quiet_keeps_nobody_out() {
    let limits = ServeLimits {
        handshake: Duration::from_mins(1),
        connections: 1,
        ..ServeLimits::default()
    };
    let fixture = serve(reader(Arc::default()), limits).await;
    let next_is_answered = async || {
        let next = async { answer(fixture.request("/").await).await };
        assert!(in_time(next).await.ends_with("hello"));
    };
    let _says_nothing = TcpStream::connect(fixture.addr).await.unwrap();
    next_is_answered().await;
    let _asks_nothing = fixture.connect().await;
    next_is_answered().await;
    // An HTTP/2 connection that is open, and would live on by its answers to pings.
    let mut second_version = fixture.connect().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    second_version.write_all(preface).await.unwrap();
    let settings = in_time(second_version.read_exact(&mut [0; 9])).await;
    settings.unwrap();
    next_is_answered().await;
    fixture.token.cancel();
    fixture.serving.await.unwrap();
}

#[tokio::test]
async fn who_waits_for_an_answer_or_for_more_of_it_stays() {
    let (entered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (inside, gate) = (entered.clone(), go_on.clone());
    let part = move || {
        let (inside, gate) = (inside.clone(), gate.clone());
        async move {
            inside.notify_one();
            gate.notified().await;
            Ok::<_, std::convert::Infallible>("part ")
        }
    };
    let slow = async move || {
        let first = part().await;
        let parts = futures::stream::iter([first]).chain(futures::stream::once(part()));
        axum::body::Body::from_stream(parts)
    };
    let router = reader(Arc::default()).route("/slow", get(slow));
    let limits = ServeLimits {
        connections: 2,
        ..ServeLimits::default()
    };
    let fixture = serve(router, limits).await;
    let slow = fixture.request("/slow").await;
    // Others have to leave for each other instead: while the answer is waited for, and then while the rest of it is.
    for _ in 0..2 {
        in_time(entered.notified()).await;
        let _quiet = fixture.connect().await;
        let next = async { answer(fixture.request("/").await).await };
        assert!(in_time(next).await.ends_with("hello"));
        go_on.notify_one();
    }
    let slow = in_time(answer(slow)).await;
    assert_eq!(slow.matches("part ").count(), 2, "{slow}");
    fixture.token.cancel();
    fixture.serving.await.unwrap();
}

#[tokio::test]
async fn a_request_that_comes_too_slowly_ends() {
    let limits = ServeLimits {
        request: Some(Duration::from_millis(100)),
        ..ServeLimits::default()
    };
    let fixture = serve(reader(Arc::default()), limits).await;
    let slow = fixture.request_in_part("/body").await;
    let text = in_time(answer(slow)).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    fixture.token.cancel();
    fixture.serving.await.unwrap();
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
