//! `admission.k8s.io/v1` reviews: reading what the API server asks, and answering it.
//!
//! The pod is kept as a JSON value: a typed round trip would drop fields that the types don't know. One that is too
//! large for that is refused unread. Must not know HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use pilotage_api::limits::SUBDOMAIN;
use pilotage_api::{bounds, keys};
use pilotage_runtime::caught::{PANICKED, caught};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::bounded::{self, ReadError};
use crate::daemons::DaemonSet;
use crate::denial::{Denial, FIELDS_LIMIT, OBJECT_LIMIT};
use crate::mutate::{self, Mutation};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// How much is told of what is wrong with a question, in bytes.
const TOLD: usize = 1024;
/// When somebody may ask again who was turned away, in seconds.
pub(crate) const LATER: u32 = 1;

/// The part of a review that we need.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// One question of the API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: Option<String>,
    operation: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    dry_run: bool,
    /// Unread.
    #[serde(default, borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    group: String,
    version: String,
    #[serde(rename = "resource")]
    plural: String,
}

/// What was answered, as one word for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Allowed as it is.
    Untouched,
    /// Elected, but left as it is.
    Local,
    /// Made into a proxy, or repaired.
    Mutated,
    /// Refused, for [`Denial::reason`].
    Denied(&'static str),
    /// There was no room for the question.
    Busy,
    /// The question made no sense.
    Malformed,
    /// A mistake of ours.
    Panicked,
}

/// An answer: the body of the response, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// An `AdmissionReview` with a response.
    pub body: Value,
    /// What it says.
    pub outcome: Outcome,
    /// What somebody else should be told, too.
    pub notice: Option<Notice>,
}

/// An elected pod was left as it is. Its author is warned; who made its controller should know as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Namespace of both.
    pub namespace: String,
    /// What controls the pod.
    pub owner: DaemonSet,
}

/// Answers the review `body`. A question that makes no sense, or whose answer panics, is answered with a refusal that
/// says so, since an HTTP error would only be seen in the API server's log.
pub fn answer(body: &[u8]) -> Answer {
    answer_by(body, mutate::mutate)
}

/// The namespace that a review is about, without a look at its object: API servers name it before.
pub(crate) fn namespace(body: &[u8]) -> Option<String> {
    let namespace = bounded::text_at(body, &["request", "namespace"]);
    namespace.filter(|namespace| namespace.len() <= SUBDOMAIN)
}

/// The answer to a review that isn't judged now, by how it begins: its author is told why, and may try again. An HTTP
/// error would say less: with `Retry-After` the API server asks again itself until its own time is over, and then tells
/// of nothing else. `None`: no API server begins like this.
pub(crate) fn later(beginning: &[u8], why: &str) -> Option<Answer> {
    let uid = bounded::text_at(beginning, &["request", "uid"])?;
    let status = json!({
        "code": 429, "reason": "TooManyRequests", "message": why, "details": { "retryAfterSeconds": LATER },
    });
    let response = json!({ "uid": uid, "allowed": false, "status": status });
    Some(review(&response, Outcome::Busy))
}

fn answer_by(body: &[u8], mutate: fn(&Value) -> Result<Mutation, Denial>) -> Answer {
    caught(|| judged(body, mutate)).unwrap_or_else(|panic| {
        let Asked {
            uid,
            namespace,
            name,
        } = Asked::of(body);
        tracing::error!(uid, namespace, name, panic, "a review panicked");
        panicked(&uid, &panic)
    })
}

/// What is told of a question that couldn't be answered.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    uid: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl Asked {
    fn of(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Review {
            request: Asked,
        }
        serde_json::from_slice(body)
            .map(|Review { request }| request)
            .unwrap_or_default()
    }
}

