//! What a server gives to go on from: the version of a watch, and the token of a list's next page.
//!
//! Both are kept until they come back to the server in a URL. What no API server gives would be kept for nothing, as
//! long as it is, and no URL could hold it: it is refused where it is read.

use std::fmt;

/// Digits of a version: those of 64 bits, which is what API servers count with.
const DIGITS: usize = 20;
/// Bytes of a token. An API server's holds a version and where an object is, which is shorter than a KiB.
pub(super) const TOKEN: usize = 4 << 10;

/// The version up to which a watch has told everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    /// `None`: it is no version.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_number = text.len() <= DIGITS && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then_some(text)?.parse().ok().map(Self)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether an API server might have given this token.
pub(super) fn is_token(text: &str) -> bool {
    text.len() <= TOKEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_number_of_64_bits() {
        for text in ["0", "1", "1234567", "18446744073709551615"] {
            let position = Position::parse(text).map(|it| it.to_string());
            assert_eq!(position.as_deref(), Some(text));
        }
        let long = "1".repeat(1 << 20);
        for text in [
            "",
            "x",
            "+1",
            "-1",
            " 1",
            "1.0",
            "18446744073709551616",
            "000000000000000000001",
            "١",
            &long,
        ] {
            assert_eq!(
                Position::parse(text),
                None,
                "{}",
                &text[..text.len().min(30)]
            );
        }
        assert!(is_token(&"x".repeat(4096)) && !is_token(&"x".repeat(4097)));
    }
}
