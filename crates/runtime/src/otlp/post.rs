//! One request with a batch of spans, bounded in time and in what is read of the answer.

use std::fmt::Display;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Endpoint;

/// So much is read of an answer's head, and of its body.
const LONGEST: usize = 64 * 1024;

/// Why a batch wasn't taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// In words for the log; nothing of what the collector wrote is in them.
    pub(super) why: String,
    /// Whether the same batch may be taken later.
    pub(super) again: bool,
    /// Not before so long.
    pub(super) after: Duration,
}

impl Refused {
    fn later(why: impl Display) -> Self {
        Self {
            why: why.to_string(),
            again: true,
            after: Duration::ZERO,
        }
    }
}

/// Sends a batch, on a connection of its own; how many of its spans the collector says it doesn't take.
pub(super) async fn post(
    endpoint: &Endpoint,
    body: Bytes,
    limit: Duration,
) -> Result<u64, Refused> {
    let sent = timeout(limit, exchange(endpoint, body)).await;
    sent.unwrap_or_else(|_| Err(Refused::later("it didn't answer in time")))
}

async fn exchange(endpoint: &Endpoint, body: Bytes) -> Result<u64, Refused> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(endpoint.path())
        .header(HOST, endpoint.authority())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT_ENCODING, "identity")
        .body(Full::new(body))
        .map_err(Refused::later)?;
    let stream = TcpStream::connect(endpoint.address()).await;
    let stream = TokioIo::new(stream.map_err(Refused::later)?);
    let mut http = http1::Builder::new();
    http.max_buf_size(LONGEST);
    let (mut sender, connection) = http.handshake(stream).await.map_err(Refused::later)?;
    // Whoever leaves here early ends it.
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let answer = sender.send_request(request).await.map_err(Refused::later)?;
    read(answer).await
}

async fn read(answer: Response<Incoming>) -> Result<u64, Refused> {
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        return Err(refused(head.status, &head.headers));
    }
    // It has the spans, whatever else it says.
    let body = Limited::new(body, LONGEST).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let said = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok());
    Ok(said.map_or(0, |said: Value| rejected(&said)))
}

/// The protocol names four answers after which the same request makes sense.
fn refused(status: StatusCode, headers: &HeaderMap) -> Refused {
    let again = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    let after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let after = after.and_then(|seconds| seconds.trim().parse().ok());
    Refused {
        why: format!("it answered {}", status.as_u16()),
        again: again.contains(&status),
        after: after.map_or(Duration::ZERO, Duration::from_secs),
    }
}

/// A number may stand there as a text.
fn rejected(said: &Value) -> u64 {
    let count = &said["partialSuccess"]["rejectedSpans"];
    let text = count.as_str().and_then(|text| text.parse().ok());
    text.or(count.as_u64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_protocol_names_is_tried_again() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "7".parse().unwrap());
        for (status, again) in [(429, true), (502, true), (503, true), (504, true)]
            .into_iter()
            .chain([301, 400, 401, 404, 413, 500].map(|status| (status, false)))
        {
            let refused = refused(StatusCode::from_u16(status).unwrap(), &headers);
            assert_eq!(refused.again, again, "{status}");
            assert_eq!(refused.after, Duration::from_secs(7));
        }
        headers.insert(
            RETRY_AFTER,
            "Fri, 31 Dec 1999 23:59:59 GMT".parse().unwrap(),
        );
        let refused = refused(StatusCode::TOO_MANY_REQUESTS, &headers);
        assert_eq!(refused.after, Duration::ZERO);
    }

    #[test]
    fn a_partial_success_says_how_many_are_lost() {
        for (said, want) in [
            (json!({}), 0),
            (json!({ "partialSuccess": { "rejectedSpans": "3" } }), 3),
            (json!({ "partialSuccess": { "rejectedSpans": 3 } }), 3),
            (json!({ "partialSuccess": { "rejectedSpans": -3 } }), 0),
            (json!([1]), 0),
        ] {
            assert_eq!(rejected(&said), want, "{said}");
        }
    }
}
