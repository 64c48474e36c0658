//! The record: which candidate a proxy pod was, or is about to be, granted to.
//!
//! It lives in the annotation [`crate::keys::GRANTED_TO`] of the proxy pod as `<virtual node>/<chaperon UID>/<attempt>`
//! and is written by compare-and-swap before each grant. When it may change is the proxy state machine's affair.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::annotations::is_subdomain;
use crate::bounds::{MOST_ATTEMPTS, cut, is_uid};

/// So much of a damaged record is shown.
const SHOWN: usize = 100;

/// A choice, recorded: this attempt of this chaperon behind this virtual node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// Name of the virtual node.
    pub node: String,
    /// UID of the chaperon.
    pub chaperon_uid: String,
    /// The granted attempt; `None` (`-` on the wire) for a target that numbers no attempts.
    pub attempt: Option<u64>,
}

/// Why an annotation is no record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// Not three parts divided by slashes, or one of the first two is none that a node, or an object, has.
    #[error("granted-to {0:?} is not of the form <virtual node>/<chaperon UID>/<attempt>")]
    Form(String),
    /// The third part is neither `-` nor a positive decimal.
    #[error("attempt {attempt:?} in granted-to {record:?} is neither '-' nor a positive number")]
    Attempt {
        /// The whole annotation.
        record: String,
        /// Its third part.
        attempt: String,
    },
}

impl RecordError {
    fn form(text: &str) -> Self {
        Self::Form(cut(text, SHOWN).to_owned())
    }
}

impl Record {
    /// Whether it names the chaperon with this UID behind this virtual node: a UID is one cluster's word.
    pub fn names(&self, node: &str, chaperon_uid: &str) -> bool {
        self.node == node && self.chaperon_uid == chaperon_uid
    }

    /// Whether the chaperon that it names has this UID, behind whichever virtual node it is seen: several Targets may
    /// lead to one cluster, and show the same chaperon. A reason to spare it, none to believe it.
    pub fn spares(&self, chaperon_uid: &str) -> bool {
        self.chaperon_uid == chaperon_uid
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.node, self.chaperon_uid)?;
        match self.attempt {
            Some(attempt) => write!(f, "{attempt}"),
            None => f.write_str("-"),
        }
    }
}

impl FromStr for Record {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let mut parts = text.split('/');
        let (Some(node), Some(uid), Some(attempt), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(RecordError::form(text));
        };
        if !is_subdomain(node) || !is_uid(uid) {
            return Err(RecordError::form(text));
        }
        let bad_attempt = || RecordError::Attempt {
            record: cut(text, SHOWN).to_owned(),
            attempt: cut(attempt, SHOWN).to_owned(),
        };
        let attempt = match attempt {
            "-" => None,
            // `parse` would take a sign as well.
            digits => match digits.parse::<u64>() {
                Ok(n) if !digits.starts_with('+') && n > 0 && n <= MOST_ATTEMPTS => Some(n),
                _ => return Err(bad_attempt()),
            },
        };
        Ok(Self {
            node: node.to_owned(),
            chaperon_uid: uid.to_owned(),
            attempt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_wire() {
        for text in ["admiralty-default-c1/5f6c/3", "admiralty-c2/aa-bb/-"] {
            assert_eq!(text.parse::<Record>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn damaged_records_are_named() {
        for text in [
            "",
            "a",
            "a/b",
            "a/b/1/2",
            "/b/1",
            "a//1",
            "A b/c/1",
            "a/x y\n/1",
        ] {
            assert_eq!(
                text.parse::<Record>(),
                Err(RecordError::Form(text.to_owned())),
                "{text:?}"
            );
        }
        for attempt in ["0", "x", "", "-1", "+1"] {
            let text = format!("a/b/{attempt}");
            assert!(
                matches!(text.parse::<Record>(), Err(RecordError::Attempt { .. })),
                "{text:?}"
            );
        }
    }
}
