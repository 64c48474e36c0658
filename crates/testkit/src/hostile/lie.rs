//! The ways in which a server can lie about one request: another answer, none, or the true one told badly. It decides
//! nothing: which request is lied about is in `script`.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use super::answer::{self, Answer, JSON};
use super::feed;
use super::honest::{Content, Deed, Truth, failure};
use super::wire::{After, Body, Head, Reply};
use crate::fault::Call;

/// What HTTP/2 would say to a request in HTTP/1.1: settings, then a reset of the stream, then farewell.
const HTTP2_RESET: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02\
    \x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b";

/// A lie. Of a creation that is lied about by another answer nothing comes; one that is answered badly lands.
#[derive(Debug, Clone)]
pub enum Lie {
    /// This answer instead.
    Answer(Answer),
    /// This failure, in the words of an API server. A 404 is the best proof there is that an object is gone.
    Failure(u16),
    /// The same path at another address, such as `https://127.0.0.1:1`.
    Redirect(String),
    /// These bytes instead of HTTP, and the end of the connection.
    Raw(Bytes),
    /// Headers without end.
    EndlessHeaders,
    /// `100 Continue` without end, which isn't the answer yet.
    EndlessContinue,
    /// This answer in chunks of one byte, at full speed.
    Crumbs(Answer),
    /// Silence; the connection stays open.
    Silence,
    /// A connection is taken, and its TLS handshake never answered: which requests would come, nobody knows.
    MuteHandshake,
    /// A connection is taken with its handshake, and nothing that comes over it is read.
    ReadsNothing,
    /// The truth, with this pause after each byte of its status line and headers.
    SlowHead(Duration),
    /// The truth, with this pause after each byte of its body.
    SlowBody(Duration),
    /// The truth up to so many bytes of its body; then the connection ends, without TLS's own word for it.
    Cut(u64),
    /// The truth up to so many bytes of its body; then the connection is reset.
    Reset(u64),
    /// The truth, said to be of this type.
    ContentType(String),
    /// The truth about objects of another kind.
    Kind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// The truth with bytes that are no UTF-8, where it says what kind of thing it is.
    InvalidUtf8,
    /// The truth with so many arrays inside of each other in this field of the outermost object (of an event, in a
    /// watch).
    Deep {
        /// The field: `items` of a list, `object` of an event.
        field: String,
        /// How many.
        depth: usize,
    },
    /// A watch without bookmarks that never ends. About everything else the truth.
    QuietWatch,
    /// What would be the truth if the write were done, which it isn't.
    Undone,
    /// The object that was to be written or deleted as it is, 200. Nothing is done with it.
    Shown,
}

/// How what is true is written down.
#[derive(Debug, Default)]
struct Hand {
    /// `apiVersion` and `kind` of objects.
    kind: Option<(String, String)>,
    invalid_utf8: bool,
    deep: Option<(String, usize)>,
}

/// Stands for what no JSON value can hold, until it is text.
const MARK: &str = "{mark}";

impl Lie {
    /// HTTP/2 where HTTP/1.1 was spoken: frames that end the request.
    pub fn http2_reset() -> Self {
        Self::Raw(Bytes::from_static(HTTP2_RESET))
    }

    /// Whether it is told before there is any request.
    pub(super) fn is_of_connections(&self) -> bool {
        matches!(self, Self::MuteHandshake | Self::ReadsNothing)
    }

    /// What is sent; `truth` is only asked for if it is told in some form.
    pub(super) fn tell(&self, call: &Call, truth: impl FnOnce(Deed) -> Truth) -> Reply {
        let mut hand = Hand::default();
        let deed = match self {
            Self::Undone => Deed::Undone,
            Self::Shown => Deed::Shown,
            _ => Deed::Done,
        };
        let truth = || truth(deed);
        match self {
            Self::Undone | Self::Shown => honestly(truth()),
            Self::Answer(answer) => answer.reply(),
            Self::Failure(code) => honestly(failure(call, *code)),
            Self::Redirect(address) => {
                let location = format!("{address}{}", call.path);
                Answer::bytes("text/plain", "elsewhere\n")
                    .status(307)
                    .header("Location", &location)
                    .reply()
            }
            Self::Raw(bytes) => Reply::bare(Body::Whole(bytes.clone())),
            Self::EndlessHeaders => answer::endless_headers(),
            Self::EndlessContinue => answer::endless_continue(),
            Self::Crumbs(answer) => {
                let mut reply = answer.reply();
                reply.manner.crumbs = true;
                reply
            }
            Self::Silence | Self::MuteHandshake | Self::ReadsNothing => {
                Reply::bare(Body::Stream(stream::pending().boxed()))
            }
            Self::SlowHead(pause) => {
                let mut reply = honestly(truth());
                reply.manner.slow_head = Some(*pause);
                reply
            }
            Self::SlowBody(pause) => {
                let mut reply = honestly(truth());
                reply.manner.slow_body = Some(*pause);
                reply
            }
            Self::Cut(bytes) => {
                let mut reply = honestly(truth());
                reply.manner.cut = Some((*bytes, After::Cut));
                reply
            }
            Self::Reset(bytes) => {
                let mut reply = honestly(truth());
                reply.manner.cut = Some((*bytes, After::Reset));
                reply
            }
            Self::ContentType(content_type) => {
                let mut reply = honestly(truth());
                if let Some(head) = &mut reply.head {
                    head.set("Content-Type", content_type);
                }
                reply
            }
            Self::Kind { api_version, kind } => {
                hand.kind = Some((api_version.clone(), kind.clone()));
                told(truth(), hand)
            }
            Self::InvalidUtf8 => {
                hand.invalid_utf8 = true;
                told(truth(), hand)
            }
            Self::Deep { field, depth } => {
                hand.deep = Some((field.clone(), *depth));
                told(truth(), hand)
            }
            Self::QuietWatch => {
                let mut truth = truth();
                if let Content::Watch(feed) = truth.content {
                    truth.content = Content::Watch(feed.quiet());
                }
                honestly(truth)
            }
        }
    }
}

