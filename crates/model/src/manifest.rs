//! The saved manifest: the source pod as YAML in the annotation [`keys::SOURCE_POD_MANIFEST`] of its proxy.
//!
//! Owns rendering and reading of that text. What goes into it, and who may write it, is the webhook's affair; what
//! becomes of it in a target is the delegate's.

use pilotage_api::keys;
use serde_json::Value;
use thiserror::Error;

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
}

/// A place in the text of an annotation; it renders as `, line 2, column 5`, or as nothing if it isn't known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(pub Option<(u64, u64)>);

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    (position, reason)
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

    /// Reads a manifest's text.
    pub fn parse(manifest: &str) -> Result<Self, ManifestError> {
        let pod: Value = serde_saphyr::from_str(manifest).map_err(|error| {
            let (position, reason) = explain(&error);
            ManifestError::Yaml { position, reason }
        })?;
        Self::new(pod)
    }

    /// The manifest's text.
    pub fn render(&self) -> Result<String, ManifestError> {
        serde_saphyr::to_string(&self.0).map_err(|error| ManifestError::Write(error.to_string()))
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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_pod_survives_the_manifest(value in any_json()) {
            let pod = pod_with(&value);
            let text = pod.render().unwrap();
            prop_assert_eq!(SourcePod::parse(&text).unwrap(), pod, "{}", text);
        }
    }
}
