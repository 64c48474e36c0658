//! The other door: streams of pods (logs, and upgraded connections), which are passed through and never kept.
//!
//! It leads to the same places as the first one, over HTTP/1 with heads of the same bounds, and follows no redirection
//! either. Each stream has a connection of its own, so that a stalled one holds up nobody. What a failing reply says is
//! cut down in the same way. Only the head of an answer has to come in time: a shell may be silent for hours, and who
//! doesn't read isn't sent to. Must not know what the streams are for.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Body as _;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::core::Status;
use kube::{Client, Config};
use pilotage_runtime::call::CallError;
use pilotage_runtime::client::{self, ClientError};
use thiserror::Error;
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};

use super::fault::Fault;
use super::prelude::Prelude;
use super::{BODY_LIMIT, HEAD_BYTES, HEAD_LINES, connect, failure};
use crate::allow::Allowed;
use crate::budget::Budget;

/// Time until the head of an answer is there.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// After so much silence a connection is asked whether somebody is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// So often from then on …
const ASKED_AGAIN: Duration = Duration::from_secs(10);
/// … and so many times, before it is given up.
const ASKED: u32 = 6;

/// A client of this very cluster that takes no silence for a dead connection.
#[derive(Clone)]
pub struct LocalStreams(pub Client);

impl fmt::Debug for LocalStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalStreams")
    }
}

/// The way by which streams of one target's pods come.
#[derive(Clone)]
pub struct Streams {
    client: Client,
    budget: Arc<Budget>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    /// A body.
    Body,
    /// A connection that speaks this protocol from then on.
    Upgrade(&'a str),
}

/// A stream that has begun.
#[derive(Debug)]
pub enum Opened {
    /// A body, of which nothing has been read.
    Body(Body),
    /// Another protocol.
    Upgrade(Upgrade),
}

/// A connection that is about to speak another protocol.
#[derive(Debug)]
pub struct Upgrade {
    /// The head of the answer.
    pub headers: HeaderMap,
    /// The connection itself, as soon as it is there.
    pub connection: hyper::upgrade::OnUpgrade,
}

/// Why there is no stream.
#[derive(Debug, Error)]
pub enum StreamError {
    /// Its API server answers with a failure, of which this is left.
    #[error("it answers {}", said(.0))]
    Refused(Box<Status>),
    /// It says nothing.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// No connection, or one that broke.
    #[error("{0}")]
    Broken(String),
    /// No API server answers like this.
    #[error("what answers there doesn't behave as an API server: {0}")]
    Misbehaving(String),
}

fn said(status: &Status) -> String {
    if status.reason.is_empty() {
        format!("{}: {}", status.code, status.message)
    } else {
        format!("{} ({}): {}", status.code, status.reason, status.message)
    }
}

impl From<Fault> for StreamError {
    fn from(fault: Fault) -> Self {
        Self::Misbehaving(fault.to_string())
    }
}

impl From<kube::Error> for StreamError {
    fn from(error: kube::Error) -> Self {
        match super::offence(&error) {
            Some(offence) => Self::Misbehaving(offence.to_string()),
            None => Self::Broken(CallError::Api(error).message()),
        }
    }
}

impl Streams {
    /// By a client of this very cluster.
    pub(crate) fn local(client: Client, budget: &Arc<Budget>) -> Self {
        let budget = budget.clone();
        Self { client, budget }
    }

