//! Server-side apply of YAML text with any kinds, as `kubectl apply --server-side` does, without starting a process.
//! It knows nothing of control planes.

use std::collections::HashMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::core::discovery::Scope;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::wait::{self, WaitError};

/// Field manager of everything that is applied here.
pub const FIELD_MANAGER: &str = "testkit";

/// Text can't be applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no YAML.
    #[error("that is no YAML: {reason}")]
    Yaml {
        /// What the parser says.
        reason: String,
    },
    /// A document is no object.
    #[error("document {index} is no Kubernetes object: {reason}")]
    Object {
        /// Which one, from 1.
        index: usize,
        /// Why not.
        reason: String,
    },
    /// The server doesn't know the kind.
    #[error("{kind} is unknown to the server")]
    Kind {
        /// `group/version/Kind`
        kind: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server refused it.
    #[error("{kind} {name} was not applied")]
    Refused {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A CRD was taken and doesn't serve.
    #[error("a CRD did not become Established")]
    Established(#[source] Box<WaitError>),
}

/// Documents of a YAML text; empty ones are left out.
pub fn documents(yaml: &str) -> Result<Vec<Value>, Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).map_err(|error| Error::Yaml {
        reason: error.to_string(),
    })?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Applies every document in order, with force, and returns what the server stored. An object without namespace goes
/// to `namespace` if its kind has one. After a CRD it waits until the kind is served.
pub async fn apply_yaml(
    client: &Client,
    yaml: &str,
    namespace: &str,
) -> Result<Vec<DynamicObject>, Error> {
    apply_values(client, documents(yaml)?, namespace).await
}

/// [`apply_yaml`] of objects.
pub async fn apply_values(
    client: &Client,
    objects: Vec<Value>,
    namespace: &str,
) -> Result<Vec<DynamicObject>, Error> {
    let mut known: HashMap<GroupVersionKind, (ApiResource, Scope)> = HashMap::new();
    let mut applied = Vec::new();
    for (index, document) in objects.into_iter().enumerate() {
        let object: DynamicObject =
            serde_json::from_value(document.clone()).map_err(|error| Error::Object {
                index: index + 1,
                reason: error.to_string(),
            })?;
        let missing = |reason: &str| Error::Object {
            index: index + 1,
            reason: reason.to_owned(),
        };
        let types = object
            .types
            .as_ref()
            .ok_or_else(|| missing("no apiVersion and kind"))?;
        let name = object
            .metadata
            .name
            .clone()
            .ok_or_else(|| missing("no name"))?;
        let gvk = GroupVersionKind::try_from(types).map_err(|error| missing(&error.to_string()))?;
        if !known.contains_key(&gvk) {
            let (resource, capabilities) = kube::discovery::pinned_kind(client, &gvk)
                .await
                .map_err(|source| Error::Kind {
                    kind: format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind),
                    source: Box::new(source),
                })?;
            known.insert(gvk.clone(), (resource, capabilities.scope));
        }
        let (resource, scope) = &known[&gvk];
        let api: Api<DynamicObject> = match scope {
            Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
                Api::namespaced_with(client.clone(), &namespace, resource)
            }
            Scope::Cluster => Api::all_with(client.clone(), resource),
        };
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let stored = api
            .patch(&name, &params, &Patch::Apply(&document))
            .await
            .map_err(|source| Error::Refused {
                kind: gvk.kind.clone(),
                name: name.clone(),
                source: Box::new(source),
            })?;
        if gvk.kind == "CustomResourceDefinition" {
            established(client, &name).await?;
        }
        applied.push(stored);
    }
    Ok(applied)
}

/// Waits until a CRD's kind is served.
pub async fn established(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let is_established = |crd: &CustomResourceDefinition| {
        let conditions = crd
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|conditions| {
            conditions
                .iter()
                .any(|c| c.type_ == "Established" && c.status == "True")
        })
    };
    wait::wait_for(&api, name, is_established, wait::LIMIT)
        .await
        .map(drop)
        .map_err(|error| Error::Established(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_and_empty_ones_left_out() {
        let found = documents("---\na: 1\n---\n---\n# only words\n---\nb: \"on\"\n").unwrap();
        assert_eq!(
            found,
            [serde_json::json!({"a": 1}), serde_json::json!({"b": "on"})]
        );
        assert!(documents("a: [").is_err());
    }
}
