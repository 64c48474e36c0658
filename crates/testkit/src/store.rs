//! etcd as it is asked from here: JSON over its gateway. It knows nothing of what is kept there.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Where API servers keep objects.
pub(crate) const REGISTRY: &str = "/registry/";
/// The end of the range of all keys that begin with [`REGISTRY`]: `0` follows `/`.
pub(crate) const REGISTRY_END: &str = "/registry0";
/// How long etcd may take to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);

/// A number as etcd's gateway writes it: as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Number(pub(crate) u64);

impl TryFrom<String> for Number {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// What each answer has.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) header: Header,
}

/// Its first part.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) revision: Number,
}

/// A key and what is kept there, both in base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) create_revision: Number,
    pub(crate) mod_revision: Number,
    pub(crate) value: String,
}

/// Bytes as the gateway wants them.
pub(crate) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// Bytes as they are.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| error.to_string())
}

/// A response that is still being read, with what keeps its connection alive.
pub(crate) struct Conversation {
    pub(crate) response: Response<Incoming>,
    // The connection ends when this is dropped.
    _sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Asks for an answer of which more may come for ever.
pub(crate) async fn send(
    address: SocketAddr,
    path: &str,
    body: &Value,
) -> Result<Conversation, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|e| text(&e))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| text(&e))?;
    let driver = tokio::spawn(async move {
        let _ = connection.await;
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(http::header::HOST, address.to_string())
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|e| text(&e))?;
    let response = sender.send_request(request).await.map_err(|e| text(&e))?;
    Ok(Conversation {
        response,
        _sender: sender,
        driver,
    })
}

/// Asks for an answer that ends.
pub(crate) async fn ask<T: DeserializeOwned>(
    address: SocketAddr,
    path: &str,
    body: &Value,
) -> Result<T, String> {
    let asking = async {
        let mut conversation = send(address, path, body).await?;
        let status = conversation.response.status();
        let body = conversation.response.body_mut().collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
        }
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    };
    tokio::time::timeout(ANSWER, asking)
        .await
        .map_err(|_| "no answer".to_owned())?
}
