//! Which labels of a pod keep their key in the target: the regular expression in its author's annotation
//! [`keys::NO_PREFIX_LABEL_REGEXP`], read where the pod is admitted and again where its chaperon is made.
//!
//! Must not know how the other keys are spelled ([`crate::labels`]).

use pilotage_api::keys;
use regex::Regex;
use thiserror::Error;

use crate::manifest::Position;

/// The annotation is no regular expression, or one that would take too much memory.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("annotation {}{position}: {reason}", keys::NO_PREFIX_LABEL_REGEXP)]
pub struct RegexpError {
    /// Where the mistake is; not known if the whole of it is too large.
    pub position: Position,
    /// What it is.
    pub reason: String,
}

/// Reads the annotation's value.
pub fn parse(pattern: &str) -> Result<Regex, RegexpError> {
    // regex tells positions only as a drawing of several lines; the parser behind it tells them as numbers.
    if let Err(error) = regex_syntax::parse(pattern) {
        return Err(explain(&error));
    }
    Regex::new(pattern).map_err(|error| RegexpError {
        position: Position(None),
        reason: match error {
            regex::Error::CompiledTooBig(limit) => {
                format!(
                    "the expression is too large: compiled, it would take more than {limit} bytes"
                )
            }
            other => other.to_string(),
        },
    })
}

fn explain(error: &regex_syntax::Error) -> RegexpError {
    let (start, reason) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start, error.kind().to_string()),
        other => {
            return RegexpError {
                position: Position(None),
                reason: other.to_string(),
            };
        }
    };
    RegexpError {
        position: Position(Some((start.line as u64, start.column as u64))),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_with_their_position() {
        for (pattern, position, reason) in [
            ("app=(", ", line 1, column 5", "unclosed group"),
            (
                "a\n[z-a]",
                ", line 2, column 2",
                "invalid character class range",
            ),
            ("^team=*+?{2}\\q", ", line 1, column 13", "escape"),
            ("\\p{Nonsense}", ", line 1, column 1", "Unicode property"),
            ("(?=ahead)", ", line 1, column 1", "look-around"),
            ("(\\w{500}){500}", "", "too large"),
        ] {
            let error = parse(pattern).unwrap_err();
            assert_eq!(error.position.to_string(), position, "{pattern}: {error}");
            let message = error.to_string();
            assert!(
                message.starts_with(&format!(
                    "annotation {}{position}: ",
                    keys::NO_PREFIX_LABEL_REGEXP
                )),
                "{message}"
            );
            assert!(message.contains(reason), "{pattern}: {message}");
            assert!(!message.contains('\n'), "{pattern}: {message:?}");
        }
    }

    #[test]
    fn what_is_no_mistake_is_taken() {
        for pattern in ["", "^team=", "zone=(a|b)$", "(?i)APP", "\\p{Greek}"] {
            assert!(parse(pattern).is_ok(), "{pattern}");
        }
    }
}
