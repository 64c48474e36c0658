//! What an API server that doesn't lie would answer: that of a healthy cluster which lets its source do all that it has
//! to. It knows nothing of scripts.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::feed::Feed;
use super::kinds::{Kind, Query, Selection};
use super::wire::Request;
use super::world::{Ended, Refusal, World};
use crate::fault::{Call, Verb};

/// As often as an API server sends them.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// How long a watch lasts that says nothing of it.
const WATCH_LIMIT: Duration = Duration::from_mins(30);

/// An answer.
pub(super) struct Truth {
    pub(super) status: u16,
    pub(super) content: Content,
}

/// What is done about a request whose answer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// What it asks for.
    Done,
    /// Nothing; what is told is what would be if it were done.
    Undone,
    /// Nothing; the object is told as it is.
    Shown,
}

/// The body of an answer.
pub(super) enum Content {
    Text(&'static str),
    Object(Value),
    Watch(Feed),
}

impl Truth {
    fn object(status: u16, object: Value) -> Self {
        Self {
            status,
            content: Content::Object(object),
        }
    }
}

/// The server behind the scripts.
#[derive(Debug)]
pub(super) struct Honest {
    pub(super) world: Arc<World>,
    /// What a client has to know.
    pub(super) token: String,
}

impl Honest {
    pub(super) fn answer_after(&self, deed: Deed, call: &Call, request: &Request) -> Truth {
        match deed {
            Deed::Done => self.answer(call, request),
            Deed::Undone => {
                let elsewhere = Self {
                    world: Arc::new(self.world.copy()),
                    token: self.token.clone(),
                };
                elsewhere.answer(call, request)
            }
            Deed::Shown => {
                let mut read = call.clone();
                read.verb = Verb::Get;
                self.answer(&read, request)
            }
        }
    }

    pub(super) fn answer(&self, call: &Call, request: &Request) -> Truth {
        let expected = format!("Bearer {}", self.token);
        if header(&request.headers, &AUTHORIZATION) != expected {
            return failure(call, 401);
        }
        let answered = match (call.verb, &*call.path) {
            (_, "/readyz" | "/livez" | "/healthz") => {
                let content = Content::Text("ok");
                return Truth {
                    status: 200,
                    content,
                };
            }
            (_, "/version") => {
                let version = json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.0" });
                return Truth::object(200, version);
            }
            (Verb::Create, _) if call.resource == "selfsubjectaccessreviews" => {
                return review(call, &request.body);
            }
            _ => match Kind::of_call(call) {
                Some(kind) => self.about(kind, call, request),
                None => return failure(call, 404),
            },
        };
        answered.unwrap_or_else(|refusal| refused(call, &refusal))
    }

    /// About a kind that is served.
    fn about(&self, kind: &'static Kind, call: &Call, request: &Request) -> Result<Truth, Refusal> {
        let namespace = call.namespace.as_deref();
        let (in_namespace, name) = (
            namespace.unwrap_or_default(),
            call.name.as_deref().unwrap_or_default(),
        );
        let selection = || {
            let query = Query::of(&request.uri);
            let selection = Selection::of(kind, namespace, &query);
            selection.map(|selection| (selection, query))
        };
        Ok(match call.verb {
            Verb::Get => match self.world.get(kind, in_namespace, name) {
                Some(object) if wants_metadata(request) => Truth::object(200, metadata(&object)),
                Some(object) => Truth::object(200, object),
                None => failure(call, 404),
            },
            Verb::List => match selection() {
                Some((selection, _)) => Truth::object(200, self.list(&selection, request)),
                None => failure(call, 400),
            },
            Verb::Watch => match selection() {
                Some((selection, query)) => Truth {
                    status: 200,
                    content: Content::Watch(self.watch(selection, &query)),
                },
                None => failure(call, 400),
            },
            Verb::Create => {
                let made = self.world.create(kind, in_namespace, &request.body)?;
                Truth::object(201, made)
            }
            Verb::Patch => {
                let content_type = header(&request.headers, &CONTENT_TYPE);
                let patched =
                    self.world
                        .patch(kind, (in_namespace, name), content_type, &request.body)?;
                Truth::object(200, patched)
            }
            Verb::Delete => {
                let ended = self.world.delete(kind, in_namespace, name, &request.body)?;
                let told = match ended {
                    Ended::Kept(object) => object,
                    Ended::Gone(uid) => success(call, uid),
                };
                Truth::object(200, told)
            }
            _ => failure(call, 405),
        })
    }

