//! What a Source's identity consists of, and what is to be done until it stands: pure.
//!
//! A service account that somebody else made is bound but never owned: it must not go with the Source. One that we made
//! may serve several Sources; each owns it by a reference of its own, so that it goes with the last.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pilotage_api::conditions::{ConditionState, types};
use pilotage_api::keys::MANAGED_BY;
use pilotage_api::{Right, keys, names};
use serde_json::{Value, json};

use super::object::{SourceKey, SourceObject};

/// Reason of a Ready condition: bound to a role that doesn't exist.
pub(crate) const ROLE_MISSING: &str = "RoleMissing";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Names of the roles that sources are bound to.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    pub(crate) source: String,
    pub(crate) summary_viewer: String,
}

/// Where a binding lives and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BindingKey {
    /// Namespace of a `RoleBinding`; `None`: a `ClusterRoleBinding`.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// What is known of a binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BindingObject {
    pub(crate) uid: String,
    pub(crate) role: RoleRef,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) owners: Vec<OwnerReference>,
}

/// All that a decision rests on.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) source: &'a SourceObject,
    pub(crate) roles: &'a Roles,
    /// The service account that the spec names, if it exists.
    pub(crate) account: Option<ServiceAccount>,
    /// Service accounts that this Source owns.
    pub(crate) owned: Vec<ServiceAccount>,
    /// The binding to the source role, if there is one of that name.
    pub(crate) binding: Option<BindingObject>,
    /// The binding to the summary-viewer role, if there is one of that name.
    pub(crate) viewer: Option<BindingObject>,
    /// Roles that don't exist.
    pub(crate) missing_roles: Vec<String>,
    /// What is known of each right that the spec asks for.
    pub(crate) rights: Vec<RightObserved>,
    /// Bindings of this Source to rights that the spec doesn't ask for.
    pub(crate) surplus: Vec<(BindingKey, String)>,
}

/// What is known of a right that a Source asks for.
#[derive(Clone, Debug)]
pub(crate) struct RightObserved {
    pub(crate) right: Right,
    /// Its binding, if there is one of that name.
    pub(crate) binding: Option<BindingObject>,
    /// Whether its role exists.
    pub(crate) has_role: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Apply a service account with our reference to it.
    ApplyAccount {
        namespace: String,
        name: String,
        value: Value,
    },
    /// Delete a service account that nobody else owns.
    DeleteAccount {
        namespace: String,
        name: String,
        uid: String,
    },
    /// Apply a binding.
    ApplyBinding { key: BindingKey, value: Value },
    /// Delete a binding: it is for nobody, or for another role, which can't be changed.
    DeleteBinding { key: BindingKey, uid: String },
}

/// What to do, and the Ready condition if all of it succeeds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) ready: ConditionState,
}

/// The two bindings of a Source: to the source role and to the summary-viewer role.
pub(crate) fn bindings(key: &SourceKey) -> (BindingKey, BindingKey) {
    let cluster_wide = |name| BindingKey {
        namespace: None,
        name,
    };
    match &key.namespace {
        Some(namespace) => (
            BindingKey {
                namespace: Some(namespace.clone()),
                name: names::source_binding(&key.name),
            },
            cluster_wide(names::source_summary_viewer_binding(namespace, &key.name)),
        ),
        None => (
            cluster_wide(names::cluster_source_binding(&key.name)),
            cluster_wide(names::cluster_source_summary_viewer_binding(&key.name)),
        ),
    }
}

/// The binding that gives a Source a right.
pub(crate) fn right_binding(key: &SourceKey, right: Right) -> BindingKey {
    match &key.namespace {
        Some(namespace) => BindingKey {
            namespace: Some(namespace.clone()),
            name: names::source_right_binding(&key.name, right.flag()),
        },
        None => BindingKey {
            namespace: None,
            name: names::cluster_source_right_binding(&key.name, right.flag()),
        },
    }
}

