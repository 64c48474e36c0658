//! What an event says, and about what. It must not know how events are written.

use std::sync::Arc;

use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource;
use pilotage_sched::PodInfo;

/// Normal or Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// For information.
    Normal,
    /// Something is wrong.
    Warning,
}

impl EventType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// `apiVersion` of the object.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Regarding {
    /// A pod.
    pub fn pod(pod: &Pod) -> Self {
        Self::object(pod)
    }

    /// A pod that the scheduler has read.
    pub(crate) fn scheduled(pod: &PodInfo) -> Self {
        Self {
            api_version: Pod::API_VERSION.to_owned(),
            kind: Pod::KIND.to_owned(),
            namespace: pod.key.namespace.to_string(),
            name: pod.key.name.to_string(),
            uid: pod.uid.to_string(),
        }
    }

    /// An object, whether the API server sent it whole or not.
    pub fn object<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// What a reference names.
    pub fn reference(reference: ObjectReference) -> Self {
        Self {
            api_version: reference.api_version.unwrap_or_default(),
            kind: reference.kind.unwrap_or_default(),
            namespace: reference.namespace.unwrap_or_default(),
            name: reference.name.unwrap_or_default(),
            uid: reference.uid.unwrap_or_default(),
        }
    }
}

/// One occurrence. Equal ones are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Occurrence {
    /// What it is about.
    pub regarding: Regarding,
    /// Normal or Warning.
    pub type_: EventType,
    /// Why, in one CamelCase word.
    pub reason: &'static str,
    /// What was tried, in one word.
    pub action: &'static str,
    /// For people; cut at 1024 bytes.
    pub note: String,
    /// Who says so: the profile's scheduler name.
    pub controller: Arc<str>,
}
