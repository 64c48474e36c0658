//! The kinds that a hostile server has, and which of their objects a request means. Pure.

use std::collections::HashMap;

use http::Uri;
use pilotage_api::{GROUP, VERSION};
use serde_json::Value;

use crate::fault::Call;

/// A kind of object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) name: &'static str,
    pub(super) plural: &'static str,
}

/// What a source asks a target for.
pub(super) static KINDS: [Kind; 4] = [
    Kind {
        group: GROUP,
        version: VERSION,
        name: "PodChaperon",
        plural: "podchaperons",
    },
    Kind {
        group: GROUP,
        version: VERSION,
        name: "ClusterSummary",
        plural: "clustersummaries",
    },
    Kind {
        group: "",
        version: "v1",
        name: "Pod",
        plural: "pods",
    },
    Kind {
        group: "",
        version: "v1",
        name: "ConfigMap",
        plural: "configmaps",
    },
];

impl Kind {
    /// The kind that a request is about.
    pub(super) fn of_call(call: &Call) -> Option<&'static Self> {
        let is_it =
            |kind: &&Self| kind.plural == call.resource && call.path.starts_with(&kind.base());
        KINDS.iter().find(is_it)
    }

    /// The kind that an object says it is of.
    pub(super) fn of_object(object: &Value) -> Option<&'static Self> {
        let is_it = |kind: &&Self| {
            object["kind"] == kind.name && object["apiVersion"] == kind.api_version()
        };
        KINDS.iter().find(is_it)
    }

    /// The kind whose resource is called so.
    pub(super) fn of_plural(plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn base(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}/", self.version)
        } else {
            format!("/apis/{}/{}/", self.group, self.version)
        }
    }
}

/// What the query of a request says, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(HashMap<String, String>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        Self(
            pairs
                .filter_map(|pair| pair.split_once('='))
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        )
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1"))
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (_, Some(decoded)) => {
                out.push(decoded);
                at += 2;
            }
            (b'+', None) => out.push(b' '),
            (other, None) => out.push(*other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The objects that a list or watch asks for.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) kind: &'static Kind,
    namespace: Option<String>,
    labels: Vec<Requirement>,
    /// Names of fields, and what they have to be.
    fields: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Is(String, String),
    IsNot(String, String),
    Exists(String),
    Lacks(String),
}

impl Selection {
    /// `None` if a selector isn't one of those that are known here.
    pub(super) fn of(kind: &'static Kind, namespace: Option<&str>, query: &Query) -> Option<Self> {
        let parts = |key| {
            let text = query.get(key).unwrap_or_default();
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
        };
        let fields = parts("fieldSelector").map(|part| {
            let (field, value) = part.split_once('=')?;
            let known = matches!(field, "metadata.name" | "metadata.namespace");
            known.then(|| (field.to_owned(), value.trim_start_matches('=').to_owned()))
        });
        Some(Self {
            kind,
            namespace: namespace.map(str::to_owned),
            labels: parts("labelSelector")
                .map(requirement)
                .collect::<Option<_>>()?,
            fields: fields.collect::<Option<_>>()?,
        })
    }

    /// Whether an object of the kind is one of them.
    pub(super) fn includes(&self, object: &Value) -> bool {
        let meta = &object["metadata"];
        let labels = &meta["labels"];
        let label = |key: &str| labels.get(key).and_then(Value::as_str);
        let fits = |requirement: &Requirement| match requirement {
            Requirement::Is(key, value) => label(key) == Some(value.as_str()),
            Requirement::IsNot(key, value) => label(key) != Some(value.as_str()),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Lacks(key) => label(key).is_none(),
        };
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|namespace| meta["namespace"] == **namespace)
            && self.labels.iter().all(fits)
            && self.fields.iter().all(|(field, value)| {
                let field = field.trim_start_matches("metadata.");
                meta[field] == **value
            })
    }
}

fn requirement(text: &str) -> Option<Requirement> {
    if text.contains(['(', ')', ' ']) {
        return None;
    }
    Some(if let Some(key) = text.strip_prefix('!') {
        Requirement::Lacks(key.to_owned())
    } else if let Some((key, value)) = text.split_once("!=") {
        Requirement::IsNot(key.to_owned(), value.to_owned())
    } else if let Some((key, value)) = text.split_once('=') {
        let value = value.trim_start_matches('=');
        Requirement::Is(key.to_owned(), value.to_owned())
    } else {
        Requirement::Exists(text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    fn selection(query: &str) -> Option<Selection> {
        let query = Query::of(&format!("/x?{query}").parse().unwrap());
        Selection::of(&KINDS[0], Some("shop"), &query)
    }

    #[test]
    fn selectors_mean_what_api_servers_mean_by_them() {
        let object = json!({ "metadata": {
            "name": "a", "namespace": "shop", "labels": { "g.io/k": "v", "other": "" },
        } });
        for (query, included) in [
            ("", true),
            ("labelSelector=g.io%2Fk%3Dv", true),
            ("labelSelector=g.io%2Fk%3D%3Dv%2Cother", true),
            ("labelSelector=g.io%2Fk%3Dw", false),
            ("labelSelector=g.io%2Fk!%3Dw&limit=500", true),
            ("labelSelector=g.io%2Fk%2C%21other", false),
            ("labelSelector=%21nothing", true),
            ("fieldSelector=metadata.name%3Da", true),
            ("fieldSelector=metadata.name%3Db", false),
        ] {
            let is = selection(query).unwrap().includes(&object);
            assert_eq!(is, included, "{query}");
        }
        let elsewhere = json!({ "metadata": { "name": "a", "namespace": "bank" } });
        assert!(!selection("").unwrap().includes(&elsewhere));
        assert!(selection("labelSelector=k+in+%28a%29").is_none());
        assert!(selection("fieldSelector=spec.nodeName%3Dn").is_none());
    }

    #[test]
    fn a_kind_is_served_at_its_own_path_only() {
        let call = |path: &str| Call::of(&Method::GET, &path.parse().unwrap());
        let chaperons = format!("/apis/{GROUP}/{VERSION}/podchaperons");
        for (path, name) in [
            (&*chaperons, Some("PodChaperon")),
            ("/api/v1/namespaces/n/pods/p", Some("Pod")),
            ("/apis/g/v1/podchaperons", None),
            ("/api/v1/namespaces/n/pods/p/log", None),
            ("/readyz", None),
        ] {
            let kind = Kind::of_call(&call(path)).map(|kind| kind.name);
            assert_eq!(kind, name, "{path}");
        }
        let pod = json!({ "apiVersion": "v1", "kind": "Pod" });
        assert_eq!(Kind::of_object(&pod).unwrap().plural, "pods");
        assert_eq!(Kind::of_object(&json!({ "kind": "Pod" })), None);
    }
}