/// What to do until the identity of a Source stands.
pub(crate) fn decide(observed: &Observed<'_>) -> Plan {
    let source = observed.source;
    let (binding, viewer) = bindings(&source.key);
    let subjects = subjects(source);
    let mut steps = Vec::new();
    steps.extend(account(observed));
    steps.extend(old_accounts(observed));
    for (key, role, current) in [
        (binding, &observed.roles.source, observed.binding.as_ref()),
        (
            viewer,
            &observed.roles.summary_viewer,
            observed.viewer.as_ref(),
        ),
    ] {
        bind(source, key, role, &subjects, current, &mut steps);
    }
    // A right whose role isn't there isn't this installation's to give.
    for observed in observed.rights.iter().filter(|it| it.has_role) {
        let key = right_binding(&source.key, observed.right);
        let current = observed.binding.as_ref();
        bind(
            source,
            key,
            observed.right.role(),
            &subjects,
            current,
            &mut steps,
        );
    }
    for (key, uid) in &observed.surplus {
        steps.push(Step::DeleteBinding {
            key: key.clone(),
            uid: uid.clone(),
        });
    }
    Plan {
        steps,
        ready: ready(observed, subjects.is_empty()),
    }
}

fn subjects(source: &SourceObject) -> Vec<Subject> {
    let account = source.account.as_ref().map(|account| Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.name.clone(),
        namespace: Some(account.namespace.clone()),
        api_group: None,
    });
    let user = source.user.as_ref().map(|user| Subject {
        kind: "User".to_owned(),
        name: user.clone(),
        namespace: None,
        api_group: Some(RBAC.to_owned()),
    });
    account.into_iter().chain(user).collect()
}

fn is_managed(meta: &ObjectMeta) -> bool {
    let (key, value) = MANAGED_BY;
    meta.labels
        .as_ref()
        .and_then(|labels| labels.get(key))
        .is_some_and(|found| found == value)
}

fn is_owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references
        .iter()
        .flatten()
        .any(|owner| owner.uid == uid)
}

fn account(observed: &Observed<'_>) -> Option<Step> {
    let source = observed.source;
    let wanted = source.account.as_ref()?;
    let stands = observed.account.as_ref().is_some_and(|account| {
        !is_managed(&account.metadata) || is_owned_by(&account.metadata, &source.uid)
    });
    if stands {
        return None;
    }
    let (label, value) = MANAGED_BY;
    Some(Step::ApplyAccount {
        namespace: wanted.namespace.clone(),
        name: wanted.name.clone(),
        value: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": wanted.name,
                "namespace": wanted.namespace,
                "labels": { label: value },
                "ownerReferences": [source.owner()],
            },
        }),
    })
}

/// Accounts of an earlier spec: deleted, or only let go of if another Source owns them too.
fn old_accounts(observed: &Observed<'_>) -> Vec<Step> {
    let source = observed.source;
    let wanted = source.account.as_ref();
    let mut steps = Vec::new();
    for account in &observed.owned {
        let meta = &account.metadata;
        let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid)
        else {
            continue;
        };
        if wanted.is_some_and(|wanted| &wanted.name == name && &wanted.namespace == namespace) {
            continue;
        }
        let shared = meta
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.uid != source.uid);
        steps.push(if shared {
            // Applying less than before takes away what this Source alone had applied.
            let (label, value) = MANAGED_BY;
            Step::ApplyAccount {
                namespace: namespace.clone(),
                name: name.clone(),
                value: json!({
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": { "name": name, "namespace": namespace, "labels": { label: value } },
                }),
            }
        } else {
            Step::DeleteAccount {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            }
        });
    }
    steps
}

fn bind(
    source: &SourceObject,
    key: BindingKey,
    role: &str,
    subjects: &[Subject],
    current: Option<&BindingObject>,
    steps: &mut Vec<Step>,
) {
    if subjects.is_empty() {
        // For nobody. One that isn't ours by its mark may be somebody else's of that name.
        if let Some(current) = current.filter(|current| current.is_of(source)) {
            steps.push(Step::DeleteBinding {
                key,
                uid: current.uid.clone(),
            });
        }
        return;
    }
    let same_role =
        |current: &BindingObject| current.role.kind == "ClusterRole" && current.role.name == role;
    match current {
        Some(current)
            if same_role(current)
                && current.subjects == subjects
                && current.is_of(source)
                && current.is_owned_as_wanted(source, &key) => {}
        Some(current) if !same_role(current) => {
            let uid = current.uid.clone();
            steps.push(Step::DeleteBinding {
                key: key.clone(),
                uid,
            });
            steps.push(apply_binding(source, key, role, subjects));
        }
        Some(_) | None => steps.push(apply_binding(source, key, role, subjects)),
    }
}

