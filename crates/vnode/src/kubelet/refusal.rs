//! What a caller is told instead of a stream: a status and one short line.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use pilotage_clusters::{StreamError, Target};
use pilotage_runtime::call::CallError;

/// Characters of the line.
const LONGEST: usize = 1000;

/// Why there is no stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The line.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    /// What was asked can't be read.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// What was asked for isn't there.
    pub(crate) fn absent(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// This cluster's own API server doesn't do its part.
    pub(crate) fn local(what: &str, error: &CallError) -> Self {
        let text = format!("{what}: {}", error.message());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// A target that can't be asked, or didn't answer as it should.
    pub(crate) fn of_target(target: &Target, status: StatusCode, why: &str) -> Self {
        Self::new(status, format!("target {}: {why}", target.key()))
    }

    /// The same for who asks for logs: an API server tells its users the text of a kubelet's failure with these two
    /// statuses, and with no others.
    pub(crate) fn of_logs(self) -> Self {
        let status = if self.status.is_client_error() {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        Self { status, ..self }
    }

    /// No stream came of it.
    pub(crate) fn of_stream(target: &Target, error: &StreamError) -> Self {
        let status = match error {
            StreamError::Refused(status) => passed_on(status.code),
            StreamError::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
            StreamError::Broken(_) | StreamError::Misbehaving(_) => StatusCode::BAD_GATEWAY,
        };
        Self::of_target(target, status, &error.to_string())
    }
}

/// The target's status, but for one: that it doesn't know us isn't the caller's affair, who would log in again.
fn passed_on(code: u16) -> StatusCode {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    let is_failure = status.is_client_error() || status.is_server_error();
    if status == StatusCode::UNAUTHORIZED || !is_failure {
        StatusCode::BAD_GATEWAY
    } else {
        status
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let shown = |it: char| if it.is_control() { ' ' } else { it };
        let mut text: String = self.text.chars().map(shown).take(LONGEST).collect();
        text.push('\n');
        let kind = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
        (self.status, kind, text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_does_not_know_us_sends_nobody_to_log_in() {
        for (code, want) in [
            (401, 502),
            (403, 403),
            (404, 404),
            (500, 500),
            (200, 502),
            (7, 502),
        ] {
            assert_eq!(passed_on(code).as_u16(), want, "{code}");
        }
    }
}
