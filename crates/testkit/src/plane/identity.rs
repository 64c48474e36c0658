//! Who else may talk to a control plane: service accounts by token, users by certificate.

use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::{ControlPlane, Error};
use crate::access::{Access, Credential};
use crate::apply::FIELD_MANAGER;
use crate::usage;

/// Longer than any test or demo.
const TOKEN_SECONDS: i64 = 24 * 3600;

impl ControlPlane {
    /// Makes sure that a service account exists.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(name, &params, &Patch::Apply(account)).await;
        applied.map(drop).map_err(Error::request(format!(
            "make service account {namespace}/{name}"
        )))
    }

    /// A fresh token of an existing service account.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<String, Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = api
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(Error::request(format!("get a token of {namespace}/{name}")))?;
        Ok(answer
            .status
            .and_then(|status| status.token)
            .unwrap_or_default())
    }

    /// An existing service account.
    pub async fn service_account_access(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Access, Error> {
        let token = self.service_account_token(namespace, name).await?;
        Ok(self
            .admin
            .with(Credential::Token(token))
            .in_namespace(namespace))
    }

    /// A client that acts as an existing service account.
    pub async fn service_account_client(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Client, Error> {
        Ok(self
            .service_account_access(namespace, name)
            .await?
            .client()?)
    }

    /// The same for a part of Pilotage, such as `controllers`: what it asks for, and what is refused to it, counts as
    /// that part's ([`crate::usage`]), if its role is called as that part's.
    pub async fn part_client(
        &self,
        namespace: &str,
        name: &str,
        part: &str,
    ) -> Result<Client, Error> {
        let access = self.service_account_access(namespace, name).await?;
        Ok(access.with_agent(&usage::agent(part)).client()?)
    }

    /// Kubeconfig text of an existing service account.
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<String, Error> {
        Ok(self
            .service_account_access(namespace, name)
            .await?
            .kubeconfig_yaml())
    }

    /// The same as a file in the plane's directory.
    pub async fn kubeconfig_file_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf, Error> {
        let path = self
            .directory
            .join(format!("{namespace}-{name}.kubeconfig"));
        self.service_account_access(namespace, name)
            .await?
            .write(&path)?;
        Ok(path)
    }

    /// A user by client certificate, in at most one group besides `system:authenticated`. What it may do is for RBAC.
    pub fn user_access(&self, user: &str, group: Option<&str>) -> Result<Access, Error> {
        let pair = self.authority.client(user, group)?;
        Ok(self.admin.with(Credential::Certificate(pair)))
    }

    /// Somebody without credentials.
    pub fn anonymous_access(&self) -> Access {
        self.admin.with(Credential::Anonymous)
    }
}
