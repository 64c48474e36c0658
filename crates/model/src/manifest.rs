//! The saved manifest: the source pod as YAML in the annotation [`keys::SOURCE_POD_MANIFEST`] of its proxy.
//!
//! Owns rendering and reading of that text. What goes into it, and who may write it, is the webhook's affair; what
//! becomes of it in a target is the delegate's.

use std::fmt;

use pilotage_api::{annotations, bounds, keys};
use serde_json::Value;
use thiserror::Error;

/// Longest manifest in bytes: no longer annotation passes the API server.
pub const LONGEST: usize = annotations::LIMIT;
/// How many values a manifest may have: keys, texts, numbers, lists, mappings. So many take 25 ms to read at most; a
/// pod with three thousand variables has as many.
const VALUES: usize = 16 * 1024;
/// How deep they may be nested.
const DEPTH: usize = 48;
/// How much is told of what is wrong with a text, in bytes.
const TOLD: usize = 512;

/// A pod as its author meant it: what the proxy stands for and the delegate is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcePod(Value);

/// Why a proxy pod tells no source pod.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ManifestError {
    /// The pod carries no manifest.
    #[error("the pod has no annotation {}", keys::SOURCE_POD_MANIFEST)]
    Missing,
    /// The manifest is no YAML.
    #[error("annotation {}{position}: {reason}", keys::SOURCE_POD_MANIFEST)]
    Yaml {
        /// Where the mistake is.
        position: Position,
        /// What it is.
        reason: String,
    },
    /// The manifest is YAML, but no pod.
    #[error(
        "annotation {} holds no pod: {missing} is missing",
        keys::SOURCE_POD_MANIFEST
    )]
    NoPod {
        /// What a pod would have there.
        missing: &'static str,
    },
    /// The pod can't be written as YAML.
    #[error("the pod can't be written as YAML: {0}")]
    Write(String),
    /// It is longer than an annotation may be, or too much to be read again.
    #[error("a pod's manifest has {LONGEST} bytes at most, {VALUES} values and {DEPTH} levels")]
    TooLarge,
}

/// A place in the text of an annotation; it renders as `, line 2, column 5`, or as nothing if it isn't known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(pub Option<(u64, u64)>);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, ", line {line}, column {column}"),
            None => Ok(()),
        }
    }
}

/// What a YAML error says, without the position, and where.
pub(crate) fn explain(error: &serde_saphyr::Error) -> (Position, String) {
    let position = Position(error.location().map(|at| (at.line(), at.column())));
    let bare = error.without_snippet().to_string();
    // The parser repeats the position in its text; ours stands in front.
    let reason = match bare.rsplit_once(" at line ") {
        Some((reason, rest)) if rest.contains("column") => reason.to_owned(),
        _ => bare,
    };
    let told = bounds::cut(&reason, TOLD);
    (position, told.to_owned())
}

/// A text of bounded length.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.is_full |= self.text.len().saturating_add(text.len()) > LONGEST;
        if self.is_full {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Whether a value has no more than so many levels, and no more than `left` values.
fn is_readable(value: &Value, levels: usize, left: &mut usize) -> bool {
    let own = match value {
        Value::Object(fields) => fields.len().saturating_add(1),
        _ => 1,
    };
    let (Some(rest), below) = (left.checked_sub(own), levels.checked_sub(1)) else {
        return false;
    };
    *left = rest;
    match (value, below) {
        (Value::Array(_) | Value::Object(_), None) => false,
        (Value::Array(items), Some(below)) => {
            items.iter().all(|item| is_readable(item, below, left))
        }
        (Value::Object(fields), Some(below)) => {
            fields.values().all(|field| is_readable(field, below, left))
        }
        _ => true,
    }
}

impl SourcePod {
    /// Takes an object that looks like a pod: one with metadata and a list of containers.
    pub fn new(pod: Value) -> Result<Self, ManifestError> {
        let missing = if !pod.is_object() {
            Some("the object itself")
        } else if !pod["metadata"].is_object() {
            Some("metadata")
        } else if !pod["spec"].is_object() {
            Some("spec")
        } else if !pod["spec"]["containers"].is_array() {
            Some("spec.containers")
        } else {
            None
        };
        match missing {
            Some(missing) => Err(ManifestError::NoPod { missing }),
            None => Ok(Self(pod)),
        }
    }

    /// Reads a manifest's text. Nobody writes one with anchors.
    pub fn parse(manifest: &str) -> Result<Self, ManifestError> {
        if manifest.len() > LONGEST {
            return Err(ManifestError::TooLarge);
        }
        let options = serde_saphyr::options! {
            with_snippet: false,
            budget: serde_saphyr::budget! {
                max_depth: DEPTH,
                flow_nesting_limit: DEPTH,
                max_nodes: VALUES,
                max_anchors: 0,
                max_aliases: 0,
                max_merge_keys: 0,
                max_documents: 1,
            },
        };
        let pod: Value =
            serde_saphyr::from_str_with_options(manifest, options).map_err(|error| {
                let (position, reason) = explain(&error);
                ManifestError::Yaml { position, reason }
            })?;
        Self::new(pod)
    }

    /// The manifest's text. What would be too long is given up on the way.
    pub fn render(&self) -> Result<String, ManifestError> {
        let mut left = VALUES;
        if !is_readable(&self.0, DEPTH, &mut left) {
            return Err(ManifestError::TooLarge);
        }
        let mut written = Bounded::default();
        match serde_saphyr::to_fmt_writer(&mut written, &self.0) {
            Ok(()) => Ok(written.text),
            Err(_) if written.is_full => Err(ManifestError::TooLarge),
            Err(error) => Err(ManifestError::Write(error.to_string())),
        }
    }

    /// The pod.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The pod, to be changed.
    pub fn into_value(self) -> Value {
        self.0
    }
}

/// The text of a pod's manifest, if it carries one.
pub fn text_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][keys::SOURCE_POD_MANIFEST].as_str()
}

