//! Answers that a script makes up, byte by byte: too large, without end, or just what it says. Each is a recipe:
//! nothing large is ever in memory here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use super::feed;
use super::wire::{Body, Head, Reply};

/// What API servers say of JSON.
pub(super) const JSON: &str = "application/json";
/// Stands in text for a number that rises from one repetition to the next.
pub const NUMBER: &str = "{number}";
/// Stands in text for what is repeated.
pub const PADDING: &str = "{padding}";
/// Bytes that are sent at once, at least.
const PIECE: usize = 16 * 1024;
/// What padding is made of.
const KIB: [u8; 1024] = [b'x'; 1024];

/// A status, headers and a body.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    content_type: String,
    body: Recipe,
}

#[derive(Debug, Clone)]
enum Recipe {
    Bytes(Bytes),
    Repeat(Arc<Repeat>),
}

/// A beginning, the same again and again, and an end.
#[derive(Debug)]
struct Repeat {
    start: Bytes,
    /// What is repeated, with a number between each two parts.
    parts: Vec<Vec<u8>>,
    /// What stands between two repetitions.
    separator: &'static [u8],
    /// How often; `None`: without end.
    times: Option<u64>,
    end: Bytes,
    /// The next number, over all uses of the answer.
    number: AtomicU64,
}

impl Answer {
    /// These bytes, 200.
    pub fn bytes(content_type: &str, bytes: impl Into<Bytes>) -> Self {
        Self::of(content_type, Recipe::Bytes(bytes.into()))
    }

    /// This object, 200.
    pub fn json(object: &Value) -> Self {
        Self::bytes(JSON, object.to_string())
    }

    /// Plain text of so many KiB, such as `/readyz` might have; `None`: without end.
    pub fn text(kib: Option<u64>) -> Self {
        Self::repeat("text/plain; charset=utf-8", "ok\n", &KIB, b"", kib, "")
    }

    /// This object, in whose text so many KiB stand for [`PADDING`]; `None`: it never ends. With an event it is a
    /// line of a watch.
    pub fn padded(object: &Value, kib: Option<u64>) -> Self {
        let text = format!("{object}\n");
        let (start, end) = text.split_once(PADDING).unwrap_or((&text, ""));
        Self::repeat(JSON, start, &KIB, b"", kib, end)
    }

    /// A list of so many objects like this one, in which [`NUMBER`] stands for a number of each; `None`: without end.
    pub fn list(object: &Value, times: Option<u64>) -> Self {
        Self::list_with(object, times, &json!({ "resourceVersion": "1" }))
    }

    /// A page of so many objects like this one, which says that there are more; and so does the next.
    pub fn pages(object: &Value, a_page: u64) -> Self {
        let metadata = json!({ "resourceVersion": "1", "continue": "more" });
        Self::list_with(object, Some(a_page), &metadata)
    }

    fn list_with(object: &Value, times: Option<u64>, metadata: &Value) -> Self {
        let kind = object["kind"].as_str().unwrap_or_default();
        let start = format!(
            r#"{{"apiVersion":{},"kind":"{kind}List","metadata":{metadata},"items":["#,
            object["apiVersion"],
        );
        Self::repeat(
            JSON,
            &start,
            object.to_string().as_bytes(),
            b",",
            times,
            "]}\n",
        )
    }

    /// So many lines of a watch like this event, in which [`NUMBER`] stands for a number of each; `None`: without end.
    pub fn events(event: &Value, times: Option<u64>) -> Self {
        let line = feed::line(event);
        Self::repeat(JSON, "", line.as_bytes(), b"", times, "")
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with one more header. Who tells a `Content-Length` isn't held to it; the connection ends after the body
    /// then.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn of(content_type: &str, body: Recipe) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            content_type: content_type.to_owned(),
            body,
        }
    }

    fn repeat(
        content_type: &str,
        start: &str,
        unit: &[u8],
        separator: &'static [u8],
        times: Option<u64>,
        end: &str,
    ) -> Self {
        let repeat = Repeat::new(start, unit, separator, times, end);
        Self::of(content_type, Recipe::Repeat(Arc::new(repeat)))
    }

    /// As it is sent.
    pub(super) fn reply(&self) -> Reply {
        let mut head = Head::new(self.status, &self.content_type);
        head.headers.extend(self.headers.iter().cloned());
        let body = match &self.body {
            Recipe::Bytes(bytes) => Body::Whole(bytes.clone()),
            Recipe::Repeat(repeat) => repeated(Arc::clone(repeat)),
        };
        Reply::new(head, body)
    }
}

/// A head that never ends.
pub(super) fn endless_headers() -> Reply {
    let start = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let unit = format!("X-{NUMBER}: {}\r\n", "x".repeat(100));
    let repeat = Repeat::new(start, unit.as_bytes(), b"", None, "");
    Reply::bare(repeated(Arc::new(repeat)))
}

