//! Objects for tests, in one line each. Pure: nothing here talks to anybody.
//!
//! Every builder ends with `build()` for a typed object and `value()` for its JSON.

pub(crate) mod chaperon;
mod node;
mod pod;
mod workload;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

pub use chaperon::{ChaperonBuilder, chaperon, chaperon_of};
pub use node::{NodeBuilder, node, nodes};
pub use pod::{PodBuilder, pod};
pub use workload::{DeploymentBuilder, JobBuilder, deployment, job, namespace, service_account};

/// The parts of metadata that builders set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meta {
    name: String,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Meta {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn build(self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name).filter(|name| !name.is_empty()),
            namespace: self.namespace,
            labels: Some(self.labels).filter(|labels| !labels.is_empty()),
            annotations: Some(self.annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        }
    }
}

/// The setters that all builders have.
macro_rules! metadata_setters {
    () => {
        /// Puts it into a namespace.
        #[must_use]
        pub fn ns(mut self, namespace: impl Into<String>) -> Self {
            self.meta.namespace = Some(namespace.into());
            self
        }

        /// Adds a label.
        #[must_use]
        pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.meta.labels.insert(key.into(), value.into());
            self
        }

        /// Adds an annotation.
        #[must_use]
        pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.meta.annotations.insert(key.into(), value.into());
            self
        }
    };
}
pub(crate) use metadata_setters;

pub(crate) fn json<T: serde::Serialize>(object: &T) -> serde_json::Value {
    // Kubernetes types always serialize: their maps have text keys.
    serde_json::to_value(object).unwrap_or_default()
}

pub(crate) type Quantities = BTreeMap<String, Quantity>;
