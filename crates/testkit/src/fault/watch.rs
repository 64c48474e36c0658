//! The answer to a watch, event by event, and its end when it has expired: an event of type ERROR that holds a Status
//! with code 410 and reason Expired, which is how API servers say it, also to a watch that has just been opened. It
//! knows nothing of rules.

use bytes::Bytes;
use futures::Stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::{Frame, Incoming};
use serde_json::json;

use super::connection::{Body, BoxError};
use super::rules::Entry;

const JSON: &str = "application/json";

/// The event, as one line.
fn expired() -> Bytes {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: by order of the fault proxy",
        "reason": "Expired",
        "code": 410,
    });
    let mut line = json!({ "type": "ERROR", "object": status }).to_string();
    line.push('\n');
    line.into()
}

/// The answer to a new watch from a place in history that is forgotten.
pub(super) fn refused() -> Response<Body> {
    let body = Full::new(expired()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Passes an API server's answer on until it ends, or until `entry` is told that it has expired. A watch that isn't
/// JSON can't be told, so it just ends.
pub(super) fn followed(response: Response<Incoming>, entry: Entry) -> Response<Body> {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with(JSON));
    response.map(|body| {
        StreamBody::new(events(Tail {
            body: Some(body),
            part: Vec::new(),
            is_json,
            entry,
        }))
        .boxed_unsync()
    })
}

struct Tail {
    /// `None` when the end was told.
    body: Option<Incoming>,
    /// An event of which the rest is still to come: an ERROR event must not begin inside of it.
    part: Vec<u8>,
    is_json: bool,
    entry: Entry,
}

fn events(tail: Tail) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    futures::stream::unfold(tail, |mut tail| async move {
        let next = tail.next().await?;
        Some((next, tail))
    })
}

impl Tail {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        loop {
            let body = self.body.as_mut()?;
            let frame = tokio::select! {
                biased;
                () = self.entry.expired.notified() => {
                    self.body = None;
                    return self.is_json.then(|| Ok(Frame::data(expired())));
                }
                frame = body.frame() => frame,
            };
            let data = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(other) => return Some(Ok(other)),
                },
                Some(Err(error)) => {
                    self.body = None;
                    return Some(Err(error.into()));
                }
                None => {
                    self.body = None;
                    let part = std::mem::take(&mut self.part);
                    return (!part.is_empty()).then(|| Ok(Frame::data(part.into())));
                }
            };
            if !self.is_json {
                return Some(Ok(Frame::data(data)));
            }
            self.part.extend_from_slice(&data);
            if let Some(end) = self.part.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.part.split_off(end + 1);
                let whole = std::mem::replace(&mut self.part, rest);
                return Some(Ok(Frame::data(whole.into())));
            }
        }
    }
}
