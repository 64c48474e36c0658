//! The link from an object in a target to its parent in the source, written by one function and read by one.
//!
//! Owner references don't cross clusters, so labels and annotations carry the link. A source is known by the UID of its
//! kube-system namespace ([`ClusterUid`]): nobody touches an object that carries another source's.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::annotations::{is_label, is_label_value, is_subdomain};
use crate::bounds::is_uid;
use crate::keys;

/// Identity of a cluster: the UID of its kube-system namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterUid(pub String);

impl fmt::Display for ClusterUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where an object's parent lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentLink {
    /// UID of the source cluster; `None` on objects that a plain Admiralty source made.
    pub cluster_uid: Option<ClusterUid>,
    /// Name of the source cluster, as its operators call it; may be absent.
    pub cluster_name: Option<String>,
    /// UID of the parent.
    pub uid: String,
    /// Namespace of the parent.
    pub namespace: String,
    /// Name of the parent.
    pub name: String,
}

impl ParentLink {
    /// Reads the link of an object; `None` if a part that both systems write is missing, or can't be any object's UID,
    /// namespace or name: they become parts of paths and labels.
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key)).cloned();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|a| a.get(key)).cloned();
        let link = Self {
            cluster_uid: label(keys::PARENT_CLUSTER_UID).map(ClusterUid),
            cluster_name: label(keys::PARENT_CLUSTER_NAME).filter(|name| !name.is_empty()),
            uid: label(keys::PARENT_UID)?,
            namespace: annotation(keys::PARENT_NAMESPACE)?,
            name: annotation(keys::PARENT_NAME)?,
        };
        link.is_well_formed().then_some(link)
    }

    fn is_well_formed(&self) -> bool {
        self.cluster_uid.as_ref().is_none_or(|uid| is_uid(&uid.0))
            && self.cluster_name.as_deref().is_none_or(is_label_value)
            && is_uid(&self.uid)
            && is_label(&self.namespace)
            && is_subdomain(&self.name)
    }

    /// The labels that carry the link.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(keys::PARENT_UID.to_owned(), self.uid.clone())]);
        if let Some(uid) = &self.cluster_uid {
            labels.insert(keys::PARENT_CLUSTER_UID.to_owned(), uid.0.clone());
        }
        if let Some(name) = &self.cluster_name {
            labels.insert(keys::PARENT_CLUSTER_NAME.to_owned(), name.clone());
        }
        labels
    }

    /// The annotations that carry the link.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (keys::PARENT_NAME.to_owned(), self.name.clone()),
            (keys::PARENT_NAMESPACE.to_owned(), self.namespace.clone()),
        ])
    }

    /// Whether the parent has this namespace and name, as that of a copy under its parent's own name has.
    pub fn leads_to(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.as_str(), self.name.as_str()) == (namespace, name)
    }

    /// Whether the source `cluster` may touch the object: it is its own, or carries no source's UID at all.
    pub fn belongs_to(&self, cluster: &ClusterUid) -> bool {
        self.cluster_uid.as_ref().is_none_or(|uid| uid == cluster)
    }
}

/// Label selector for the objects that the source `cluster` made in a target.
pub fn selector_of_source(cluster: &ClusterUid) -> String {
    format!("{}={}", keys::PARENT_CLUSTER_UID, cluster)
}

/// Label selector for the objects of sources that don't name themselves, which Admiralty's are.
pub fn selector_of_plain_sources() -> String {
    format!("{},!{}", keys::PARENT_UID, keys::PARENT_CLUSTER_UID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> ParentLink {
        ParentLink {
            cluster_uid: Some(ClusterUid("s1".into())),
            cluster_name: Some("paris".into()),
            uid: "u1".into(),
            namespace: "shop".into(),
            name: "web-1".into(),
        }
    }

    #[test]
    fn the_link_survives_the_wire() {
        let meta = ObjectMeta {
            labels: Some(link().labels()),
            annotations: Some(link().annotations()),
            ..Default::default()
        };
        assert_eq!(ParentLink::of(&meta), Some(link()));
    }

    #[test]
    fn a_link_without_its_parent_is_none() {
        let meta = ObjectMeta {
            labels: Some(link().labels()),
            ..Default::default()
        };
        assert_eq!(ParentLink::of(&meta), None);
    }

    #[test]
    fn a_link_that_leads_out_of_its_place_is_none() {
        let changes: [fn(&mut ParentLink); 10] = [
            |link| link.name = "?watch=true".into(),
            |link| link.name = "..".into(),
            |link| link.name = "web/log".into(),
            |link| link.name = String::new(),
            |link| link.name = "x".repeat(254),
            |link| link.namespace = "../../nodes".into(),
            |link| link.namespace = "a.b".into(),
            |link| link.uid = "u 1".into(),
            |link| link.cluster_uid = Some(ClusterUid("s,1".into())),
            |link| link.cluster_name = Some("x".repeat(64)),
        ];
        for change in changes {
            let mut link = link();
            change(&mut link);
            let meta = ObjectMeta {
                labels: Some(link.labels()),
                annotations: Some(link.annotations()),
                ..Default::default()
            };
            assert_eq!(ParentLink::of(&meta), None, "{link:?}");
        }
    }

    #[test]
    fn another_sources_objects_are_not_ours() {
        assert!(link().belongs_to(&ClusterUid("s1".into())));
        assert!(!link().belongs_to(&ClusterUid("s2".into())));
        let plain = ParentLink {
            cluster_uid: None,
            ..link()
        };
        assert!(
            plain.belongs_to(&ClusterUid("s2".into())),
            "judged by the plain keys"
        );
    }
}
