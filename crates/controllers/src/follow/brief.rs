//! What is known of an object that is kept: see [`super::kinds::trim`].

use pilotage_api::parent::{ClusterUid, ParentLink};

use super::kinds::{DIGEST, Followed, IMMUTABLE, TYPE};

/// An object in brief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Brief {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) deleting: bool,
    pub(super) digest: String,
    pub(super) immutable: bool,
    /// What its author wants isn't known.
    pub(super) unreadable: bool,
    /// Of a Secret; of a Service, whether it is headless.
    pub(super) type_: Option<String>,
    /// What it is a copy of, if it says so.
    pub(super) link: Option<ParentLink>,
}

impl Brief {
    /// Of an object that was trimmed.
    pub(super) fn of<K: Followed>(object: &K) -> Self {
        let meta = object.meta();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            digest: annotation(DIGEST).cloned().unwrap_or_default(),
            immutable: annotation(IMMUTABLE).is_some(),
            unreadable: !object.is_readable(),
            type_: annotation(TYPE).cloned(),
            link: ParentLink::of(meta),
        }
    }

    /// Whether the source `cluster` made it as a copy of the object of this namespace and name: somebody may have made
    /// another object of one, with all its marks.
    pub(super) fn is_copy_of(&self, cluster: &ClusterUid, namespace: &str, name: &str) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| {
            link.cluster_uid.as_ref() == Some(cluster) && link.leads_to(namespace, name)
        })
    }

    /// Whether a source without an identity, as Admiralty is, made it as a copy of this very object of that namespace
    /// and name: other such sources copy to the same places.
    pub(super) fn is_plain_copy_of(&self, source: &Self, namespace: &str, name: &str) -> bool {
        let link = self.link.as_ref();
        let is_linked = link.is_some_and(|link| {
            link.cluster_uid.is_none() && link.uid == source.uid && link.leads_to(namespace, name)
        });
        // Where a target leads home, an object that says so of itself is still its author's.
        is_linked && !source.uid.is_empty() && self.uid != source.uid
    }

    /// UID of its parent.
    pub(super) fn parent(&self) -> Option<&str> {
        Some(&self.link.as_ref()?.uid)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use pilotage_api::keys;
    use serde_json::json;

    use super::super::kinds::trim;
    use super::*;

    #[test]
    fn nothing_of_a_secrets_content_is_kept() {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": {
                "name": "s", "namespace": "n", "uid": "u", "resourceVersion": "3",
                "labels": { keys::PARENT_UID: "p", keys::PARENT_CLUSTER_UID: "c", "hunter2": "x" },
                "annotations": { keys::PARENT_NAME: "s", keys::PARENT_NAMESPACE: "n", "note": "hunter2" },
            },
            "type": "Opaque",
            "immutable": true,
            "data": { "password": "aHVudGVyMg==" },
            "stringData": { "password": "hunter2" },
        }))
        .unwrap();
        trim(&mut secret);
        let text = serde_json::to_string(&secret).unwrap();
        assert!(
            !text.contains("hunter2") && !text.contains("aHVudGVyMg"),
            "{text}"
        );
        let brief = Brief::of(&secret);
        assert_eq!((brief.uid.as_str(), brief.version.as_str()), ("u", "3"));
        assert!(brief.immutable && !brief.deleting);
        assert_eq!(brief.type_.as_deref(), Some("Opaque"));
        assert_eq!(brief.parent(), Some("p"));
        let is = |cluster: &str, namespace: &str, name: &str| {
            brief.is_copy_of(&ClusterUid(cluster.into()), namespace, name)
        };
        assert!(is("c", "n", "s"));
        assert!(!is("d", "n", "s"));
        assert!(
            !is("c", "n", "clone") && !is("c", "other", "s"),
            "a clone is somebody's own"
        );
        assert_eq!(brief.digest.len(), 64);
    }

    #[test]
    fn a_copy_without_a_source_is_known_by_the_uid_of_the_very_object() {
        let brief = |uid: &str, labels: serde_json::Value| {
            let mut map: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(json!({
                "metadata": {
                    "name": "m", "namespace": "n", "uid": uid, "labels": labels,
                    "annotations": { keys::PARENT_NAME: "m", keys::PARENT_NAMESPACE: "n" },
                },
            }))
            .unwrap();
            trim(&mut map);
            Brief::of(&map)
        };
        let source = brief("p", json!({}));
        let plain = brief(
            "c",
            json!({ keys::PARENT_UID: "p", keys::PARENT_CLUSTER_NAME: "" }),
        );
        assert!(plain.is_plain_copy_of(&source, "n", "m"));
        assert!(!plain.is_plain_copy_of(&source, "n", "clone"));
        assert!(!plain.is_plain_copy_of(&source, "other", "m"));
        let made_anew = brief("q", json!({}));
        assert!(!plain.is_plain_copy_of(&made_anew, "n", "m"));
        let ours = json!({ keys::PARENT_UID: "p", keys::PARENT_CLUSTER_UID: "s" });
        assert!(!brief("c", ours).is_plain_copy_of(&source, "n", "m"));
        let itself = brief("p", json!({ keys::PARENT_UID: "p" }));
        assert!(!itself.is_plain_copy_of(&itself, "n", "m"));
        let nobodys = brief("", json!({}));
        let of_nobody = brief("c", json!({ keys::PARENT_UID: "" }));
        assert!(!of_nobody.is_plain_copy_of(&nobodys, "n", "m"));
    }
}
