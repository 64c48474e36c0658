//! What the copy of an object looks like in a target: its content, its labels and annotations, and the link to its
//! parent.
//!
//! A copy keeps its author's labels and annotations as they are: the pods that use it name it, and select nothing. Left
//! out is what means something only where it was written, see [`kept`].

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::parent::ParentLink;
use pilotage_api::{keys, names};
use serde::Serialize;
use thiserror::Error;

use super::selector::SelectorError;
use crate::kept_labels::RegexpError;

/// What `kubectl apply` sent last: it holds a whole object, and is for its next call alone.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keys that would mean something else in a target than where they were written: those that make a table of regions
/// there.
const LEFT_OUT: [&str; 3] = [
    LAST_APPLIED,
    keys::REGION_TABLE_LABEL,
    keys::REGION_TABLE_FOR,
];

/// Secrets of these types are their own cluster's: a token is of no use elsewhere, and may do much at home.
const TOKENS: [&str; 2] = [
    "kubernetes.io/service-account-token",
    "bootstrap.kubernetes.io/token",
];

/// The most that a copy may take as text, which is less than what is read of any target's object.
const LONGEST: usize = 2 << 20;

/// Why an object isn't copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotCopied {
    /// It is a token of this cluster.
    #[error("a Secret of type {0} is a token of this cluster and never leaves it")]
    Token(String),
    /// The selector of its author isn't known.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Its author's word on labels can't be read.
    #[error(transparent)]
    Regexp(#[from] RegexpError),
    /// It is a copy itself, or nothing that could be copied.
    #[error("it is a copy itself, or has nothing to follow")]
    NeverFollows,
    /// Whoever watches the target couldn't read it.
    #[error("it takes more than {} MiB as an API server writes it", LONGEST >> 20)]
    TooLarge,
}

/// What two objects have to have in common so that one is a copy of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// SHA-256 of all that is copied, but for the link.
    pub digest: String,
    /// Whether it may be changed at all.
    pub immutable: bool,
    /// What never changes: the type of a Secret, whether a Service is headless.
    pub type_: Option<String>,
}

/// All that is copied of an object, in a form that is the same for equal ones.
#[derive(Serialize)]
struct Canonical<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    annotations: BTreeMap<&'a str, &'a str>,
    text: Option<&'a BTreeMap<String, String>>,
    bytes: Option<&'a BTreeMap<String, ByteString>>,
    immutable: bool,
    type_: Option<&'a str>,
}

impl Content {
    /// Of a `ConfigMap`.
    pub fn of_config_map(object: &ConfigMap) -> Self {
        Self::of(
            &object.metadata,
            object.data.as_ref(),
            object.binary_data.as_ref(),
            object.immutable,
            None,
        )
    }

    /// Of a Secret.
    pub fn of_secret(object: &Secret) -> Self {
        let (data, type_) = (object.data.as_ref(), object.type_.as_deref());
        Self::of(&object.metadata, None, data, object.immutable, type_)
    }

    fn of(
        meta: &ObjectMeta,
        text: Option<&BTreeMap<String, String>>,
        bytes: Option<&BTreeMap<String, ByteString>>,
        immutable: Option<bool>,
        type_: Option<&str>,
    ) -> Self {
        let immutable = immutable.unwrap_or_default();
        let canonical = Canonical {
            labels: kept(meta.labels.as_ref()),
            annotations: kept(meta.annotations.as_ref()),
            text: text.filter(|it| !it.is_empty()),
            bytes: bytes.filter(|it| !it.is_empty()),
            immutable,
            type_,
        };
        // Maps of texts can always be written.
        let text = serde_json::to_string(&canonical).unwrap_or_default();
        Self {
            digest: names::digest(&text),
            immutable,
            type_: type_.map(str::to_owned),
        }
    }
}

/// Labels or annotations that are copied: not ours, and none that are left out.
pub(super) fn kept(all: Option<&BTreeMap<String, String>>) -> BTreeMap<&str, &str> {
    let all = all.into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.as_str()))
        .filter(|(key, _)| !keys::is_ours(key) && !LEFT_OUT.contains(key))
        .collect()
}

/// The copy of a `ConfigMap`; an error, if it is too large.
pub fn config_map(source: &ConfigMap, link: &ParentLink) -> Result<ConfigMap, NotCopied> {
    fitting(ConfigMap {
        metadata: metadata(&source.metadata, link),
        data: source.data.clone(),
        binary_data: source.binary_data.clone(),
        immutable: source.immutable,
    })
}

/// The copy, unless it is longer as text than may be read of a target. An API server writes some characters with six
/// bytes where we write one, so that texts of 1 MiB may become six times as long.
pub(super) fn fitting<K: Serialize>(copy: K) -> Result<K, NotCopied> {
    const ESCAPED: usize = 5;
    let text = serde_json::to_string(&copy).map_err(|_| NotCopied::TooLarge)?;
    let escaped = text
        .bytes()
        .filter(|byte| matches!(byte, b'<' | b'>' | b'&'));
    // Line and paragraph separators are three bytes long.
    let separators = text.matches(['\u{2028}', '\u{2029}']);
    let more = escaped.count().saturating_add(separators.count());
    let length = text.len().saturating_add(more.saturating_mul(ESCAPED));
    (length <= LONGEST)
        .then_some(copy)
        .ok_or(NotCopied::TooLarge)
}

