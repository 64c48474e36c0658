//! One API call: a time limit around it, and what kind of failure it was.
//!
//! Must not know what the call does. Retrying is the caller's business; this file only says which
//! failures leave the outcome open.

mod certificate;

use std::time::Duration;

use kube::core::{Status, response::StatusDetails};
use serde_json::error::Category;
use thiserror::Error;

/// Limit of an ordinary API call: a loaded API server answers within it, a black-holed one holds
/// nobody up for longer.
pub const CALL_LIMIT: Duration = Duration::from_secs(15);

/// Why an API call failed.
#[derive(Debug, Error)]
pub enum CallError {
    /// No answer in time; a write may still land.
    #[error("no answer from the API server within {0:?}")]
    TimedOut(Duration),
    /// A list goes on and on.
    #[error("a list doesn't end: {0} pages of it were read")]
    Endless(u32),
    /// The API server refused, or the connection failed.
    #[error("{}", describe(.0))]
    Api(#[from] kube::Error),
}

/// What a failed call means for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// 404: the object, or a parent of it, isn't there.
    NotFound,
    /// 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// Any other 409: the object moved on, or its state forbids the write.
    Conflict,
    /// 410: the resource version or continuation is too old.
    Expired,
    /// 401 or 403, admission plugins and quota included.
    Forbidden,
    /// 400 or 422: this request can't succeed as it is, a failed JSON-patch `test` included.
    Invalid,
    /// 429: the API server, or a limit of this process ([`crate::throttle`]), asks to come back later; nothing was
    /// written.
    Throttled,
    /// Another answer of the API server, such as 500 or 504: the outcome of a write is open.
    Server,
    /// No answer at all: the outcome of a write is open.
    Unknown,
}

impl CallError {
    /// The kind of this failure.
    pub fn kind(&self) -> Failure {
        match self {
            Self::TimedOut(_) | Self::Endless(_) => Failure::Unknown,
            Self::Api(error) => Failure::of(error),
        }
    }

    /// Whether a write may have happened all the same.
    pub fn is_open(&self) -> bool {
        matches!(self.kind(), Failure::Server | Failure::Unknown)
    }

    /// Whether the API server itself said that this object doesn't exist; `resource` is its plural.
    ///
    /// Not any 404 will do: whatever stands in front of an API server answers like that too, and so does one that
    /// doesn't serve the kind yet.
    pub fn says_absent(&self, resource: &str, name: &str) -> bool {
        let Self::Api(kube::Error::Api(status)) = self else {
            return false;
        };
        let about = status.details.as_ref();
        status.code == 404
            && status.reason == "NotFound"
            && about.is_some_and(|about| about.kind == resource && about.name == name)
    }

    /// Text of the API server's answer, or of the error, without debug noise: fit for events and
    /// conditions.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

impl Failure {
    /// The kind of a `kube` error.
    pub fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return match error {
                // What couldn't even be sent, or was answered with something unreadable, says
                // nothing about the object.
                kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => Self::Invalid,
                _ => Self::Unknown,
            };
        };
        match status.code {
            404 => Self::NotFound,
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists,
            409 => Self::Conflict,
            410 => Self::Expired,
            401 | 403 => Self::Forbidden,
            400 | 422 => Self::Invalid,
            429 => Self::Throttled,
            _ => Self::Server,
        }
    }
}

/// Whether a deletion was answered with the API server's word that this very object is gone; `resource` is its plural.
///
/// Of an object that finalizers keep, the object itself comes back. A success that names nothing proves nothing.
pub fn says_deleted(status: &Status, resource: &str, name: &str, uid: &str) -> bool {
    let about = status.details.as_ref();
    let names =
        |about: &StatusDetails| about.kind == resource && about.name == name && about.uid == uid;
    status.is_success() && about.is_some_and(names)
}

