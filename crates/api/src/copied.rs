//! Which annotations a proxy pod has from its delegate, with a fingerprint of each value.
//!
//! It lives in the annotation [`crate::keys::COPIED`] of the proxy pod as a JSON object, and is written together with
//! those that it names: what isn't in there, or has another value by now, is somebody else's word. What may be copied
//! is the proxy state machine's affair.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde_json::Value;
use thiserror::Error;

use crate::{annotations::LONGEST_KEY, names::digits};

/// Most annotations that are copied to one pod.
pub const MOST: usize = 64;

/// Hexadecimal digits of a fingerprint: nobody finds a second value that has the same.
const DIGITS: usize = 32;
/// Quotes, colon and comma of an entry.
const PUNCTUATION: usize = 6;
/// Longest text of a full record.
pub const LONGEST: usize = MOST * (LONGEST_KEY + DIGITS + PUNCTUATION) + 2;

/// The annotations that were copied, at most [`MOST`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied(BTreeMap<String, String>);

/// The annotation is none that we have written.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("no JSON object of at most {MOST} fingerprints")]
pub struct CopiedError;

impl Copied {
    /// The first [`MOST`] of these annotations.
    pub fn of<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let entry = |(key, value): (&str, &str)| (key.to_owned(), digits(value, DIGITS));
        Self(annotations.into_iter().take(MOST).map(entry).collect())
    }

    /// Whether this annotation was copied, and is as it was then.
    pub fn has(&self, key: &str, value: &str) -> bool {
        let known = self.0.get(key);
        known.is_some_and(|known| *known == digits(value, DIGITS))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that the entry of a key takes in the text.
    pub fn entry_bytes(key: &str) -> usize {
        key.len().saturating_add(DIGITS + PUNCTUATION)
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.iter();
        let all = all.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        Value::Object(all.collect()).fmt(f)
    }
}

impl FromStr for Copied {
    type Err = CopiedError;

    fn from_str(text: &str) -> Result<Self, CopiedError> {
        if text.len() > LONGEST {
            return Err(CopiedError);
        }
        let all: BTreeMap<String, String> = serde_json::from_str(text).map_err(|_| CopiedError)?;
        if all.len() > MOST {
            return Err(CopiedError);
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_wire_and_knows_its_values() {
        let copied = Copied::of([("cni", "10.0.0.1"), ("b", "")]);
        let text = copied.to_string();
        assert_eq!(text.parse(), Ok(copied.clone()));
        assert!(copied.has("cni", "10.0.0.1"));
        assert!(!copied.has("cni", "10.0.0.2"), "it was changed");
        assert!(!copied.has("team", "10.0.0.1"));
        // A brace, and no comma after the last.
        let entries: usize = copied.keys().map(|key| Copied::entry_bytes(key)).sum();
        assert_eq!(text.len(), entries + 1);
    }

    #[test]
    fn it_is_bounded() {
        let many: Vec<String> = (0..100).map(|n| format!("{n:0>LONGEST_KEY$}")).collect();
        let copied = Copied::of(many.iter().map(|key| (&**key, "x")));
        assert_eq!(copied.keys().count(), MOST);
        assert!(copied.to_string().len() <= LONGEST);
        assert_eq!(copied.to_string().parse(), Ok(copied));

        let hundred: BTreeMap<_, _> = (0..100).map(|n| (n.to_string(), "x")).collect();
        let hundred = serde_json::to_string(&hundred).unwrap();
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST));
        let deep = "[".repeat(10_000);
        for text in ["", "a", "[]", "{\"a\":1}", &hundred, &long, &deep] {
            assert_eq!(text.parse::<Copied>(), Err(CopiedError));
        }
    }
}