/// The copy of a Secret; an error, if it must not leave its cluster or is too large.
pub fn secret(source: &Secret, link: &ParentLink) -> Result<Secret, NotCopied> {
    let type_ = source.type_.as_deref().unwrap_or_default();
    if TOKENS.contains(&type_) {
        return Err(NotCopied::Token(type_.to_owned()));
    }
    fitting(Secret {
        metadata: metadata(&source.metadata, link),
        data: source.data.clone(),
        immutable: source.immutable,
        type_: source.type_.clone(),
        string_data: None,
    })
}

fn metadata(source: &ObjectMeta, link: &ParentLink) -> ObjectMeta {
    let owned = |kept: BTreeMap<&str, &str>, link: BTreeMap<String, String>| {
        let kept = kept.into_iter();
        let kept = kept.map(|(key, value)| (key.to_owned(), value.to_owned()));
        kept.chain(link).collect()
    };
    ObjectMeta {
        name: source.name.clone(),
        namespace: source.namespace.clone(),
        labels: Some(owned(kept(source.labels.as_ref()), link.labels())),
        annotations: Some(owned(kept(source.annotations.as_ref()), link.annotations())),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::parent::ClusterUid;
    use serde_json::{Value, json};

    use super::*;

    fn link() -> ParentLink {
        ParentLink {
            cluster_uid: Some(ClusterUid("s1".into())),
            cluster_name: None,
            uid: "u1".into(),
            namespace: "shop".into(),
            name: "settings".into(),
        }
    }

    fn object(value: &Value) -> ConfigMap {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn settings() -> Value {
        json!({
            "metadata": {
                "name": "settings", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                "labels": { "app": "web", keys::HAS_FINALIZER: "true" },
                "annotations": { "team": "a", LAST_APPLIED: "{}" },
                "finalizers": ["x/y"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o" }],
            },
            "data": { "a": "1" },
            "binaryData": { "b": "AAE=" },
        })
    }

    #[test]
    fn a_copy_has_the_content_and_the_link_and_nothing_of_its_home() {
        let copy = config_map(&object(&settings()), &link()).unwrap();
        let copied = serde_json::to_value(&copy).unwrap();
        assert_eq!(
            copied,
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "settings",
                    "namespace": "shop",
                    "labels": { "app": "web", keys::PARENT_UID: "u1", keys::PARENT_CLUSTER_UID: "s1" },
                    "annotations": { "team": "a", keys::PARENT_NAME: "settings", keys::PARENT_NAMESPACE: "shop" },
                },
                "data": { "a": "1" },
                "binaryData": { "b": "AAE=" },
            })
        );
        let source = Content::of_config_map(&object(&settings()));
        assert_eq!(Content::of_config_map(&copy), source, "they are in step");
    }

    #[test]
    fn any_difference_that_a_reader_could_see_is_one() {
        let same = Content::of_config_map(&object(&settings()));
        for (path, value) in [
            ("/data/a", json!("2")),
            ("/data", json!({ "a": "1", "c": "" })),
            ("/binaryData/b", json!("AAI=")),
            ("/metadata/labels/app", json!("shop")),
            ("/metadata/annotations/team", json!("b")),
        ] {
            let mut other = settings();
            *other.pointer_mut(path).unwrap() = value;
            assert_ne!(Content::of_config_map(&object(&other)), same, "{path}");
        }
        let mut immutable = settings();
        immutable["immutable"] = json!(true);
        assert_ne!(Content::of_config_map(&object(&immutable)), same);
        for (path, value) in [
            ("/metadata/resourceVersion", json!("8")),
            ("/metadata/uid", json!("u2")),
            ("/metadata/finalizers", json!([])),
        ] {
            let mut other = settings();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(Content::of_config_map(&object(&other)), same, "{path}");
        }
    }

    #[test]
    fn what_would_be_too_long_on_the_wire_is_not_copied() {
        let of = |character: char, count: usize| {
            let text: String = std::iter::repeat_n(character, count).collect();
            let map = object(&json!({ "metadata": { "name": "m" }, "data": { "k": text } }));
            config_map(&map, &link()).is_ok()
        };
        let most = 1 << 20;
        assert!(of('x', most));
        assert!(of('<', most / 4) && !of('<', most));
        assert!(of('\u{1}', most / 4) && !of('\u{1}', most));
        assert!(of('\u{2028}', most / 8) && !of('\u{2028}', most / 3));
    }

    #[test]
    fn tokens_of_a_cluster_never_leave_it() {
        let of = |type_: &str| Secret {
            type_: Some(type_.to_owned()),
            ..Secret::default()
        };
        for type_ in TOKENS {
            let error = secret(&of(type_), &link()).unwrap_err();
            assert!(error.to_string().contains(type_), "{error}");
        }
        let copy = secret(&of("kubernetes.io/dockerconfigjson"), &link()).unwrap();
        assert_eq!(
            copy.type_.as_deref(),
            Some("kubernetes.io/dockerconfigjson")
        );
    }
}
