//! A server in front of an API server that plays the streams of its pods (logs, and upgraded connections) byte by byte,
//! true or not. Whatever else is asked goes on to the API server, or to a fault proxy in front of it.
//!
//! Who wants a stream opens a connection for it, so that the first request of a connection says what it is for.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use rustls_pki_types::ServerName;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional, sink, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault::Connectors;
use crate::plane::ControlPlane;
use crate::tls::{self, HTTP1, HTTP2};

/// Bytes of a request's head.
const HEAD_LIMIT: usize = 64 * 1024;
/// Version of the protocol within upgraded connections: whatever, as nobody speaks it here.
const STREAM_VERSION: &str = "x-stream-protocol-version";

/// A server of streams can't do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port to listen on.
    #[error("can't listen")]
    Listen(#[source] io::Error),
    /// No TLS.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A stream was refused.
    #[error("no stream: {0}")]
    Refused(StatusCode),
    /// A stream can't be asked for.
    #[error("can't ask for a stream")]
    Ask(#[source] Box<kube::Error>),
    /// A connection that was to be upgraded broke.
    #[error("an upgrade came to nothing")]
    Upgrade(#[from] hyper::Error),
}

/// What a stream is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Subresource of the pod: `log`, `exec`, `attach`, `portforward`.
    pub action: String,
    /// Its parameters.
    pub query: String,
    /// The protocol to upgrade to, or nothing.
    pub protocol: String,
}

/// A part of an answer, head included. The connection is closed after the last one.
#[derive(Debug, Clone)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// These, so many times.
    Times(u64, Bytes),
    /// These at each tick, until the client goes.
    Every(Duration, Bytes),
    /// Nothing, until the client goes.
    Silence,
}

impl Piece {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bytes(text.into().into())
    }

    /// The head of a body in chunks.
    pub fn body() -> Self {
        Self::text(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
    }

    /// The end of one.
    pub fn end() -> Self {
        Self::text("0\r\n\r\n")
    }

    /// The head that agrees to an upgrade.
    pub fn switching(protocol: &str) -> Self {
        Self::text(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             {STREAM_VERSION}: v4.channel.k8s.io\r\n\r\n"
        ))
    }
}

/// One chunk of a body.
pub fn chunk(data: &[u8]) -> Bytes {
    let head = format!("{:x}\r\n", data.len());
    [head.as_bytes(), data, b"\r\n"].concat().into()
}

type Script = Arc<dyn Fn(&Asked) -> Option<Vec<Piece>> + Send + Sync>;

/// A running server. Dropping it closes everything.
pub struct StreamServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

struct Shared {
    acceptor: TlsAcceptor,
    connectors: Connectors,
    upstream: SocketAddr,
    script: Mutex<Script>,
    /// Streams that are being played.
    playing: TaskTracker,
    sent: AtomicU64,
}

