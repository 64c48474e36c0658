//! What is left of the text of a failing reply: its Kubernetes Status, cut to what an API server's has; of any other
//! text nothing, since a Target may lead to anything, and what failed is told to others.

use http::StatusCode;
use hyper::body::Bytes;
use kube::core::Status;
use kube::core::response::{StatusDetails, StatusSummary};

use super::asked::Types;

/// Bytes of such a text that are read.
pub(super) const BYTES: usize = 64 << 10;
/// Characters of a message: those of API servers that one wants to read have fewer.
const MESSAGE: usize = 500;
/// Characters of a name or a reason, the most that any kind allows.
const NAME: usize = 253;

/// The Status that stands for the reply.
pub(super) fn tidy(code: StatusCode, text: &[u8]) -> Bytes {
    let status = read(text).unwrap_or_else(|| {
        let message = format!("status {}, without a reason", code.as_u16());
        Status::failure(&message, "")
    });
    let status = Status {
        status: Some(StatusSummary::Failure),
        // One word for one reply: what is concluded from a code must not be another than what is seen of it elsewhere.
        code: code.as_u16(),
        ..status
    };
    // It is made of strings and numbers.
    serde_json::to_vec(&status).unwrap_or_default().into()
}

fn read(text: &[u8]) -> Option<Status> {
    let types: Types = serde_json::from_slice(text).ok()?;
    if !types.is_status() {
        return None;
    }
    let status: Status = serde_json::from_slice(text).ok()?;
    Some(Status {
        message: cut(&status.message, MESSAGE),
        reason: cut(&status.reason, NAME),
        metadata: None,
        details: status.details.map(|details| StatusDetails {
            name: cut(&details.name, NAME),
            group: cut(&details.group, NAME),
            kind: cut(&details.kind, NAME),
            uid: cut(&details.uid, NAME),
            causes: Vec::new(),
            retry_after_seconds: details.retry_after_seconds,
        }),
        ..status
    })
}

fn cut(text: &str, most: usize) -> String {
    let shown = |it: char| if it.is_control() { ' ' } else { it };
    text.chars().map(shown).take(most).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tidied(code: u16, text: &str) -> Status {
        let code = StatusCode::from_u16(code).unwrap();
        serde_json::from_slice(&tidy(code, text.as_bytes())).unwrap()
    }

    #[test]
    fn only_a_status_is_passed_on() {
        for text in [
            "<html>internal wiki</html>",
            "",
            "{}",
            r#"{"message":"internal wiki","reason":"x"}"#,
            r#"{"kind":"Status","message":"internal wiki"}"#,
            r#"{"kind":"Secret","apiVersion":"v1","message":"internal wiki"}"#,
            "\u{1}\u{2}",
        ] {
            let status = tidied(403, text);
            assert_eq!(status.message, "status 403, without a reason", "{text}");
            assert_eq!((status.code, status.reason.as_str()), (403, ""));
        }
    }

    #[test]
    fn a_status_keeps_its_word_and_proof_within_bounds() {
        let text = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 200, "reason": "NotFound",
            "message": "a\u{1b}\n".repeat(9999), "metadata": { "continue": "x" },
            "details": { "name": "web", "kind": "podchaperons", "causes": [{ "message": "long" }] },
        });
        let status = tidied(404, &text.to_string());
        assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
        assert!(status.is_failure() && status.metadata.is_none());
        assert_eq!(status.message.chars().count(), MESSAGE);
        assert!(!status.message.contains(char::is_control));
        let details = status.details.unwrap();
        assert_eq!(
            (details.name.as_str(), details.kind.as_str()),
            ("web", "podchaperons")
        );
        assert!(details.causes.is_empty());
    }
}