    /// To a target. Names of its servers, and words before its answers, count for `budget`; streams don't.
    pub(crate) fn remote(
        config: Config,
        component: &str,
        allowed: &Allowed,
        budget: &Arc<Budget>,
    ) -> Result<Self, ClientError> {
        let config = client::name(config, component)?;
        let build = |source| ClientError::Build {
            server: config.cluster_url.to_string(),
            source,
        };
        let mut tcp = connect::tcp(allowed.clone(), budget.names().clone());
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(ASKED_AGAIN));
        tcp.set_keepalive_retries(Some(ASKED));
        tcp.set_nodelay(true);
        let connector = config
            .rustls_https_connector_with_connector(tcp)
            .map_err(build)?;
        let http = legacy::Client::builder(TokioExecutor::new())
            .http1_max_buf_size(HEAD_BYTES)
            .http1_max_headers(HEAD_LINES)
            .pool_max_idle_per_host(0)
            .build::<_, Body>(connect::Hasty(connector));
        let stack = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer().map_err(build)?)
            .layer(config.extra_headers_layer().map_err(build)?)
            .map_err(BoxError::from)
            .service(http);
        let client = Client::new(stack, config.default_namespace.clone());
        Ok(Self::local(client, budget))
    }

    /// Asks for a stream: of the target's answers only the one that was wanted is let in.
    pub async fn open(&self, request: Request<()>, want: Want<'_>) -> Result<Opened, StreamError> {
        self.open_within(HEAD_LIMIT, request, want).await
    }

    async fn open_within(
        &self,
        limit: Duration,
        request: Request<()>,
        want: Want<'_>,
    ) -> Result<Opened, StreamError> {
        let mut request = request.map(|()| Body::empty());
        let prelude = Prelude::of(&mut request, &self.budget);
        let answer = prelude.before(self.client.send(request));
        let answer = timeout(limit, answer).await;
        let answer = answer.map_err(|_| StreamError::Silent(limit))???;
        admit(answer, want).await
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams")
    }
}

async fn admit(answer: Response<Body>, want: Want<'_>) -> Result<Opened, StreamError> {
    let status = answer.status();
    if status.is_client_error() || status.is_server_error() {
        // Whatever becomes of the text: that it failed is said.
        let text = timeout(BODY_LIMIT, text(answer.into_body())).await;
        let tidied = failure::tidy(status, &text.unwrap_or_default());
        let left = serde_json::from_slice(&tidied).unwrap_or_default();
        return Err(StreamError::Refused(left));
    }
    match (status, want) {
        (StatusCode::OK, Want::Body) => Ok(Opened::Body(answer.into_body())),
        (StatusCode::SWITCHING_PROTOCOLS, Want::Upgrade(protocol))
            if is(answer.headers(), &UPGRADE, protocol) =>
        {
            let headers = answer.headers().clone();
            let connection = hyper::upgrade::on(answer);
            Ok(Opened::Upgrade(Upgrade {
                headers,
                connection,
            }))
        }
        _ if status.is_redirection() => Err(Fault::Redirect(status.as_u16()).into()),
        _ => Err(Fault::Strange(status.as_u16()).into()),
    }
}

fn is(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    let said = headers.get(name).map(HeaderValue::as_bytes);
    said.is_some_and(|said| said.eq_ignore_ascii_case(value.as_bytes()))
}