    fn list(&self, selection: &Selection, request: &Request) -> Value {
        let present = self.world.present(selection);
        let kind = selection.kind;
        let meta = json!({ "resourceVersion": present.version.to_string() });
        if wants_metadata(request) {
            let items: Vec<Value> = present.objects.iter().map(metadata).collect();
            return json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadataList",
                "metadata": meta,
                "items": items,
            });
        }
        json!({
            "apiVersion": kind.api_version(),
            "kind": format!("{}List", kind.name),
            "metadata": meta,
            "items": present.objects,
        })
    }

    fn watch(&self, selection: Selection, query: &Query) -> Feed {
        let version = query.get("resourceVersion");
        let version = version.and_then(|text| text.parse::<u64>().ok());
        let limit = query.get("timeoutSeconds");
        let limit = limit.and_then(|text| text.parse::<u64>().ok());
        let limit = limit.map_or(WATCH_LIMIT, Duration::from_secs);
        let from = version.filter(|version| *version > 0);
        let feed = Feed::new(&self.world, selection, from, limit);
        if query.is_true("allowWatchBookmarks") {
            feed.bookmarks(BOOKMARKS)
        } else {
            feed
        }
    }
}

/// A failure in the words of an API server. A 404 names what was asked for, which is how one proves that an object is
/// gone.
pub(super) fn failure(call: &Call, code: u16) -> Truth {
    let (reason, message) = match code {
        400 => ("BadRequest", "the request can't be understood".to_owned()),
        401 => ("Unauthorized", "Unauthorized".to_owned()),
        403 => ("Forbidden", format!("{} is forbidden", call.resource)),
        404 => ("NotFound", format!("{} not found", about(call))),
        405 => ("MethodNotAllowed", "that isn't done here".to_owned()),
        409 => ("Conflict", format!("{} has been modified", about(call))),
        410 => ("Expired", "too old resource version".to_owned()),
        422 => ("Invalid", format!("{} is invalid", about(call))),
        429 => ("TooManyRequests", "try again later".to_owned()),
        503 => ("ServiceUnavailable", "not now".to_owned()),
        504 => ("Timeout", "it took too long".to_owned()),
        _ => ("InternalError", "an error on the server".to_owned()),
    };
    refused(
        call,
        &Refusal {
            code,
            reason,
            message,
        },
    )
}

fn refused(call: &Call, refusal: &Refusal) -> Truth {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refusal.message,
        "reason": refusal.reason,
        "details": details(call),
        "code": refusal.code,
    });
    Truth::object(refusal.code, status)
}

/// What was deleted is named with its UID: whoever asked can be sure which object is gone.
fn success(call: &Call, uid: Value) -> Value {
    let mut details = details(call);
    details["uid"] = uid;
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}

fn details(call: &Call) -> Value {
    let group = Kind::of_call(call).map_or("", |kind| kind.group);
    let resource = call.resource.split('/').next();
    json!({ "name": call.name.as_deref().unwrap_or_default(), "group": group, "kind": resource })
}

fn about(call: &Call) -> String {
    format!(
        "{} {:?}",
        call.resource,
        call.name.as_deref().unwrap_or_default()
    )
}

/// Everything is permitted.
fn review(call: &Call, body: &[u8]) -> Truth {
    let Ok(Value::Object(mut review)) = serde_json::from_slice(body) else {
        return failure(call, 400);
    };
    review.insert("status".to_owned(), json!({ "allowed": true }));
    Truth::object(201, Value::Object(review))
}

/// The object without what it is about, as some clients ask for it.
fn metadata(object: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}

fn wants_metadata(request: &Request) -> bool {
    header(&request.headers, &ACCEPT).contains("as=PartialObjectMetadata")
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}
