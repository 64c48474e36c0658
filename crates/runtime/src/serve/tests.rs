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
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
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