/// The text of a failing reply, as far as anybody reads it.
async fn text(mut body: Body) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.into_data() else { break };
        let room = failure::BYTES.saturating_sub(text.len());
        text.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
        if data.len() >= room {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use serde_json::json;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::testing::{Answer, Piece, Server, failure, head};

    fn bytes(text: &str) -> Piece {
        Piece::Bytes(text.as_bytes().to_vec())
    }

    fn way(server: &Server, allowed: &Allowed) -> Streams {
        Streams::remote(server.config(), "test", allowed, &Arc::default()).unwrap()
    }

    async fn ask(answer: Answer, want: Want<'_>) -> Result<Opened, StreamError> {
        let server = Server::start(move |_| answer.clone()).await;
        let request = Request::get("/log").body(()).unwrap();
        way(&server, &Allowed::default()).open(request, want).await
    }

    fn upgraded(protocol: &str) -> Answer {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
        );
        vec![bytes(&head), bytes("hello"), Piece::Silence]
    }

    #[tokio::test]
    async fn a_body_of_any_kind_is_passed_on() {
        let answer = vec![head("200 OK", "text/plain"), bytes("one\ntwo\n")];
        let Opened::Body(body) = ask(answer, Want::Body).await.unwrap() else {
            panic!("a body was asked for");
        };
        assert_eq!(text(body).await, b"one\ntwo\n");
    }

    #[tokio::test]
    async fn an_upgraded_connection_is_handed_over_with_its_head() {
        let opened = ask(upgraded("spdy/3.1"), Want::Upgrade("SPDY/3.1")).await;
        let Opened::Upgrade(upgrade) = opened.unwrap() else {
            panic!("an upgrade was asked for");
        };
        let version = upgrade.headers.get("x-stream-protocol-version");
        assert_eq!(version.unwrap(), "v4.channel.k8s.io");
        let mut connection = TokioIo::new(upgrade.connection.await.unwrap());
        let mut said = [0; 5];
        connection.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
    }

    #[tokio::test]
    async fn what_was_not_asked_for_is_refused() {
        let redirect = bytes("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n");
        let spdy = Want::Upgrade("SPDY/3.1");
        for (answer, want) in [
            (upgraded("h2c"), spdy),
            (upgraded("SPDY/3.1"), Want::Body),
            (vec![head("200 OK", "text/plain")], spdy),
            (vec![head("204 No Content", "text/plain")], Want::Body),
            (vec![redirect.clone()], Want::Body),
            (vec![redirect], spdy),
            (vec![bytes("SSH-2.0-OpenSSH\r\n")], Want::Body),
            (
                vec![bytes(&"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000))],
                Want::Body,
            ),
            (
                vec![
                    bytes("HTTP/1.1 200 OK\r\n"),
                    Piece::Endless(b"a: b\r\n".repeat(999)),
                ],
                Want::Body,
            ),
        ] {
            let error = ask(answer.clone(), want).await.unwrap_err();
            assert!(matches!(error, StreamError::Misbehaving(_)), "{error}");
        }
    }

    #[tokio::test]
    async fn of_a_failure_its_status_is_left_and_no_other_text() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "message": "no\u{1b} exec".repeat(999),
        });
        let error = ask(failure("403 No", &status.to_string()), Want::Body).await;
        let Err(StreamError::Refused(left)) = error else {
            panic!("{error:?}");
        };
        assert_eq!((left.code, left.reason.as_str()), (403, "Forbidden"));
        assert!(left.message.len() <= 500 && !left.message.contains(char::is_control));

        let wiki = failure("500 Oh", "<html>internal wiki</html>");
        let error = ask(wiki, Want::Upgrade("websocket")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "it answers 500: status 500, without a reason"
        );

        let endless = vec![
            head("500 Oh", "text/plain"),
            Piece::Endless(vec![b'x'; 4096]),
        ];
        let error = ask(endless, Want::Body).await.unwrap_err();
        assert!(matches!(error, StreamError::Refused(_)), "{error}");
    }

    #[tokio::test]
    async fn only_the_places_of_targets_are_connected_to() {
        let server = Server::start(|_| vec![head("200 OK", "text/plain")]).await;
        let mut config = server.config();
        let url = format!("http://localhost:{}", server.address.port());
        config.cluster_url = url.parse().unwrap();
        let allowed = Allowed {
            insecure: true,
            places: ["10.0.0.0/8".parse().unwrap()].into(),
        };
        let streams = Streams::remote(config, "test", &allowed, &Arc::default()).unwrap();
        let request = Request::get("/log").body(()).unwrap();
        let error = streams.open(request, Want::Body).await.unwrap_err();
        assert!(error.to_string().contains("localhost"), "{error}");
        assert_eq!(server.asked(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn who_says_nothing_or_hardly_anything_is_waited_for_so_long_and_no_longer() {
        let begun = bytes("HTTP/1.1 200 OK\r\na: ");
        for answer in [
            vec![Piece::Silence],
            vec![begun.clone(), Piece::Silence],
            vec![begun, Piece::Trickle(b'a')],
        ] {
            let server = Server::start(move |_| answer.clone()).await;
            let request = Request::get("/log").body(()).unwrap();
            let limit = Duration::from_millis(100);
            let asked = way(&server, &Allowed::default());
            let error = asked.open_within(limit, request, Want::Body).await;
            assert!(matches!(error, Err(StreamError::Silent(_))), "{error:?}");
        }
    }
}
