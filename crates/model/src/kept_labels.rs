//! Which labels of a pod keep their key in the target: the regular expression in its author's annotation
//! [`keys::NO_PREFIX_LABEL_REGEXP`], read where the pod is admitted and again where its chaperon is made.
//!
//! Must not know how the other keys are spelled ([`crate::labels`]).

use pilotage_api::keys;
use thiserror::Error;

use crate::label_pattern::{LabelPattern, PatternError};
use crate::manifest::Position;

/// The annotation is no regular expression over labels.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("annotation {}{position}: {reason}", keys::NO_PREFIX_LABEL_REGEXP)]
pub struct RegexpError {
    /// Where the mistake is; not known if the whole of it is too large.
    pub position: Position,
    /// What it is.
    pub reason: String,
}

impl From<PatternError> for RegexpError {
    fn from(error: PatternError) -> Self {
        let PatternError { position, reason } = error;
        Self { position, reason }
    }
}

/// Reads the annotation's value.
pub fn parse(pattern: &str) -> Result<LabelPattern, RegexpError> {
    Ok(LabelPattern::parse(pattern)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_the_annotation() {
        let error = parse("app=(").unwrap_err().to_string();
        let key = keys::NO_PREFIX_LABEL_REGEXP;
        assert_eq!(
            error,
            format!("annotation {key}, line 1, column 5: unclosed group")
        );
    }
}
