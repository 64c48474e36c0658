//! How long names and lists may be that users write, and how a longer one is told. It is checked where the text is
//! read; what stands behind may rely on it, and cuts all the same.
//!
//! Must not know what a name means.

use thiserror::Error;

use crate::{annotations, bounds, keys};

/// Longest value of a label in bytes, and so of all that is compared with one: regions, zones, providers.
pub const LABEL: usize = 63;
/// Longest name of most objects in bytes: a DNS subdomain.
pub const SUBDOMAIN: usize = 253;
/// Longest key of a label or an annotation in bytes: a subdomain, a slash and a name.
pub const KEY: usize = annotations::LONGEST_KEY;
/// Longest name of a user, in bytes. Some providers of identities put an address into it.
pub const USER: usize = 1024;
/// Rights in a Source's list: each of them some times over.
pub const RIGHTS: usize = 16;
/// How many names one list may have.
pub const LISTED: usize = 64;
/// Longest list of names as it is written, blanks and all, in bytes.
pub const LIST: usize = 8 * 1024;
/// Longest fragment of a `PodSpec` in an annotation, in bytes.
pub const FRAGMENT: usize = 64 * 1024;
/// Longest regular expression, in bytes.
pub const PATTERN: usize = 1024;
/// Longest message of a condition that tells other people's words, in bytes; the API server takes 32,768.
pub const MESSAGE: usize = 2000;
/// Longest duration, in bytes.
pub const DURATION: usize = 64;
/// What is kept of a pod's chaperon where it is watched, labels, annotations and status, may take so much memory, by
/// the estimate of whoever keeps it.
pub const CHAPERON_KEPT: usize = 1 << 20;
/// A whole one, as its source writes it, with what its API server notes of who owns which field.
pub const CHAPERON_WHOLE: usize = 6 << 20;
/// How much of a text that is too long is told.
const TOLD: usize = 32;

/// A text or a list is too long.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TooLong {
    /// A text.
    #[error("{start:?}… has {length} bytes, and may have {limit}")]
    Text {
        /// How it begins.
        start: String,
        /// How long it is.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A list.
    #[error("it has more than {limit} entries")]
    List {
        /// How many there may be.
        limit: usize,
    },
}

/// Whether a text has at most `limit` bytes.
pub fn text(text: &str, limit: usize) -> Result<(), TooLong> {
    if text.len() <= limit {
        return Ok(());
    }
    Err(TooLong::Text {
        start: bounds::cut(text, TOLD).to_owned(),
        length: text.len(),
        limit,
    })
}

/// The names in a list that separates them by commas, none of them empty.
pub fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Whether a list of names, separated by commas, is short enough, and each of its names, too.
pub fn list(list: &str) -> Result<(), TooLong> {
    text(list, LIST)?;
    for (number, name) in names(list).enumerate() {
        if number == LISTED {
            return Err(TooLong::List { limit: LISTED });
        }
        text(name, LABEL)?;
    }
    Ok(())
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A name.
    Name,
    /// Names, separated by commas.
    Names,
    /// Any text of at most so many bytes.
    Text(usize),
}

/// Annotations of ours that users write on pods, and what each may hold.
const WRITTEN: [(&str, Form); 7] = [
    (keys::REGION, Form::Name),
    (keys::CLOUD_PROVIDER, Form::Name),
    (keys::ZONES, Form::Names),
    (keys::ACCESS_RESTRICTIONS, Form::Names),
    (keys::PROXY_CONSTRAINTS, Form::Text(FRAGMENT)),
    (keys::NO_PREFIX_LABEL_REGEXP, Form::Text(PATTERN)),
    (keys::REPLACE_AFTER, Form::Text(DURATION)),
];

/// The first of a pod's or a Target's annotations that is longer than it may be: its key, and by how much. Annotations
/// that mean nothing to Pilotage are nobody's business here.
pub fn annotations<'a>(
    value: impl Fn(&'static str) -> Option<&'a str>,
) -> Result<(), (&'static str, TooLong)> {
    for (key, form) in WRITTEN {
        let Some(value) = value(key) else { continue };
        let checked = match form {
            Form::Name => text(value.trim(), LABEL),
            Form::Names => list(value),
            Form::Text(limit) => text(value, limit),
        };
        checked.map_err(|error| (key, error))?;
    }
    Ok(())
}

/// Longest value that each of these annotations may have on any account, in bytes: what a policy can check that knows
/// no lists. They are those whose values are compared with labels.
///
/// A policy counts characters: its `size()` lets up to four times as many bytes pass. That does no harm: it keeps long
/// texts from being stored, and whoever reads one counts its bytes again.
pub fn longest_places() -> [(&'static str, usize); 4] {
    [
        (keys::REGION, LABEL),
        (keys::CLOUD_PROVIDER, LABEL),
        (keys::ZONES, LIST),
        (keys::ACCESS_RESTRICTIONS, LIST),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_is_told_in_few_words() {
        let long = "é".repeat(100_000);
        let error = text(&long, LABEL).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{:?}… has 200000 bytes, and may have 63", "é".repeat(16))
        );
        assert_eq!(text(&"x".repeat(63), LABEL), Ok(()));
        assert!(text(&"x".repeat(64), LABEL).is_err());
    }

    #[test]
    fn annotations_are_checked_by_what_they_hold() {
        let name = |length: usize| "n".repeat(length);
        let names = |count: usize| vec![name(63); count].join(" , ");
        for (key, value, good) in [
            (keys::REGION, format!("  {}  ", name(63)), true),
            (keys::REGION, name(64), false),
            (keys::CLOUD_PROVIDER, name(90_000), false),
            (keys::ZONES, names(64), true),
            (keys::ZONES, names(65), false),
            (keys::ZONES, ",".repeat(200_000), false),
            (keys::ACCESS_RESTRICTIONS, format!("a,{}", name(64)), false),
            (keys::PROXY_CONSTRAINTS, name(FRAGMENT), true),
            (keys::PROXY_CONSTRAINTS, name(FRAGMENT + 1), false),
            (keys::NO_PREFIX_LABEL_REGEXP, name(PATTERN + 1), false),
            (keys::REPLACE_AFTER, name(DURATION + 1), false),
            ("example.com/note", name(200_000), true),
        ] {
            let value = value.as_str();
            let checked = annotations(|asked| (asked == key).then_some(value));
            assert_eq!(checked.is_ok(), good, "{key}: {}", value.len());
            if let Err((told, error)) = checked {
                assert_eq!(told, key);
                assert!(error.to_string().len() < 128, "{error}");
            }
        }
    }
}