/// A live GET: `None` only if the API server itself said that the object doesn't exist ([`CallError::says_absent`]).
pub async fn find<T>(
    limit: Duration,
    get: impl Future<Output = Result<T, kube::Error>>,
    resource: &str,
    name: &str,
) -> Result<Option<T>, CallError> {
    match within(limit, get).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.says_absent(resource, name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs `call`, for at most `limit`.
pub async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(CallError::TimedOut(limit)),
    }
}

/// Says in one line what a `kube` error is; its own text repeats the whole status as debug output.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("status {} {}", status.code, status.reason),
        // Its own text quotes what couldn't be read, which may be anybody's and of any length.
        kube::Error::SerdeError(error) => format!(
            "the answer can't be read: {} at line {}, column {}",
            match error.classify() {
                Category::Data => "another type than expected",
                Category::Syntax | Category::Eof | Category::Io => "no JSON",
            },
            error.line(),
            error.column()
        ),
        other => certificate::refused(other).map_or_else(
            || chain(other),
            |why| format!("the server's certificate is refused: {why}"),
        ),
    }
}

/// An error and what caused it.
fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn api_error(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("no luck", reason).with_code(code).boxed())
    }

    #[test]
    fn failures_are_told_apart() {
        for (code, reason, want) in [
            (404, "NotFound", Failure::NotFound),
            (409, "AlreadyExists", Failure::AlreadyExists),
            (409, "Conflict", Failure::Conflict),
            (410, "Expired", Failure::Expired),
            (403, "Forbidden", Failure::Forbidden),
            (401, "Unauthorized", Failure::Forbidden),
            (422, "Invalid", Failure::Invalid),
            (429, "TooManyRequests", Failure::Throttled),
            (500, "InternalError", Failure::Server),
            (504, "Timeout", Failure::Server),
        ] {
            let error = CallError::from(api_error(code, reason));
            assert_eq!(error.kind(), want, "{code} {reason}");
            assert_eq!(error.is_open(), code >= 500, "{code}");
            assert_eq!(error.message(), "no luck");
        }
    }

    #[test]
    fn only_the_api_servers_own_word_proves_absence() {
        let status = |reason: &str, kind: &str, name: &str| {
            let details = StatusDetails {
                kind: kind.into(),
                name: name.into(),
                group: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            };
            let status = Status::failure("gone", reason)
                .with_code(404)
                .with_details(details);
            CallError::Api(kube::Error::Api(status.boxed()))
        };
        for (reason, kind, name, want) in [
            ("NotFound", "podchaperons", "web-1", true),
            ("NotFound", "podchaperons", "web-2", false),
            ("NotFound", "namespaces", "web-1", false),
            ("", "", "", false),
        ] {
            assert_eq!(
                status(reason, kind, name).says_absent("podchaperons", "web-1"),
                want
            );
        }
    }

    #[test]
    fn a_success_proves_the_end_of_what_it_names() {
        let named = |kind: &str, name: &str, uid: &str| {
            let details = json!({ "kind": kind, "name": name, "uid": uid });
            json!({ "status": "Success", "details": details })
        };
        let mut failed = named("podchaperons", "web-1", "u");
        failed["status"] = json!("Failure");
        for (said, want) in [
            (named("podchaperons", "web-1", "u"), true),
            (named("podchaperons", "web-1", "another"), false),
            (named("podchaperons", "web-1", ""), false),
            (named("podchaperons", "web-2", "u"), false),
            (named("pods", "web-1", "u"), false),
            (json!({ "status": "Success" }), false),
            (failed, false),
            (json!({}), false),
        ] {
            let status: Status = serde_json::from_value(said.clone()).unwrap();
            let is = says_deleted(&status, "podchaperons", "web-1", "u");
            assert_eq!(is, want, "{said}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_quoted() {
        let error = serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err();
        let text = describe(&kube::Error::SerdeError(error));
        assert!(
            text.contains("another type") && !text.contains("hunter2"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_answer_ends_with_an_open_outcome() {
        let limit = Duration::from_secs(3);
        let call = std::future::pending::<Result<(), kube::Error>>();
        let error = within(limit, call).await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut(l) if l == limit));
        assert!(error.is_open());
    }
}