impl BindingObject {
    fn is_of(&self, source: &SourceObject) -> bool {
        self.labels
            .get(keys::SOURCE_UID)
            .is_some_and(|uid| *uid == source.uid)
    }

    fn is_owned_as_wanted(&self, source: &SourceObject, key: &BindingKey) -> bool {
        !can_own(source, key) || self.owners.iter().any(|owner| owner.uid == source.uid)
    }
}

/// A namespaced object can't own a cluster-scoped one: such a binding is swept up when its Source is gone.
fn can_own(source: &SourceObject, key: &BindingKey) -> bool {
    key.namespace.is_some() || source.key.namespace.is_none()
}

fn apply_binding(source: &SourceObject, key: BindingKey, role: &str, subjects: &[Subject]) -> Step {
    let (labels, annotations) = source.marks();
    let kind = if key.namespace.is_some() {
        "RoleBinding"
    } else {
        "ClusterRoleBinding"
    };
    let mut value = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind,
        "metadata": { "name": key.name, "labels": labels, "annotations": annotations },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": subjects,
    });
    if let Some(namespace) = &key.namespace {
        value["metadata"]["namespace"] = json!(namespace);
    }
    if can_own(source, &key) {
        value["metadata"]["ownerReferences"] = json!([source.owner()]);
    }
    Step::ApplyBinding { key, value }
}

fn ready(observed: &Observed<'_>, nobody: bool) -> ConditionState {
    let of = |status, reason: &str, message| ConditionState {
        type_: types::READY,
        status: Some(status),
        reason: reason.to_owned(),
        message,
    };
    let source = observed.source;
    let field = match source.key.namespace {
        Some(_) => "spec.serviceAccountName",
        None => "spec.serviceAccount",
    };
    let invalid = |message: String| of(false, "InvalidSpec", message);
    if source.misnamed {
        return invalid(format!(
            "{field} is nothing that a service account can be called"
        ));
    }
    if nobody {
        return invalid(format!("{field} or spec.userName must be given"));
    }
    if !observed.missing_roles.is_empty() {
        let roles = observed.missing_roles.join(" and ");
        return of(
            false,
            ROLE_MISSING,
            format!("bound, but without effect: there is no ClusterRole {roles}"),
        );
    }
    let lacking = observed.rights.iter().filter(|it| !it.has_role);
    let lacking: Vec<Right> = lacking.map(|it| it.right).collect();
    if !lacking.is_empty() {
        let list = |of: fn(Right) -> &'static str| {
            let texts: Vec<&str> = lacking.iter().map(|right| of(*right)).collect();
            texts.join(",")
        };
        return of(
            false,
            ROLE_MISSING,
            format!(
                "bound, but without the rights {names}: Pilotage isn't installed with them here. Add them to the \
                 chart's value `rights`; or give `kubectl pilotage install --rights={flags}` again with its other \
                 flags and rights; or apply what `pilotage rbac --rights={flags}` prints with the flags of this \
                 installation (`| kubectl apply -f -`)",
                names = list(Right::name),
                flags = list(Right::flag),
            ),
        );
    }
    let account = source.account.as_ref();
    let account =
        account.map(|account| format!("service account {}/{}", account.namespace, account.name));
    let user = source.user.as_ref().map(|user| format!("user {user}"));
    let who: Vec<String> = account.into_iter().chain(user).collect();
    let place = match &source.key.namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in all namespaces".to_owned(),
    };
    of(
        true,
        "Bound",
        format!(
            "{} may run pods {place}{}",
            who.join(" and "),
            and_rights(source)
        ),
    )
}

fn and_rights(source: &SourceObject) -> String {
    let names: Vec<&str> = source.rights.iter().map(|right| right.name()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", with the rights {}", names.join(", "))
    }
}

#[cfg(test)]
#[path = "decide/tests.rs"]
mod tests;
