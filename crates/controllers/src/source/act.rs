//! Reads what a decision about a Source rests on, and carries out its steps: one request each, no policy.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use pilotage_clusters::Watch;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::lease::Leadership;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::accounts;
use super::decide::{
    BindingKey, BindingObject, Observed, RightObserved, Roles, Step, bindings, right_binding,
};
use super::object::SourceObject;

/// Why the identity of a Source doesn't stand.
#[derive(Debug, Error)]
pub(crate) enum ActError {
    /// Another process leads now.
    #[error("this process doesn't lead any more")]
    NotLeader,
    /// A request failed.
    #[error("failed to {what}: {source}")]
    Call {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: CallError,
    },
}

impl ActError {
    fn of(what: impl Into<String>) -> impl FnOnce(CallError) -> Self {
        let what = what.into();
        move |source| Self::Call { what, source }
    }

    /// One word in camel case, for the condition.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::NotLeader => "NotLeader",
            Self::Call { source, .. } => match source.kind() {
                Failure::Forbidden => "Forbidden",
                Failure::NotFound => "NotFound",
                Failure::Invalid => "Invalid",
                _ => "Failed",
            },
        }
    }
}

/// Reads and writes of the source controller.
pub(crate) struct Actor {
    pub(crate) client: Client,
    pub(crate) leadership: Leadership,
    pub(crate) accounts: Watch<ServiceAccount>,
}

impl Actor {
    /// Reads what the API server has now: Sources change seldom, and a stale read would make an account ours that
    /// isn't.
    pub(crate) async fn observe<'a>(
        &self,
        source: &'a SourceObject,
        roles: &'a Roles,
        surplus: Vec<(BindingKey, String)>,
    ) -> Result<Observed<'a>, ActError> {
        let account = match &source.account {
            None => None,
            Some(wanted) => {
                let what = format!("read service account {}/{}", wanted.namespace, wanted.name);
                let client = self.client.clone();
                let api: Api<ServiceAccount> = Api::namespaced(client, &wanted.namespace);
                // No more of it is read, however much there is.
                let found = call::within(CALL_LIMIT, api.get_metadata_opt(&wanted.name)).await;
                found.map_err(ActError::of(what))?.map(accounts::known)
            }
        };
        let (binding, viewer) = bindings(&source.key);
        let mut missing_roles = Vec::new();
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        for role in [&roles.source, &roles.summary_viewer] {
            let found = get(&api, role)
                .await
                .map_err(ActError::of(format!("read role {role}")))?;
            if found.is_none() {
                missing_roles.push(role.clone());
            }
        }
        let mut rights = Vec::new();
        for right in source.rights.iter().copied() {
            let role = get(&api, right.role()).await;
            let role = role.map_err(ActError::of(format!("read role {}", right.role())))?;
            rights.push(RightObserved {
                right,
                binding: self.binding(&right_binding(&source.key, right)).await?,
                has_role: role.is_some(),
            });
        }
        let owned = self.accounts.filter(|account| {
            let owners = account.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.uid == source.uid)
        });
        Ok(Observed {
            source,
            roles,
            account,
            owned: owned
                .into_iter()
                .map(|account| (*account).clone())
                .collect(),
            binding: self.binding(&binding).await?,
            viewer: self.binding(&viewer).await?,
            missing_roles,
            rights,
            surplus,
        })
    }

    async fn binding(&self, key: &BindingKey) -> Result<Option<BindingObject>, ActError> {
        let what = format!("read binding {}", key.name);
        if let Some(namespace) = &key.namespace {
            let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
            let found = get(&api, &key.name).await.map_err(ActError::of(what))?;
            Ok(found.map(|found| BindingObject {
                uid: found.metadata.uid.unwrap_or_default(),
                role: found.role_ref,
                subjects: found.subjects.unwrap_or_default(),
                labels: found.metadata.labels.unwrap_or_default(),
                owners: found.metadata.owner_references.unwrap_or_default(),
            }))
        } else {
            let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
            let found = get(&api, &key.name).await.map_err(ActError::of(what))?;
            Ok(found.map(|found| BindingObject {
                uid: found.metadata.uid.unwrap_or_default(),
                role: found.role_ref,
                subjects: found.subjects.unwrap_or_default(),
                labels: found.metadata.labels.unwrap_or_default(),
                owners: found.metadata.owner_references.unwrap_or_default(),
            }))
        }
    }

    /// Does one step.
    pub(crate) async fn act(&self, step: Step, field_manager: &str) -> Result<(), ActError> {
        if !self.leadership.is_leader() {
            return Err(ActError::NotLeader);
        }
        let params = PatchParams::apply(field_manager).force();
        match step {
            Step::ApplyAccount {
                namespace,
                name,
                value,
            } => {
                let what = format!("apply service account {namespace}/{name}");
                let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
                let patch = Patch::Apply(value);
                let call = api.patch_metadata(&name, &params, &patch);
                let account = call::within(CALL_LIMIT, call)
                    .await
                    .map_err(ActError::of(what))?;
                self.accounts.fold(accounts::known(account));
                Ok(())
            }
            Step::DeleteAccount {
                namespace,
                name,
                uid,
            } => {
                let what = format!("delete service account {namespace}/{name}");
                let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
                delete(&api, &name, uid).await.map_err(ActError::of(what))
            }
            Step::ApplyBinding { key, value } => {
                let what = ActError::of(format!("apply binding {}", key.name));
                let patch = Patch::Apply(value);
                let applied = if let Some(namespace) = &key.namespace {
                    let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
                    let call = api.patch(&key.name, &params, &patch);
                    call::within(CALL_LIMIT, call).await.map(drop)
                } else {
                    let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
                    let call = api.patch(&key.name, &params, &patch);
                    call::within(CALL_LIMIT, call).await.map(drop)
                };
                applied.map_err(what)
            }
            Step::DeleteBinding { key, uid } => self.delete_binding(&key, uid).await,
        }
    }

    /// Deletes a binding, if it has that UID.
    pub(crate) async fn delete_binding(
        &self,
        key: &BindingKey,
        uid: String,
    ) -> Result<(), ActError> {
        if !self.leadership.is_leader() {
            return Err(ActError::NotLeader);
        }
        let what = ActError::of(format!("delete binding {}", key.name));
        let deleted = if let Some(namespace) = &key.namespace {
            let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
            delete(&api, &key.name, uid).await
        } else {
            let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
            delete(&api, &key.name, uid).await
        };
        deleted.map_err(what)
    }
}

/// A live read; `None` if there is no such object.
pub(crate) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, CallError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    call::within(CALL_LIMIT, api.get_opt(name)).await
}

async fn delete<K>(api: &Api<K>, name: &str, uid: String) -> Result<(), CallError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        ..Preconditions::default()
    });
    match call::within(CALL_LIMIT, api.delete(name, &params)).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), Failure::NotFound | Failure::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}
