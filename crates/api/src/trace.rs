//! The context of a pod's trace: which trace its spans belong to, and under which span those of another cluster belong.
//!
//! It lives in the annotation [`crate::keys::TRACEPARENT`] of a chaperon, in the form of W3C Trace Context (version
//! 00). All ids follow from UIDs and names, so that nobody keeps them: whoever takes over goes on with the same trace.
//! What is measured, and who exports it, is decided elsewhere.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// `00-` trace `-` span `-` flags: as long as each of version 00 is.
const LENGTH: usize = 55;
/// The flag that the sender exports its spans.
const SAMPLED: u8 = 1;

/// Identity of a trace: never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId([u8; 16]);

/// Identity of a span within its trace: never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// The trace of the proxy pod with this UID: the UID without its dashes, so that people find it by the pod; of what
    /// is no UUID, a digest.
    pub fn of_pod(uid: &str) -> Self {
        let id = of_uuid(uid).unwrap_or_else(|| digest(&[uid]));
        Self(if id == [0; 16] { digest(&[uid]) } else { id })
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// The span that these words name: the same words give the same span.
    pub fn of(words: &[&str]) -> Self {
        Self(digest(words))
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

/// The bytes of a UUID as each API server writes it.
fn of_uuid(text: &str) -> Option<[u8; 16]> {
    let dashes = [8, 13, 18, 23];
    let is_form = text.len() == 36 && dashes.iter().all(|at| text.as_bytes()[*at] == b'-');
    is_form.then(|| bytes(&text.replace('-', "")))?
}

/// The bytes that lower-case hexadecimal digits stand for, if they are as many as are wanted.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

/// The first bytes of a digest of all words; no digest that anybody has seen begins with so many zeros.
fn digest<const N: usize>(words: &[&str]) -> [u8; N] {
    let digest = Sha256::digest(words.join("/").as_bytes());
    let mut bytes = [0; N];
    bytes
        .iter_mut()
        .zip(digest)
        .for_each(|(to, from)| *to = from);
    bytes
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(f, &self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(f, &self.0)
    }
}

/// Where spans of another cluster belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// Their trace.
    pub trace: TraceId,
    /// The span that they are children of.
    pub span: SpanId,
    /// Whether that span is exported.
    pub sampled: bool,
}

/// Why a text is no context. It isn't shown: anybody may have written it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "not of the form 00-<32 hexadecimal digits>-<16 hexadecimal digits>-<2 hexadecimal digits>, or zero"
)]
pub struct TraceParentError;

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        read(text).ok_or(TraceParentError)
    }
}

fn read(text: &str) -> Option<TraceParent> {
    if text.len() != LENGTH {
        return None;
    }
    let mut parts = text.split('-');
    if parts.next()? != "00" {
        return None;
    }
    let trace = bytes(parts.next()?).filter(|id| *id != [0; 16])?;
    let span = bytes(parts.next()?).filter(|id| *id != [0; 8])?;
    let [flags] = bytes(parts.next()?)?;
    parts.next().is_none().then_some(TraceParent {
        trace: TraceId(trace),
        span: SpanId(span),
        sampled: flags & SAMPLED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6f8e2c0a-9f0b-4c7e-8a39-1d2b7c5e4f60";

    #[test]
    fn a_pods_trace_is_its_uid() {
        let trace = TraceId::of_pod(UID);
        assert_eq!(trace.to_string(), UID.replace('-', ""));
        let zero = "00000000-0000-0000-0000-000000000000";
        for odd in [zero, "5f6c", "", &UID.to_uppercase(), &"é".repeat(18)] {
            let trace = TraceId::of_pod(odd);
            assert_eq!(trace, TraceId::of_pod(odd), "{odd:?}");
            assert_ne!(trace.bytes(), [0; 16], "{odd:?}");
        }
        assert_ne!(TraceId::of_pod("5f6c"), TraceId::of_pod("5f6d"));
    }

    #[test]
    fn spans_follow_from_words() {
        let span = SpanId::of(&[UID, "pod"]);
        assert_eq!(span, SpanId::of(&[UID, "pod"]));
        assert_ne!(span, SpanId::of(&[UID, "queue"]));
        assert_eq!(span.to_string().len(), 16);
    }

    #[test]
    fn a_context_survives_the_wire() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceParent = text.parse().unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), text);
        let unsampled: TraceParent = text.replace("-01", "-00").parse().unwrap();
        assert!(!unsampled.sampled);
        // Flags of tomorrow are no reason to start another trace.
        let tomorrow: TraceParent = text.replace("-01", "-03").parse().unwrap();
        assert_eq!(tomorrow, context);
    }

    #[test]
    fn anything_else_is_none() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for bad in [
            "",
            &good[..54],
            &format!("{good}0"),
            &good.to_uppercase(),
            &good.replacen("00-", "ff-", 1),
            &good.replacen("00-", "01-", 1),
            &good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &good.replace("-01", "-0g"),
            &good.replace("-01", "--1"),
            &good.replace("4bf9", "é4b"),
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(TraceParentError), "{bad:?}");
        }
    }
}
