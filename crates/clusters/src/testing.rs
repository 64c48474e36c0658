//! A server for tests that answers what it is told to, byte by byte, right or wrong.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::{Client, Config};
use pilotage_api::{self as api, KubeconfigSecret, TargetSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as cell;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::allow::Allowed;
use crate::budget::Budget;
use crate::door;
use crate::key::TargetObject;
use crate::session::Session;
use crate::target::Target;

/// A Target `ns/far`, by a Secret of that name, that nobody supervises.
pub(crate) fn target() -> Arc<Target> {
    target_of(Budget::default())
}

/// The same, with this budget.
pub(crate) fn target_of(budget: Budget) -> Arc<Target> {
    let secret = KubeconfigSecret {
        name: "far".into(),
        ..KubeconfigSecret::default()
    };
    let spec = TargetSpec {
        kubeconfig_secret: Some(secret),
        ..TargetSpec::default()
    };
    let mut object = api::Target::new("far", spec);
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some("u".into());
    let object = TargetObject::from_target(&object).unwrap();
    let kubeconfigs = Arc::new(cell::Sender::new(0));
    let removed = CancellationToken::new();
    let seat = Some(true);
    Arc::new(Target::new(object, budget, seat, removed, kubeconfigs))
}

/// What comes back, piece by piece; the connection is closed after the last one.
pub(crate) type Answer = Vec<Piece>;

#[derive(Clone)]
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The same bytes again and again, until the client has enough.
    Endless(Vec<u8>),
    /// One byte a second, as long as the client wants.
    Trickle(u8),
    /// Nothing, for ever.
    Silence,
}

/// A head and a body that ends with the connection.
pub(crate) fn head(status: &str, content_type: &str) -> Piece {
    let text = format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n\r\n");
    Piece::Bytes(text.into_bytes())
}

/// What an API server answers.
pub(crate) fn json<T: ToString + ?Sized>(body: &T) -> Answer {
    vec![
        head("200 OK", "application/json"),
        Piece::Bytes(body.to_string().into_bytes()),
    ]
}

/// A failure with some text.
pub(crate) fn failure(status: &str, body: &str) -> Answer {
    vec![
        head(status, "text/html"),
        Piece::Bytes(body.to_string().into_bytes()),
    ]
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    sent: Arc<Mutex<usize>>,
    open: TaskTracker,
    _stop: DropGuard,
}

impl Server {
    /// Answers each request (`GET /path?query`), one a connection.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stop = CancellationToken::new();
        let server = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            sent: Arc::default(),
            open: TaskTracker::new(),
            _stop: stop.clone().drop_guard(),
        };
        let (asked, sent, answer) = (server.asked.clone(), server.sent.clone(), Arc::new(answer));
        let open = server.open.clone();
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, sent, answer) = (asked.clone(), sent.clone(), answer.clone());
                open.spawn(async move {
                    serve(stream, &asked, &sent, &*answer).await;
                });
            }
        }));
        server
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Bytes that were taken from it.
    pub(crate) fn sent(&self) -> usize {
        *self.sent.lock().unwrap()
    }

    /// Connections that nobody has closed yet.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Connection settings for it, with a token.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        config.auth_info.token = Some("hunter2".to_owned().into());
        config
    }

    /// A client of it through the door.
    pub(crate) fn client(&self) -> Client {
        self.client_of(&Arc::default())
    }

    /// One whose answers count for this budget.
    pub(crate) fn client_of(&self, budget: &Arc<Budget>) -> Client {
        door::client(self.config(), "test", &Allowed::default(), budget).unwrap()
    }

    /// A client of it as of one's own API server.
    pub(crate) fn own_client(&self) -> Client {
        pilotage_runtime::client::from_config(self.config(), "test").unwrap()
    }

    /// Lets a target be reached here.
    pub(crate) fn is(&self, target: &Target) {
        target.set_session(Some(Session {
            generation: 1,
            client: self.client(),
            streams: None,
            realm: 0,
        }));
    }
}

async fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<String>>,
    sent: &Mutex<usize>,
    answer: &(dyn Fn(&str) -> Answer + Send + Sync),
) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let line = request.lines().next().unwrap_or_default();
    let line = line.trim_end_matches(" HTTP/1.1");
    asked.lock().unwrap().push(line.to_owned());
    for piece in answer(line) {
        loop {
            let bytes = match &piece {
                Piece::Bytes(bytes) | Piece::Endless(bytes) => bytes.clone(),
                Piece::Trickle(byte) => {
                    sleep(Duration::from_secs(1)).await;
                    vec![*byte]
                }
                Piece::Silence => std::future::pending().await,
            };
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            *sent.lock().unwrap() += bytes.len();
            if let Piece::Bytes(_) = piece {
                break;
            }
        }
    }
}
