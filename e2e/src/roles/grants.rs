//! The rights that roles give, one by one, from the objects that `pilotage rbac` prints.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::NAMED;

/// A part of Pilotage with roles of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Namespace where it runs.
    pub(super) home: &'static str,
}

impl Part {
    pub(super) const fn new(name: &'static str, home: &'static str) -> Self {
        Self { name, home }
    }

    /// Name of its roles.
    pub(super) fn role(self) -> String {
        format!("pilotage-{}", self.name)
    }
}

/// Roles that aren't understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No role at all.
    #[error("`pilotage rbac` printed something that is no role: {0}")]
    Shape(#[from] serde_json::Error),
    /// Paths don't show in what is compared here.
    #[error("{0} grants paths that are no resources; no check knows them yet")]
    Paths(String),
}

/// One right: one verb, on one resource, in one place, of one name or all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The role that gives it.
    pub role: String,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// API group; empty for the core group.
    pub group: String,
    /// `pods` or `pods/status`.
    pub resource: String,
    /// Of this name only.
    pub name: Option<String>,
    /// `get`, `create`…
    pub verb: String,
}

impl Grant {
    /// Whether it is for namespaces that are named at the installation.
    pub(super) fn is_for_named(&self) -> bool {
        self.namespace.as_deref() == Some(NAMED)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.role, self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, " ({})", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " called {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct Role {
    metadata: Metadata,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    urls: Vec<String>,
    verbs: Vec<String>,
}

/// The rights in what was printed for a part: its own, and those that it may give to others.
pub(super) fn of(part: Part, objects: &[Value]) -> Result<BTreeSet<Grant>, Error> {
    let mut grants = BTreeSet::new();
    let is_role = |object: &&Value| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
    for object in objects.iter().filter(is_role) {
        let role: Role = serde_json::from_value(object.clone())?;
        for rule in role.rules {
            if !rule.urls.is_empty() {
                return Err(Error::Paths(part.role()));
            }
            let names: Vec<_> = if rule.resource_names.is_empty() {
                vec![None]
            } else {
                rule.resource_names.into_iter().map(Some).collect()
            };
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    for name in &names {
                        grants.extend(rule.verbs.iter().map(|verb| Grant {
                            role: role.metadata.name.clone(),
                            namespace: role.metadata.namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            verb: verb.clone(),
                        }));
                    }
                }
            }
        }
    }
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_role_is_taken_apart_into_single_rights() {
        let part = Part::new("webhook", "pilotage");
        let objects = [
            json!({ "kind": "ServiceAccount", "metadata": { "name": "webhook" } }),
            json!({ "kind": "Role", "metadata": { "name": "pilotage-webhook", "namespace": "pilotage" }, "rules": [
                { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"] },
                { "apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["list", "watch"] },
            ] }),
        ];
        let grants: Vec<_> = of(part, &objects)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(grants.len(), 6, "{grants:#?}");
        let secret = "pilotage-webhook: get secrets called a in namespace pilotage";
        assert!(grants.iter().any(|grant| grant == secret), "{grants:#?}");
    }

    #[test]
    fn a_right_that_would_go_unchecked_is_refused() {
        let part = Part::new("webhook", "pilotage");
        let role = |rule: Value| {
            [json!({ "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": [rule] })]
        };
        let paths = role(json!({ "nonResourceURLs": ["/version"], "verbs": ["get"] }));
        assert!(matches!(of(part, &paths), Err(Error::Paths(_))));
        let new = role(json!({ "fieldsOfTheFuture": [], "verbs": ["get"] }));
        assert!(matches!(of(part, &new), Err(Error::Shape(_))));
    }
}
