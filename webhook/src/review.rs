//! `admission.k8s.io/v1` reviews: reading what the API server asks, and answering it.
//!
//! The pod is kept as a JSON value: a typed round trip would drop fields that the types don't know. Must not know HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::denial::Denial;
use crate::mutate::{self, Mutation};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The part of a review that we need.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// One question of the API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
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
    #[serde(default)]
    object: Value,
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
    /// Made into a proxy, or repaired.
    Mutated,
    /// Refused, for [`Denial::reason`].
    Denied(&'static str),
    /// The question made no sense.
    Malformed,
}

/// An answer: the body of the response, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// An `AdmissionReview` with a response.
    pub body: Value,
    /// What it says.
    pub outcome: Outcome,
}

/// Answers the review `body`. A question that makes no sense is answered with a refusal that says so, since an HTTP
/// error would only be seen in the API server's log.
pub fn answer(body: &[u8]) -> Answer {
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
    let decision = match request.operation.as_str() {
        "CREATE" if !request.object.is_object() => {
            return malformed(&uid, "the request has no object");
        }
        "CREATE" => mutate::mutate(&request.object),
        // We ask for no other operation: what an update may do is the policy's (`objects`).
        _ => Ok(Mutation::None),
    };
    let answer = match decision {
        Ok(mutation) => allowed(&uid, &mutation),
        Err(denial) => denied(&uid, &denial),
    };
    tracing::debug!(
        uid,
        operation = request.operation,
        namespace = request.namespace,
        name = request.name,
        generate_name = request.object["metadata"]["generateName"].as_str(),
        dry_run = request.dry_run,
        outcome = ?answer.outcome,
        "answered a review"
    );
    answer
}

fn review(response: &Value, outcome: Outcome) -> Answer {
    let body = json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response });
    Answer { body, outcome }
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

fn malformed(uid: &str, message: &str) -> Answer {
    let status = json!({ "code": 400, "reason": "BadRequest", "message": message });
    review(
        &json!({ "uid": uid, "allowed": false, "status": status }),
        Outcome::Malformed,
    )
}
