//! Elected pods of a `DaemonSet`: they stay where they are.
//!
//! Its controller names each pod's node in its node affinity, which a proxy pod must not keep. It would find no
//! pod on its node, and make another one, again and again.

use std::fmt;

use pilotage_api::{bounds, keys, limits};
use serde_json::Value;

/// Kind of the controller.
const KIND: &str = "DaemonSet";
/// Its API group, with the slash before the version.
const GROUP: &str = "apps/";

/// The DaemonSet whose controller made an elected pod. Longer texts than its API server takes are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// Group and version.
    pub api_version: String,
    /// Its name; its namespace is the pod's.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl DaemonSet {
    /// Kind of the object.
    pub const KIND: &str = KIND;

    /// The one that controls `pod`.
    pub fn of(pod: &Value) -> Option<Self> {
        let owners = pod["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| {
            let text = controller[field].as_str().unwrap_or_default();
            bounds::cut(text, limits::SUBDOMAIN).to_owned()
        };
        let api_version = text("apiVersion");
        (controller["kind"] == KIND && api_version.starts_with(GROUP)).then(|| Self {
            api_version,
            name: text("name"),
            uid: text("uid"),
        })
    }
}

/// What its author should know, in the words of a warning.
impl fmt::Display for DaemonSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{KIND} {:?} places its own pods, so they are not delegated: annotation {} has no effect in its template",
            self.name,
            keys::ELECT
        )
    }
}

/// CEL expression: a DaemonSet controls `object`.
pub(crate) fn controls() -> String {
    format!(
        "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) && \
         owner.kind == '{KIND}' && owner.apiVersion.startsWith('{GROUP}'))"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(owner: &Value) -> Option<DaemonSet> {
        DaemonSet::of(&json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": KIND, "name": "no-controller", "uid": "v" },
            owner,
        ] } }))
    }

    #[test]
    fn only_the_controller_counts() {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": KIND, "name": "logs", "uid": "u", "controller": true,
        });
        let found = owned(&owner).unwrap();
        assert_eq!(
            (&*found.api_version, &*found.name, &*found.uid),
            ("apps/v1", "logs", "u")
        );
        for (field, other) in [
            ("kind", json!("ReplicaSet")),
            ("apiVersion", json!("example.com/v1")),
            ("controller", json!(false)),
        ] {
            let mut owner = owner.clone();
            owner[field] = other;
            assert_eq!(owned(&owner), None, "{field}");
        }
        assert_eq!(DaemonSet::of(&json!({})), None);
    }

    #[test]
    fn texts_are_cut() {
        let long = "x".repeat(1000);
        let owner = json!({
            "apiVersion": format!("apps/{long}"), "kind": KIND, "name": long, "uid": long, "controller": true,
        });
        let found = owned(&owner).unwrap();
        assert!(found.to_string().len() < 2 * limits::SUBDOMAIN);
        assert!(
            found.api_version.len() <= limits::SUBDOMAIN && found.uid.len() <= limits::SUBDOMAIN
        );
    }
}
