//! What a target is called, and what we read of its `Target` or `ClusterTarget` object.
//!
//! The two kinds become one type here, so that nothing later asks which it was. Must not know clients or tasks.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use pilotage_api::{ClusterTarget, GROUP, Target, TargetStatus, VERSION, names};

use crate::spec::{Access, SpecFault};

/// Which target: a `Target` in a namespace, or a `ClusterTarget`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetKey {
    /// Namespace of a `Target`; `None` for a `ClusterTarget`.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl TargetKey {
    /// The key of a `Target`.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a `ClusterTarget`.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// Name of the virtual node that stands for the target.
    pub fn node(&self) -> String {
        names::virtual_node(self.namespace.as_deref(), &self.name)
    }

    /// `Target` or `ClusterTarget`.
    pub fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "Target",
            None => "ClusterTarget",
        }
    }

    /// Reference for events about the object with this UID.
    pub fn reference(&self, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(self.kind().to_owned()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    /// Whether pods of `namespace` may be sent there: a `Target` takes those of its own namespace only.
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One version of a `Target` or `ClusterTarget`.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetObject {
    /// Which target.
    pub key: TargetKey,
    /// UID of the object.
    pub uid: String,
    /// Version that was read.
    pub resource_version: String,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// When it was made, by the API server's clock.
    pub created: Timestamp,
    /// When its deletion was asked for, by the API server's clock.
    pub deletion: Option<Timestamp>,
    /// Finalizers; in a registry a hundred of them in their places, and ours.
    pub finalizers: Vec<String>,
    /// Labels; in a registry those that somebody reads ([`Kept`](crate::Kept)).
    pub labels: BTreeMap<String, String>,
    /// Annotations; in a registry those that somebody reads, and not more of each than is read.
    pub annotations: BTreeMap<String, String>,
    /// How the target is reached, or why the spec can't say it.
    pub access: Result<Access, SpecFault>,
    /// Labels of the target whose `key=value` matches stay off the virtual node; not yet parsed.
    pub excluded_labels_regexp: Option<String>,
    /// Status as read.
    pub status: TargetStatus,
}

impl TargetObject {
    /// Reads a `Target`; `None` without namespace, name or UID, which no API server gives.
    pub fn from_target(target: &Target) -> Option<Self> {
        let spec = &target.spec;
        let namespace = target.metadata.namespace.clone()?;
        let access = Access::of_target(&namespace, spec);
        Self::new(
            &target.metadata,
            Some(namespace),
            access,
            spec.excluded_labels_regexp.clone(),
            target.status.clone(),
        )
    }

    /// Reads a `ClusterTarget`; `None` without name or UID, which no API server gives.
    pub fn from_cluster_target(target: &ClusterTarget) -> Option<Self> {
        let spec = &target.spec;
        Self::new(
            &target.metadata,
            None,
            Access::of_cluster_target(spec),
            spec.excluded_labels_regexp.clone(),
            target.status.clone(),
        )
    }

    fn new(
        meta: &ObjectMeta,
        namespace: Option<String>,
        access: Result<Access, SpecFault>,
        excluded_labels_regexp: Option<String>,
        status: Option<TargetStatus>,
    ) -> Option<Self> {
        Some(Self {
            key: TargetKey {
                namespace,
                name: meta.name.clone()?,
            },
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            created: meta
                .creation_timestamp
                .as_ref()
                .map(|time| time.0)
                .unwrap_or_default(),
            deletion: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            access,
            excluded_labels_regexp,
            status: status.unwrap_or_default(),
        })
    }

    /// Whether the object is being deleted: no new pods, its proxies go.
    pub fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    /// Reference for events about the object.
    pub fn reference(&self) -> ObjectReference {
        self.key.reference(&self.uid)
    }

    /// Path of the object under the API server's root.
    pub fn url(&self) -> String {
        let namespace = self.key.namespace.as_deref();
        let list = match namespace {
            Some(_) => Target::url_path(&(), namespace),
            None => ClusterTarget::url_path(&(), None),
        };
        format!("{list}/{}", self.key.name)
    }

    /// Whether the other version differs in more than its status and version numbers.
    pub(crate) fn differs_in_substance(&self, other: &Self) -> bool {
        let Self {
            key,
            uid,
            resource_version: _,
            generation,
            created: _,
            deletion,
            finalizers,
            labels,
            annotations,
            access,
            excluded_labels_regexp,
            status: _,
        } = self;
        (
            key,
            uid,
            generation,
            deletion,
            finalizers,
            labels,
            annotations,
            access,
            excluded_labels_regexp,
        ) != (
            &other.key,
            &other.uid,
            &other.generation,
            &other.deletion,
            &other.finalizers,
            &other.labels,
            &other.annotations,
            &other.access,
            &other.excluded_labels_regexp,
        )
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::TargetSpec;

    use super::*;

    fn object(status_node: Option<&str>) -> TargetObject {
        let mut target = Target::new(
            "c2",
            TargetSpec {
                self_: Some(true),
                ..TargetSpec::default()
            },
        );
        target.metadata.namespace = Some("default".into());
        target.metadata.uid = Some("u".into());
        target.status = Some(TargetStatus {
            node: status_node.map(Into::into),
            ..TargetStatus::default()
        });
        TargetObject::from_target(&target).unwrap()
    }

    #[test]
    fn a_target_serves_its_namespace_a_cluster_target_all() {
        let target = TargetKey::namespaced("shop", "c2");
        assert_eq!(
            (target.serves("shop"), target.serves("bank")),
            (true, false)
        );
        assert!(TargetKey::cluster("c2").serves("bank"));
        assert_eq!(target.node(), "admiralty-shop-c2");
        assert_eq!(
            (target.to_string(), target.kind()),
            ("shop/c2".into(), "Target")
        );
    }

    #[test]
    fn a_status_write_is_no_change_in_substance() {
        assert!(!object(None).differs_in_substance(&object(Some("n"))));
        let deleting = TargetObject {
            deletion: Some(Timestamp::UNIX_EPOCH),
            ..object(None)
        };
        assert!(object(None).differs_in_substance(&deleting));
    }

    #[test]
    fn the_path_follows_from_the_kind() {
        assert_eq!(
            object(None).url(),
            "/apis/multicluster.admiralty.io/v1alpha1/namespaces/default/targets/c2"
        );
    }
}
