//! A span, and a batch of spans as OTLP writes it in JSON.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::Service;

/// As long may a text of an attribute be; names of objects have 253.
const LONGEST: usize = 256;
/// The sender exports this span.
const SAMPLED: u32 = 1;
/// It is known whether the parent is of another process, and it is.
const HAS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// The status of a span that failed; that of the others isn't set.
const FAILED: u8 = 2;

/// Which part a span has in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None.
    Internal = 1,
    /// It answers another process, to which its parent belongs.
    Server = 2,
    /// It asks another process.
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text; a long one is cut.
    Text(Cow<'static, str>),
    /// A number.
    Number(u64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// Something that began and ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its trace.
    pub trace: [u8; 16],
    /// Its own id in that trace.
    pub id: [u8; 8],
    /// The span that it belongs under; none for the root.
    pub parent: Option<[u8; 8]>,
    /// What it is, the same for all of its sort.
    pub name: &'static str,
    /// Its part in a conversation.
    pub kind: Kind,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended; the clock may have been set back meanwhile.
    pub end: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// It failed, for this reason in a word.
    pub failed: Option<&'static str>,
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
    text
}

fn attribute((key, value): &(&str, Value)) -> Json {
    let value = match value {
        Value::Text(text) => {
            json!({ "stringValue": &text[..text.floor_char_boundary(LONGEST)] })
        }
        Value::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}

impl Span {
    fn json(&self) -> Json {
        let remote = if self.kind == Kind::Server {
            IS_REMOTE
        } else {
            0
        };
        let attributes: Vec<Json> = self.attributes.iter().map(attribute).collect();
        let mut span = json!({
            "traceId": hex(&self.trace),
            "spanId": hex(&self.id),
            "flags": SAMPLED | HAS_REMOTE | remote,
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": self.start.to_string(),
            "endTimeUnixNano": self.end.max(self.start).to_string(),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = hex(&parent).into();
        }
        if let Some(why) = self.failed {
            span["status"] = json!({ "code": FAILED, "message": why });
        }
        span
    }
}

/// The body of a request with these spans.
pub(super) fn body(service: &Service, spans: &[Span]) -> String {
    let text = |text: &str| Value::from(text.to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", text(&service.name)),
        ("service.version", version.into()),
        ("service.instance.id", text(&service.instance)),
    ];
    let resource: Vec<Json> = resource.iter().map(attribute).collect();
    let spans: Vec<Json> = spans.iter().map(Span::json).collect();
    let scope = json!({ "name": "pilotage", "version": version });
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] });
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_in_the_form_of_the_protocol() {
        let root = Span {
            trace: [0xab; 16],
            id: [1; 8],
            parent: None,
            name: "pod",
            kind: Kind::Internal,
            start: 1_700_000_000_000_000_001,
            end: 1,
            attributes: vec![
                ("k8s.pod.name", "é".repeat(200).into()),
                ("pilotage.attempt", 3.into()),
            ],
            failed: Some("deleted"),
        };
        let child = Span {
            id: [2; 8],
            parent: Some([1; 8]),
            name: "candidate",
            kind: Kind::Server,
            attributes: Vec::new(),
            failed: None,
            ..root.clone()
        };
        let service = Service {
            name: "pilotage-proxy-scheduler".into(),
            instance: "host_1".into(),
        };
        let body: Json = serde_json::from_str(&body(&service, &[root, child])).unwrap();
        let text =
            |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let version = env!("CARGO_PKG_VERSION");
        let time = "1700000000000000001";
        let want = json!({ "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", "pilotage-proxy-scheduler"),
                text("service.version", version),
                text("service.instance.id", "host_1"),
            ] },
            "scopeSpans": [{ "scope": { "name": "pilotage", "version": version }, "spans": [
                {
                    "traceId": "ab".repeat(16), "spanId": "01".repeat(8), "flags": 0x101, "name": "pod", "kind": 1,
                    "startTimeUnixNano": time, "endTimeUnixNano": time,
                    "attributes": [
                        text("k8s.pod.name", &"é".repeat(128)),
                        { "key": "pilotage.attempt", "value": { "intValue": "3" } },
                    ],
                    "status": { "code": 2, "message": "deleted" },
                },
                {
                    "traceId": "ab".repeat(16), "spanId": "02".repeat(8), "parentSpanId": "01".repeat(8),
                    "flags": 0x301, "name": "candidate", "kind": 2,
                    "startTimeUnixNano": time, "endTimeUnixNano": time, "attributes": [],
                },
            ] }],
        }] });
        assert_eq!(body, want);
    }
}
