//! What an API server is asked for to bind a pod, with its preconditions. Sent by others.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Which pod goes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a pod made anew under the same name is never bound by an old decision.
    pub uid: String,
    /// If set, the pod must still be at this version.
    pub resource_version: Option<String>,
    /// The node.
    pub node: String,
}

impl BindingRequest {
    /// The body of POST `pods/binding`.
    pub fn body(&self) -> Binding {
        Binding {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(self.name.clone()),
                uid: Some(self.uid.clone()),
                resource_version: self.resource_version.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node.clone()),
                ..ObjectReference::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_names_the_uid_and_the_version_if_asked() {
        let plain = BindingRequest {
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            uid: "u".to_owned(),
            resource_version: None,
            node: "n1".to_owned(),
        };
        let body = plain.body();
        assert_eq!(body.metadata.uid.as_deref(), Some("u"));
        assert_eq!(body.metadata.resource_version, None);
        assert_eq!(body.target.name.as_deref(), Some("n1"));
        let guarded = BindingRequest {
            resource_version: Some("7".to_owned()),
            ..plain
        };
        let body = guarded.body();
        assert_eq!(body.metadata.resource_version.as_deref(), Some("7"));
    }
}