fn judged(body: &[u8], mutate: fn(&Value) -> Result<Mutation, Denial>) -> Answer {
    let review: Review = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return malformed("", &format!("the request is no {KIND}: {error}")),
    };
    let uid = review
        .request
        .as_ref()
        .map_or("", |request| request.uid.as_str())
        .to_owned();
    if review.kind != KIND || review.api_version != API_VERSION {
        let (version, kind) = (review.api_version, review.kind);
        return malformed(
            &uid,
            &format!("{kind} of {version} isn't {KIND} of {API_VERSION}"),
        );
    }
    let Some(request) = review.request else {
        return malformed(&uid, "the review has no request");
    };
    let Resource {
        group,
        version,
        plural: resource,
    } = &request.resource;
    if (group.as_str(), version.as_str(), resource.as_str()) != ("", "v1", "pods") {
        return malformed(
            &uid,
            &format!("this webhook is for pods of v1, not for {resource} of {group}/{version}"),
        );
    }
    if request
        .sub_resource
        .as_deref()
        .is_some_and(|sub| !sub.is_empty())
    {
        return allowed(&uid, &Mutation::None);
    }
    let object = match request.operation.as_str() {
        "CREATE" => object(request.object.map_or("null", RawValue::get)),
        // We ask for no other operation: what an update may do is the policy's (`objects`).
        _ => Ok(Object::OfNobody),
    };
    let (answer, generate_name) = match object {
        Err(error) => return malformed(&uid, &error.to_string()),
        Ok(Object::OfNobody) => (allowed(&uid, &Mutation::None), None),
        Ok(Object::TooLarge) => (denied(&uid, &Denial::TooManyFields), None),
        Ok(Object::Read(pod)) if !pod.is_object() => {
            return malformed(&uid, "the request has no object");
        }
        Ok(Object::Read(pod)) => {
            let answer = match mutate(&pod) {
                Ok(Mutation::Local(owner)) => {
                    // Nothing happens in a dry run.
                    let namespace = request.namespace.as_ref().filter(|_| !request.dry_run);
                    left(&uid, owner, namespace)
                }
                Ok(mutation) => allowed(&uid, &mutation),
                Err(denial) => denied(&uid, &denial),
            };
            let name = pod["metadata"]["generateName"].as_str();
            (answer, name.map(ToOwned::to_owned))
        }
    };
    tracing::debug!(
        uid,
        operation = request.operation,
        namespace = request.namespace,
        name = request.name,
        generate_name,
        dry_run = request.dry_run,
        outcome = ?answer.outcome,
        "answered a review"
    );
    answer
}

/// The object that is asked about.
enum Object {
    /// It is no affair of ours.
    OfNobody,
    /// It is elected, and too large to be read.
    TooLarge,
    /// It was read.
    Read(Value),
}

fn object(text: &str) -> Result<Object, serde_json::Error> {
    if text.len() <= OBJECT_LIMIT {
        match bounded::read(text, FIELDS_LIMIT) {
            Ok(object) => return Ok(Object::Read(object)),
            Err(ReadError::TooMany) => {}
            Err(ReadError::Json(error)) => return Err(error),
        }
    }
    let elected = bounded::has(text, &["metadata", "annotations", keys::ELECT]);
    Ok(if elected {
        Object::TooLarge
    } else {
        Object::OfNobody
    })
}

fn review(response: &Value, outcome: Outcome) -> Answer {
    let body = json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response });
    Answer {
        body,
        outcome,
        notice: None,
    }
}

fn left(uid: &str, owner: DaemonSet, namespace: Option<&String>) -> Answer {
    let response = json!({ "uid": uid, "allowed": true, "warnings": [owner.to_string()] });
    let namespace = namespace.map(|namespace| bounds::cut(namespace, SUBDOMAIN).to_owned());
    Answer {
        notice: namespace.map(|namespace| Notice { namespace, owner }),
        ..review(&response, Outcome::Local)
    }
}

fn allowed(uid: &str, mutation: &Mutation) -> Answer {
    let Patch(operations) = mutation.patch();
    if operations.is_empty() {
        return review(&json!({ "uid": uid, "allowed": true }), Outcome::Untouched);
    }
    let response = json!({
        "uid": uid,
        "allowed": true,
        "patchType": "JSONPatch",
        "patch": STANDARD.encode(json!(operations).to_string()),
    });
    review(&response, Outcome::Mutated)
}

fn denied(uid: &str, denial: &Denial) -> Answer {
    let (code, reason) = denial.status();
    let status = json!({ "code": code, "reason": reason, "message": denial.to_string() });
    let outcome = Outcome::Denied(denial.reason());
    review(
        &json!({ "uid": uid, "allowed": false, "status": status }),
        outcome,
    )
}

fn panicked(uid: &str, panic: &str) -> Answer {
    let message = format!("a mistake in Pilotage, please report it: {panic}");
    let status = json!({ "code": 500, "reason": PANICKED, "message": message });
    review(
        &json!({ "uid": uid, "allowed": false, "status": status }),
        Outcome::Panicked,
    )
}

fn malformed(uid: &str, message: &str) -> Answer {
    let message = bounds::cut(message, TOLD);
    let status = json!({ "code": 400, "reason": "BadRequest", "message": message });
    review(
        &json!({ "uid": uid, "allowed": false, "status": status }),
        Outcome::Malformed,
    )
}

#[cfg(test)]
mod tests;