impl StreamServer {
    /// Starts one in front of a plane's API server at `upstream`, with a certificate of the plane's own CA. All streams
    /// are the API server's own.
    pub async fn start(plane: &ControlPlane, upstream: SocketAddr) -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let script: Script = Arc::new(|_| None);
        let shared = Arc::new(Shared {
            acceptor: tls::acceptor(plane.authority(), "streams", &[HTTP2, HTTP1])?,
            connectors: Connectors::new(plane.authority())?,
            upstream,
            script: Mutex::new(script),
            playing: TaskTracker::new(),
            sent: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        tokio::spawn(listen(listener, Arc::clone(&shared), stop.clone()));
        Ok(Self {
            address,
            shared,
            stop,
        })
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on streams for which there is a script are played; the others are the API server's own.
    pub fn play(&self, script: impl Fn(&Asked) -> Option<Vec<Piece>> + Send + Sync + 'static) {
        let known = self.shared.script.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// Streams that are being played, and whose client is there.
    pub fn playing(&self) -> usize {
        self.shared.playing.len()
    }

    /// Bytes of streams that clients have taken, or that are on their way.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for StreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    let shared = Arc::clone(&shared);
                    let serving = async move {
                        if let Err(error) = serve(client, &shared).await {
                            tracing::debug!(%error, "a connection to the server of streams ended");
                        }
                    };
                    tokio::spawn(stop.clone().run_until_cancelled_owned(serving));
                }
                Err(error) => {
                    tracing::debug!(%error, "the server of streams failed to take a connection");
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
}

async fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = shared.acceptor.accept(client).await?;
    let is_http2 = client.get_ref().1.alpn_protocol() == Some(HTTP2);
    let mut head = Vec::new();
    if !is_http2 {
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_LIMIT {
            if client.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let pieces = asked(&head).and_then(|asked| shared.pieces(&asked));
        if let Some(pieces) = pieces {
            let _token = shared.playing.token();
            return shared.perform(client, pieces).await;
        }
    }
    let server = TcpStream::connect(shared.upstream).await?;
    server.set_nodelay(true)?;
    let name = ServerName::IpAddress(shared.upstream.ip().into());
    let connector = shared.connectors.of(is_http2);
    let mut server = connector.connect(name, server).await?;
    server.write_all(&head).await?;
    server.flush().await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// What a request's head asks for, if that is a stream of a pod.
fn asked(head: &[u8]) -> Option<Asked> {
    let head = str::from_utf8(head).ok()?;
    let (line, headers) = head.split_once("\r\n")?;
    let target = line.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (pod, action) = path.rsplit_once('/')?;
    let is_stream = matches!(action, "log" | "exec" | "attach" | "portforward");
    (is_stream && pod.contains("/pods/")).then_some(())?;
    let protocol = headers.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(UPGRADE.as_str())
            .then(|| value.trim().to_owned())
    });
    Some(Asked {
        action: action.to_owned(),
        query: query.to_owned(),
        protocol: protocol.unwrap_or_default(),
    })
}

impl Shared {
    fn pieces(&self, asked: &Asked) -> Option<Vec<Piece>> {
        let script = self.script.lock();
        let script = Arc::clone(&script.unwrap_or_else(PoisonError::into_inner));
        script(asked)
    }

    /// Plays until the last piece, or until the client goes.
    async fn perform(
        &self,
        client: impl AsyncRead + AsyncWrite,
        pieces: Vec<Piece>,
    ) -> io::Result<()> {
        let (mut from, mut to) = split(client);
        let playing = async {
            for piece in pieces {
                match piece {
                    Piece::Bytes(bytes) => self.send(&mut to, &bytes).await?,
                    Piece::Times(times, bytes) => {
                        for _ in 0..times {
                            self.send(&mut to, &bytes).await?;
                        }
                    }
                    Piece::Every(period, bytes) => loop {
                        self.send(&mut to, &bytes).await?;
                        sleep(period).await;
                    },
                    Piece::Silence => std::future::pending().await,
                }
            }
            to.shutdown().await
        };
        let mut nowhere = sink();
        tokio::select! {
            played = playing => played,
            gone = copy(&mut from, &mut nowhere) => gone.map(drop),
        }
    }

    async fn send(&self, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
        to.write_all(bytes).await?;
        to.flush().await?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Asks an API server for an upgraded connection, as a client that speaks SPDY does; nobody has spoken on it yet.
pub async fn upgraded(client: &Client, path: &str) -> Result<TokioIo<Upgraded>, Error> {
    let request = Request::get(path)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "SPDY/3.1")
        .header(STREAM_VERSION, "v4.channel.k8s.io")
        .body(Body::empty())
        .map_err(|error| Error::Ask(Box::new(kube::Error::HttpError(error))))?;
    let answer = client.send(request).await;
    let answer = answer.map_err(|error| Error::Ask(Box::new(error)))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::Refused(answer.status()));
    }
    Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_known_by_its_path() {
        let read = |line: &str| {
            asked(format!("{line} HTTP/1.1\r\nHost: x\r\nupgrade: SPDY/3.1\r\n\r\n").as_bytes())
        };
        let exec = read("GET /api/v1/namespaces/n/pods/p/exec?command=ls").unwrap();
        let of = |asked: &Asked| [&asked.action, &asked.query, &asked.protocol].map(Clone::clone);
        assert_eq!(of(&exec), ["exec", "command=ls", "SPDY/3.1"]);
        let log = read("GET /api/v1/namespaces/n/pods/p/log").unwrap();
        assert_eq!(of(&log), ["log", "", "SPDY/3.1"]);
        for line in [
            "GET /api/v1/namespaces/n/pods/p",
            "GET /api/v1/namespaces/n/pods?watch=1",
            "POST /api/v1/namespaces/n/pods/p/binding",
            "GET /apis/x/v1/namespaces/n/logs/log",
            "nonsense",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn chunks_say_how_long_they_are() {
        assert_eq!(
            chunk(&[b'x'; 17]),
            [b"11\r\n", &[b'x'; 17][..], b"\r\n"].concat()
        );
    }
}