/// The truth.
pub(super) fn honestly(truth: Truth) -> Reply {
    told(truth, Hand::default())
}

fn told(truth: Truth, hand: Hand) -> Reply {
    let Truth { status, content } = truth;
    let (content_type, body) = match content {
        Content::Text(text) => {
            let mut bytes = text.as_bytes().to_vec();
            if hand.invalid_utf8 {
                bytes.extend_from_slice(b"\xff\xfe");
            }
            ("text/plain; charset=utf-8", Body::Whole(bytes.into()))
        }
        Content::Object(object) => (JSON, Body::Whole(hand.write(object).into())),
        Content::Watch(feed) => {
            let lines = stream::unfold((feed, hand), |(mut feed, hand)| async move {
                let line = feed.next().await?;
                let line = Bytes::from(hand.write(line));
                Some((line, (feed, hand)))
            });
            (JSON, Body::Stream(lines.boxed()))
        }
    };
    Reply::new(Head::new(status, content_type), body)
}

impl Hand {
    /// The object as text, with the end of its line.
    fn write(&self, mut object: Value) -> Vec<u8> {
        if let Some((api_version, kind)) = &self.kind {
            let rename = |object: &mut Value| {
                if object.get("kind").is_some() {
                    object["apiVersion"] = json!(api_version);
                    object["kind"] = json!(kind);
                }
            };
            rename(&mut object);
            // Of an event, and of a list.
            if let Some(object) = object.get_mut("object") {
                rename(object);
            }
            let items = object.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(rename);
        }
        let mut instead = Vec::new();
        if self.invalid_utf8 {
            let field = if object.get("kind").is_some() {
                "kind"
            } else {
                "type"
            };
            object[field] = json!(MARK);
            instead = b"\"\xff\xfe\"".to_vec();
        }
        if let Some((field, depth)) = &self.deep {
            object[field] = json!(MARK);
            instead = b"[".repeat(*depth);
            instead.extend(b"]".repeat(*depth));
        }
        let text = feed::line(&object);
        let Some((start, end)) = text.split_once(&format!("\"{MARK}\"")) else {
            return text.into_bytes();
        };
        [start.as_bytes(), &instead, end.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn told_of(lie: &Lie, object: &Value) -> Reply {
        let call = Call::of(&Method::GET, &"/api/v1/pods".parse().unwrap());
        let content = Content::Object(object.clone());
        lie.tell(&call, |_| Truth {
            status: 200,
            content,
        })
    }

    fn bytes(reply: Reply) -> Bytes {
        match reply.body {
            Body::Whole(bytes) => bytes,
            Body::Stream(_) => panic!("it has no end"),
        }
    }

    fn list() -> Value {
        json!({
            "apiVersion": "v1", "kind": "PodList",
            "items": [{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }],
        })
    }

    #[test]
    fn the_truth_told_badly_is_the_truth_but_for_one_thing() {
        let kind = Lie::Kind {
            api_version: "evil/v1".to_owned(),
            kind: "Evil".to_owned(),
        };
        let got: Value = serde_json::from_slice(&bytes(told_of(&kind, &list()))).unwrap();
        assert_eq!(
            (&got["kind"], &got["items"][0]["kind"]),
            (&json!("Evil"), &json!("Evil"))
        );
        assert_eq!(got["items"][0]["metadata"]["name"], "a");

        let deep = Lie::Deep {
            field: "items".to_owned(),
            depth: 10_000,
        };
        let text = bytes(told_of(&deep, &list()));
        assert_eq!(text.split(|byte| *byte == b'[').count(), 10_001);
        assert!(serde_json::from_slice::<Value>(&text).is_err());

        let text = bytes(told_of(&Lie::InvalidUtf8, &list()));
        assert!(std::str::from_utf8(&text).is_err());
        assert!(serde_json::from_slice::<Value>(&text).is_err());

        let html = told_of(&Lie::ContentType("text/html".to_owned()), &list());
        let headers = html.head.as_ref().unwrap().headers.clone();
        assert_eq!(
            headers,
            [("Content-Type".to_owned(), "text/html".to_owned())]
        );
        let got: Value = serde_json::from_slice(&bytes(html)).unwrap();
        assert_eq!(got, list());
    }

    #[test]
    fn another_answer_leaves_the_truth_alone() {
        let chaperon = "/apis/multicluster.admiralty.io/v1alpha1/namespaces/n/podchaperons/web";
        let call = Call::of(&Method::GET, &chaperon.parse().unwrap());
        let lie = |lie: Lie| lie.tell(&call, |_| panic!("nobody asked"));
        let gone = lie(Lie::Failure(404));
        assert_eq!(gone.head.as_ref().unwrap().status, 404);
        let status: Value = serde_json::from_slice(&bytes(gone)).unwrap();
        assert_eq!(status["reason"], "NotFound");
        let proof =
            json!({ "name": "web", "group": "multicluster.admiralty.io", "kind": "podchaperons" });
        assert_eq!(status["details"], proof);
        let away = lie(Lie::Redirect("https://127.0.0.1:1".to_owned()));
        let location = (
            "Location".to_owned(),
            format!("https://127.0.0.1:1{chaperon}"),
        );
        assert!(away.head.unwrap().headers.contains(&location));
        assert!(lie(Lie::http2_reset()).head.is_none());
        assert_eq!(HTTP2_RESET.len(), 9 + 13 + 17);
    }
}