/// Words before an answer that never comes.
pub(super) fn endless_continue() -> Reply {
    let repeat = Repeat::new("", b"HTTP/1.1 100 Continue\r\n\r\n", b"", None, "");
    Reply::bare(repeated(Arc::new(repeat)))
}

impl Repeat {
    fn new(
        start: &str,
        unit: &[u8],
        separator: &'static [u8],
        times: Option<u64>,
        end: &str,
    ) -> Self {
        Self {
            start: start.to_owned().into(),
            parts: split(unit, NUMBER.as_bytes()),
            separator,
            times,
            end: end.to_owned().into(),
            number: AtomicU64::new(0),
        }
    }

    /// Adds one repetition.
    fn add(&self, piece: &mut Vec<u8>) {
        let number = self.number.fetch_add(1, Ordering::Relaxed).to_string();
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                piece.extend_from_slice(number.as_bytes());
            }
            piece.extend_from_slice(part);
        }
    }
}

fn repeated(repeat: Arc<Repeat>) -> Body {
    let start = stream::iter([repeat.start.clone()]);
    let end = stream::iter([repeat.end.clone()]);
    let mut done = 0;
    let units = std::iter::from_fn(move || {
        let mut piece = Vec::with_capacity(2 * PIECE);
        while piece.len() < PIECE && repeat.times.is_none_or(|times| done < times) {
            if done > 0 {
                piece.extend_from_slice(repeat.separator);
            }
            repeat.add(&mut piece);
            done += 1;
        }
        (!piece.is_empty()).then(|| Bytes::from(piece))
    });
    Body::Stream(start.chain(stream::iter(units)).chain(end).boxed())
}

fn split(text: &[u8], at: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(found) = rest.windows(at.len()).position(|part| part == at) {
        parts.push(rest[..found].to_vec());
        rest = &rest[found + at.len()..];
    }
    parts.push(rest.to_vec());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many bytes of what is sent, or all.
    async fn sent(answer: &Answer, most: usize) -> String {
        sent_of(answer.reply(), most).await
    }

    async fn sent_of(reply: Reply, most: usize) -> String {
        let mut text = Vec::new();
        match reply.body {
            Body::Whole(bytes) => text.extend_from_slice(&bytes),
            Body::Stream(mut stream) => {
                while text.len() < most
                    && let Some(piece) = stream.next().await
                {
                    text.extend_from_slice(&piece);
                }
            }
        }
        String::from_utf8(text).unwrap()
    }

    fn object() -> Value {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a-{number}", "uid": "{number}" } })
    }

    #[tokio::test]
    async fn what_ends_is_whole_json_with_a_number_for_each() {
        let answer = Answer::pages(&object(), 3);
        for first in [0, 3] {
            let list: Value = serde_json::from_str(&sent(&answer, usize::MAX).await).unwrap();
            assert_eq!(
                (&list["kind"], list["items"].as_array().unwrap().len()),
                (&json!("PodList"), 3)
            );
            assert_eq!(list["metadata"]["continue"], "more");
            let name = format!("a-{}", first + 2);
            assert_eq!(list["items"][2]["metadata"]["name"], name);
            assert_eq!(list["items"][2]["metadata"]["uid"], (first + 2).to_string());
        }
        let padded = Answer::padded(&json!({ "a": PADDING, "b": 1 }), Some(2));
        let object: Value = serde_json::from_str(&sent(&padded, usize::MAX).await).unwrap();
        assert_eq!(
            (object["a"].as_str().unwrap().len(), &object["b"]),
            (2048, &json!(1))
        );
    }

    #[tokio::test]
    async fn what_has_no_end_goes_on_and_on() {
        let event = json!({ "type": "ADDED", "object": object() });
        for (answer, lines) in [
            (Answer::list(&object(), None), false),
            (Answer::padded(&json!({ "a": PADDING }), None), false),
            (Answer::text(None), true),
            (Answer::events(&event, None), true),
        ] {
            let text = sent(&answer, 1 << 20).await;
            assert!(text.len() >= 1 << 20);
            assert_eq!(text.contains('\n'), lines);
        }
        let text = sent_of(endless_continue(), 1 << 20).await;
        let mut heads = text.split_terminator("\r\n\r\n");
        assert!(text.len() >= 1 << 20 && heads.all(|head| head == "HTTP/1.1 100 Continue"));
    }

    #[tokio::test]
    async fn bytes_are_bytes() {
        let answer = Answer::bytes("text/html", "<p>")
            .status(418)
            .header("X-A", "b");
        let head = answer.reply().head.unwrap();
        assert_eq!(head.status, 418);
        assert!(head.headers.contains(&("X-A".to_owned(), "b".to_owned())));
        assert_eq!(sent(&answer, 1).await, "<p>");
    }
}
