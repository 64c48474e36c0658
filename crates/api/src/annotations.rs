//! What the API server takes as annotations: their keys, and how long they may be.
//!
//! Whose a key is stands in [`crate::keys`].

use std::collections::BTreeMap;

/// Longest total of all annotations' keys and values, in bytes.
pub const LIMIT: usize = 256 * 1024;
/// What is left of that to all who write on an object themselves, however much is copied to it from another.
const RESERVE: usize = 16 * 1024;
/// Longest total of an object's annotations after some were copied to it from another.
pub const LIMIT_WITH_COPIES: usize = LIMIT - RESERVE;

/// Longest name of a qualified name.
const LONGEST_NAME: usize = 63;
/// Longest domain in front of it.
const LONGEST_DOMAIN: usize = 253;
/// Longest qualified name, with domain and slash.
pub const LONGEST_KEY: usize = LONGEST_DOMAIN + 1 + LONGEST_NAME;

/// Whether an annotation may have this key: a qualified name, whose case doesn't matter.
pub fn is_key(text: &str) -> bool {
    text.len() <= LONGEST_KEY && is_qualified_name(&text.to_ascii_lowercase())
}

/// Whether `text` is a qualified name, `name` or `domain/name`: the form of labels' keys and conditions' types.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && is_name(name),
        None => is_name(text),
    }
}

/// Whether a label may have this value: nothing, or a name without a domain.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Bytes that annotations take, as the API server counts them.
pub fn bytes<'a>(annotations: impl IntoIterator<Item = (&'a String, &'a String)>) -> usize {
    let sizes = annotations.into_iter().map(|(key, value)| size(key, value));
    sizes.fold(0, usize::saturating_add)
}

/// Bytes of one annotation.
pub fn size(key: &str, value: &str) -> usize {
    key.len().saturating_add(value.len())
}

/// As many of these annotations as fit into `room`, in the order of their keys; `extra` bytes come to each.
pub fn fitting<'a>(
    annotations: impl IntoIterator<Item = (&'a String, &'a String)>,
    mut room: usize,
    extra: impl Fn(&str) -> usize,
) -> BTreeMap<&'a str, &'a str> {
    let all: BTreeMap<&str, &str> = annotations
        .into_iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    let fits = |(key, value): &(&str, &str)| {
        let needed = size(key, value).saturating_add(extra(key));
        let left = room.checked_sub(needed);
        room = left.unwrap_or(room);
        left.is_some()
    };
    all.into_iter().filter(fits).collect()
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LONGEST_NAME && is_framed(text, |byte| byte.is_ascii_alphanumeric(), inner)
}

/// Whether an API server takes it for a DNS subdomain, as most objects' names are.
pub fn is_subdomain(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label| is_framed(label, outer, |byte| outer(byte) || byte == b'-');
    text.len() <= LONGEST_DOMAIN && text.split('.').all(is_label)
}

/// Whether a text can be the name of a namespace: an RFC 1123 label.
pub fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_NAME && !text.contains('.') && is_subdomain(text)
}

/// Whether all of a text is `inner`, and its ends, which it has, are `outer`.
fn is_framed(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    let framed = ends.iter().all(|end| end.is_some_and(|byte| outer(*byte)));
    framed && bytes.iter().all(|byte| inner(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_the_api_servers() {
        let long = |count| "x".repeat(count);
        for (text, want) in [
            ("a".to_owned(), true),
            ("Ready".to_owned(), true),
            ("example.com/My_name.1-x".to_owned(), true),
            (long(63), true),
            (format!("{}/{}", long(253), long(63)), true),
            (String::new(), false),
            ("/a".to_owned(), false),
            ("a/".to_owned(), false),
            ("a/b/c".to_owned(), false),
            ("-a".to_owned(), false),
            ("a.".to_owned(), false),
            ("a b".to_owned(), false),
            ("ä".to_owned(), false),
            ("a..b/c".to_owned(), false),
            ("a_b/c".to_owned(), false),
            ("Example.com/a".to_owned(), false),
            (long(64), false),
            (format!("{}/a", long(254)), false),
        ] {
            assert_eq!(is_qualified_name(&text), want, "{text:?}");
        }
        for (text, want) in [
            (String::new(), true),
            ("eu-west-1".to_owned(), true),
            ("A_b.c".to_owned(), true),
            ("a b".to_owned(), false),
            ("a/b".to_owned(), false),
            ("-a".to_owned(), false),
            (long(63), true),
            (long(64), false),
        ] {
            assert_eq!(is_label_value(&text), want, "{text:?}");
        }
        let names = [
            ("web-1".to_owned(), true, true),
            (long(63), true, true),
            (long(64), true, false),
            ("a.b-c.d".to_owned(), true, false),
            (long(253), true, false),
            (long(254), false, false),
        ];
        let none = [
            "", ".", "..", "a..b", "A", "a_b", "-a", "a-", "a/b", "a?b", "é",
        ];
        let none = none.map(|text| (text.to_owned(), false, false));
        for (text, subdomain, label) in names.into_iter().chain(none) {
            let is = (is_subdomain(&text), is_label(&text));
            assert_eq!(is, (subdomain, label), "{text:?}");
        }
        assert!(is_key("Example.COM/a"), "case doesn't matter");
        assert!(!is_key("a b"));
    }

    #[test]
    fn what_fits_is_chosen_by_key() {
        let all: BTreeMap<String, String> = [("c", "3"), ("a", "1"), ("b", "22222222")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let kept = |room| -> Vec<_> {
            let kept = fitting(&all, room, |_| 1);
            kept.into_keys().collect()
        };
        assert_eq!(kept(0), [""; 0]);
        assert_eq!(kept(5), ["a"]);
        assert_eq!(kept(6), ["a", "c"]);
        assert_eq!(kept(16), ["a", "b", "c"]);
        assert_eq!(bytes(&all), 13);
    }
}
