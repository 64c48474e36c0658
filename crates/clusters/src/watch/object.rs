//! What a store reads of an object: where it stands, which version it is, and whether it is about to go.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Whether nothing but finalizers can have kept the object: a pod whose grace hasn't ended is still there, whatever its
/// labels. (A deletion is only carried out at grace 0, which is written before.)
pub(super) fn is_at_its_end(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds == Some(0)
}

pub(super) fn namespace<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

pub(super) fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

pub(super) fn version<K: Resource>(object: &K) -> u64 {
    number(
        object
            .meta()
            .resource_version
            .as_deref()
            .unwrap_or_default(),
    )
}

/// A version as a number; 0, which is never newer than anything, if it is none.
pub(super) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}