/// The source pod that a proxy stands for.
pub fn from_proxy(proxy: &Value) -> Result<SourcePod, ManifestError> {
    SourcePod::parse(text_of(proxy).ok_or(ManifestError::Missing)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod_with(value: &Value) -> SourcePod {
        SourcePod::new(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "web", "annotations": { "odd": value } },
            "spec": { "containers": [{ "name": "a", "image": "b" }], "tolerations": [] },
        }))
        .unwrap()
    }

    #[test]
    fn words_that_other_yaml_readers_take_for_something_else_are_quoted() {
        // What YAML 1.1 reads as booleans, numbers, times and null must be quoted: plain Admiralty reads manifests so.
        for word in [
            "yes",
            "on",
            "null",
            "~",
            "1e3",
            "0o17",
            "12:30:45",
            "1_000",
            "2001-01-01",
            "=",
        ] {
            let text = pod_with(&json!(word)).render().unwrap();
            let line = text.lines().find(|line| line.contains("odd:")).unwrap();
            assert!(line.contains('"') || line.contains('\''), "{line}");
        }
    }

    #[test]
    fn a_proxy_gives_its_source_pod() {
        let source = pod_with(&json!("x: y\n# no comment"));
        let proxy = json!({ "metadata": { "annotations": {
            keys::SOURCE_POD_MANIFEST: source.render().unwrap()
        } } });
        assert_eq!(from_proxy(&proxy), Ok(source));
    }

    #[test]
    fn what_is_no_manifest_is_explained() {
        let proxy = |text: &str| json!({ "metadata": { "annotations": { keys::SOURCE_POD_MANIFEST: text } } });
        for (text, want) in [
            ("a: [", "line "),
            ("metadata:\n\t- x", "line 2"),
            ("[]", "the object itself is missing"),
            ("spec: {}", "metadata is missing"),
            ("metadata: {}", "spec is missing"),
            ("{metadata: {}, spec: {}}", "spec.containers is missing"),
            ("a: 1\na: 2", "line 2, column 1"),
        ] {
            let error = from_proxy(&proxy(text)).unwrap_err().to_string();
            assert!(error.contains(keys::SOURCE_POD_MANIFEST), "{error}");
            assert!(error.contains(want), "{text:?}: {error}");
        }
        assert_eq!(from_proxy(&json!({})), Err(ManifestError::Missing));
    }

    #[test]
    fn what_is_too_large_is_neither_written_nor_read() {
        let nested = |levels: usize| (1..levels).fold(json!([]), |inner, _| json!([inner]));
        for (value, good) in [
            (json!("x".repeat(LONGEST)), false),
            (json!("\u{1}".repeat(LONGEST / 2)), false),
            (json!(vec![json!([]); VALUES]), false),
            (json!(vec![""; 60_000]), false),
            (nested(DEPTH - 3), true),
            (nested(DEPTH - 2), false),
            (json!("x".repeat(LONGEST / 2)), true),
        ] {
            let pod = pod_with(&value);
            let text = pod.render();
            assert_eq!(text.is_ok(), good);
            if let Ok(text) = text {
                assert_eq!(SourcePod::parse(&text), Ok(pod));
            }
        }
        let long = format!("a: {}", "x".repeat(LONGEST));
        assert_eq!(SourcePod::parse(&long), Err(ManifestError::TooLarge));
        let bombs = [
            "a: &a [x]\nb: [*a, *a]".to_owned(),
            "a: &a {x: y}\nb: {<<: *a}".to_owned(),
            "[".repeat(10_000),
            "- ".repeat(10_000),
            "? ".repeat(10_000),
            "{? ".repeat(1000),
            "- \n".repeat(VALUES + 1),
            format!("a: {}", "\"\\u".repeat(10_000)),
            format!("{}: 1\n{}: 2", "k".repeat(100_000), "k".repeat(100_000)),
        ];
        for text in bombs {
            let error = SourcePod::parse(&text).unwrap_err().to_string();
            assert!(error.len() < 1024, "{}: {error}", bounds::cut(&text, 20));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~\n\t]{0,120}".prop_map(Value::from),
            "[-:#&*!|>'\"%@`{}\\[\\], \n]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(
                any in "\\PC{0,60}", near in "([a-z<]{0,2}|[:?&*!|>'\"%@`{}\\[\\],# -]|\n {0,3}){0,60}",
                bytes in prop::collection::vec(any::<u8>(), 0..60),
            ) {
                for text in [&any, &near, &String::from_utf8_lossy(&bytes).into_owned()] {
                    if let Err(error) = SourcePod::parse(text) {
                        prop_assert!(error.to_string().len() < 1024, "{}", error);
                    }
                }
            }

            #[test]
            fn every_pod_survives_the_manifest(value in any_json()) {
                let pod = pod_with(&value);
                let text = pod.render().unwrap();
                prop_assert_eq!(SourcePod::parse(&text).unwrap(), pod, "{}", text);
            }
        }
    }
}
